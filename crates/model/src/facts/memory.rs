//! Main memory, its nodes and its pages.

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// A memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaNode {
    /// The kernel's number for it.
    pub id: u32,
    /// The hardware threads that are near to it; none for a memory-only node.
    pub cpus: CpuSet,
    /// Memory on it.
    pub total_bytes: Option<u64>,
    /// Memory on it that nothing uses, or that caches files which nothing has used lately.
    pub free_bytes: Option<u64>,
    /// Distance to each node in the order of their numbers; 10 is itself.
    pub distances: Vec<u32>,
}

/// Transparent huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugePages {
    /// `always`, `madvise`, `never`. Source: Documentation/admin-guide/mm/transhuge.rst.
    pub transparent: Option<String>,
    /// Bytes of a transparent huge page.
    pub transparent_size_bytes: Option<u64>,
}

/// Main memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// What the kernel manages.
    pub total_bytes: Option<u64>,
    /// The memory that is available without swapping, as the kernel estimates it;
    /// [`Facts::available_bytes`](super::Facts::available_bytes) also applies the cgroup's limit.
    pub available_bytes: Option<u64>,
    /// Bytes of an ordinary page.
    pub page_bytes: Option<u64>,
    /// The memory modules, according to the firmware (SMBIOS type 17). Empty if it does not report
    /// them.
    pub dimms: Vec<Dimm>,
    /// The channels with a module, if the modules' locators name their channel.
    pub channel_count: Option<u32>,
}

impl Memory {
    /// Bytes per second that the modules can transfer together, according to the firmware: the
    /// transfers per second of the slowest, times its width, on every channel.
    pub fn modules_bytes_per_s(&self) -> Option<f64> {
        let channel = |dimm: &Dimm| {
            let transfers = dimm.configured_transfers_per_s.or(dimm.speed_transfers_per_s)?;
            Some(transfers as f64 * f64::from(dimm.width_bits.unwrap_or(64)) / 8.0)
        };
        let slowest = self.dimms.iter().filter_map(channel).min_by(f64::total_cmp)?;
        Some(slowest * f64::from(self.channel_count?))
    }
}

/// A memory module. Source: SMBIOS Reference Specification (DSP0134) 3.7, section 7.18.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dimm {
    /// Its place: `DIMM_A1`.
    pub place: Option<String>,
    /// Its bank: `P0 CHANNEL A`.
    pub bank: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The transfers per second that it can do.
    pub speed_transfers_per_s: Option<u64>,
    /// The transfers per second for which it is configured.
    pub configured_transfers_per_s: Option<u64>,
    /// Bits of data per transfer.
    pub width_bits: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_move_what_the_slowest_can_on_every_channel() {
        let dimm = |speed, configured| Dimm {
            speed_transfers_per_s: Some(speed),
            configured_transfers_per_s: configured,
            ..Dimm::default()
        };
        let mut memory = Memory {
            dimms: vec![dimm(3_200_000_000, None), dimm(4_800_000_000, Some(2_400_000_000))],
            ..Memory::default()
        };
        assert_eq!(memory.modules_bytes_per_s(), None);
        memory.channel_count = Some(2);
        assert_eq!(memory.modules_bytes_per_s(), Some(38.4e9));
    }
}

//! Main memory and huge pages. Source: proc_meminfo(5),
//! Documentation/admin-guide/mm/transhuge.rst.

use std::collections::BTreeSet;

use costof_model::facts::{Dimm, HugePages, Memory};

use super::dmi;
use super::folder::{Folder, bytes_of, field};

/// The memory that the kernel manages, and the modules that the firmware lists.
pub(super) fn memory(root: &Folder) -> Memory {
    let dimms = root
        .bytes("/sys/firmware/dmi/tables/DMI")
        .map(|table| dmi::dimms(&table))
        .unwrap_or_default();
    Memory {
        total_bytes: amount(root, "MemTotal"),
        available_bytes: amount(root, "MemAvailable"),
        page_bytes: page_bytes(root),
        channel_count: channel_count(&dimms),
        dimms,
    }
}

/// An amount of memory that the kernel reports, in bytes.
pub(super) fn amount(root: &Folder, name: &str) -> Option<u64> {
    bytes_of(field(&root.text("/proc/meminfo")?, name, ':')?)
}

/// `AT_PAGESZ` of the auxiliary vector, which is pairs of words. Source: getauxval(3).
fn page_bytes(root: &Folder) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let vector = root.bytes("/proc/self/auxv")?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
    let mut pairs = vector.chunks_exact(16).map(|pair| pair.split_at(8));
    let (_, size) = pairs.find(|(kind, _)| word(kind) == Some(AT_PAGESZ))?;
    word(size)
}

/// How many channels have a module: `P0 CHANNEL A`, `ChannelB-DIMM0`. Only locators with the word
/// "channel" count; names such as `DIMM_A1` mean something different with each vendor.
fn channel_count(dimms: &[Dimm]) -> Option<u32> {
    let channels: Option<BTreeSet<String>> = dimms.iter().map(channel).collect();
    let count = u32::try_from(channels?.len()).ok();
    count.filter(|&count| count > 0)
}

/// The text before and just after the word "channel", in the bank locator or else in the device
/// locator.
fn channel(dimm: &Dimm) -> Option<String> {
    [&dimm.bank, &dimm.place].into_iter().flatten().find_map(|name| {
        let name = name.to_ascii_uppercase();
        let (before, after) = name.split_once("CHANNEL")?;
        let letter: String = after
            .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        (!letter.is_empty()).then(|| format!("{before}{letter}"))
    })
}

/// Transparent huge pages.
pub(super) fn huge_pages(root: &Folder) -> HugePages {
    let transparent = root.folder("/sys/kernel/mm/transparent_hugepage");
    HugePages {
        transparent: transparent.chosen("enabled", '[', ']'),
        transparent_size_bytes: transparent.value("hpage_pmd_size"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_count_only_where_each_place_names_one() {
        let dimm = |bank: &str, place: &str| Dimm {
            bank: Some(bank.to_owned()),
            place: Some(place.to_owned()),
            ..Dimm::default()
        };
        let server = [
            dimm("P0 CHANNEL A", "DIMM 0"),
            dimm("P0 CHANNEL A", "DIMM 1"),
            dimm("P0 CHANNEL B", "DIMM 0"),
            dimm("P1 CHANNEL A", "DIMM 0"),
        ];
        assert_eq!(channel_count(&server), Some(3));
        let laptop = [
            dimm("BANK 0", "Controller0-ChannelA-DIMM0"),
            dimm("BANK 0", "Controller1-ChannelA-DIMM0"),
        ];
        assert_eq!(channel_count(&laptop), Some(2));
        assert_eq!(channel_count(&[dimm("BANK 0", "DIMM_A1")]), None);
        assert_eq!(channel_count(&[]), None);
    }
}

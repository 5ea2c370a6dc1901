//! Which counter of which unit counts an event.

use std::fs;
use std::io;

use super::Event;
use crate::sched::affinity;
use crate::system_call::unsupported;

/// What to count: `type` and `config` in perf_event_open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) kind: u32,
    pub(super) config: u64,
}

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;

const CACHE_L1D: u64 = 0;
const CACHE_LAST_LEVEL: u64 = 2;
const CACHE_DATA_TLB: u64 = 3;
/// Operation "read" in bits 8 to 15 (0), result "miss" in bits 16 to 23 (1).
const CACHE_READ_MISS: u64 = 1 << 16;

impl Selector {
    pub(super) const DUMMY: Self = Self { kind: TYPE_SOFTWARE, config: 9 };

    pub(super) fn new(event: Event, pmu: &CorePmu) -> io::Result<Self> {
        // Bits 32 and up name the unit of a general event; 0 on ordinary machines.
        let unit = u64::from(pmu.number.unwrap_or(0)) << 32;
        let cache = |cache| (TYPE_CACHE, unit | cache | CACHE_READ_MISS);
        let (kind, config) = match event {
            Event::Cycles => (TYPE_HARDWARE, unit),
            Event::Instructions => (TYPE_HARDWARE, unit | 1),
            Event::BranchMisses => (TYPE_HARDWARE, unit | 5),
            Event::L1dLoadMisses => cache(CACHE_L1D),
            Event::LlcLoadMisses => cache(CACHE_LAST_LEVEL),
            Event::DtlbLoadMisses => cache(CACHE_DATA_TLB),
            Event::L2LoadMisses => {
                let config = pmu.l2_load_misses.ok_or_else(|| {
                    unsupported(
                        "cannot count l2_load_misses: no such counter is known for this kind of core",
                    )
                })?;
                (pmu.number.unwrap_or(TYPE_RAW), config)
            }
            Event::TaskClock => (TYPE_SOFTWARE, 1),
            Event::PageFaults => (TYPE_SOFTWARE, 2),
            Event::ContextSwitches => (TYPE_SOFTWARE, 3),
            Event::CpuMigrations => (TYPE_SOFTWARE, 4),
            Event::Tracepoint(number) => (TYPE_TRACEPOINT, number),
        };
        Ok(Self { kind, config })
    }
}

/// The counting unit of the core that the thread runs on.
#[derive(Clone, Debug)]
pub(super) struct CorePmu {
    /// Its number, on machines with several kinds of cores; `None` on all others.
    number: Option<u32>,
    /// The raw event for loads that miss the second-level cache, in the vendor's numbering.
    l2_load_misses: Option<u64>,
}

impl CorePmu {
    /// Units of cores list their CPUs in a file `cpus`: `cpu_core` and `cpu_atom` on Intel's hybrids,
    /// `armv8_…` on Arm. If there is only one unit, general events find it themselves; naming it needs Linux
    /// 5.13 (Arm: 6.6).
    pub(super) fn here() -> Self {
        let cpu = affinity::current_cpu();
        let unit = |unit: fs::DirEntry| -> Option<(String, u32, String)> {
            let name = unit.file_name().into_string().ok()?;
            let is_core = name.starts_with("cpu_") || name.starts_with("armv8");
            let file = |name| fs::read_to_string(unit.path().join(name)).ok();
            let number = file("type")?.trim().parse().ok()?;
            is_core.then_some((name, number, file("cpus")?))
        };
        let folder = fs::read_dir("/sys/bus/event_source/devices");
        let units: Vec<_> = folder.into_iter().flatten().flatten().filter_map(unit).collect();
        let mut of_cores = units.iter();
        let here = of_cores.find(|(_, _, cpus)| lists(cpus, cpu)).filter(|_| units.len() > 1);
        Self {
            number: here.map(|(_, number, _)| *number),
            l2_load_misses: l2_load_misses(here.map_or("", |(name, _, _)| name)),
        }
    }
}

/// The raw event of [`Event::L2LoadMisses`] on the unit of that name: its number in bits 0 to 7,
/// the unit mask in bits 8 to 15. Sources: Intel's perfmon event files (MEM_LOAD_RETIRED.L2_MISS,
/// event 0xD1, mask 0x10); AMD's Processor Programming References (PMCx064, mask 0x08); Arm ARM,
/// D13 (event 0x52).
#[cfg(target_arch = "x86_64")]
fn l2_load_misses(unit: &str) -> Option<u64> {
    let leaf = std::arch::x86_64::__cpuid(0);
    let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
    match vendor.as_flattened() {
        b"GenuineIntel" if unit != "cpu_atom" => Some(0x10d1),
        b"AuthenticAMD" | b"HygonGenuine" => Some(0x0864),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn l2_load_misses(_unit: &str) -> Option<u64> {
    Some(0x52)
}

/// Whether a list such as `0-3,8` names the CPU.
fn lists(cpus: &str, cpu: usize) -> bool {
    cpus.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert!(lists("0-3,8\n", 2) && lists("0-3,8\n", 8) && lists("5", 5));
        assert!(!lists("0-3,8\n", 5) && !lists("\n", 0));
    }

    #[test]
    fn general_events_name_the_core_on_hybrid_machines_only() {
        let hybrid = CorePmu { number: Some(10), l2_load_misses: None };
        let cycles = Selector::new(Event::Cycles, &hybrid).unwrap();
        assert_eq!(cycles.config, 10 << 32);
        assert!(Selector::new(Event::L2LoadMisses, &hybrid).is_err());
        let plain = CorePmu { number: None, l2_load_misses: Some(7) };
        let plain = Selector::new(Event::BranchMisses, &plain).unwrap();
        assert_eq!((plain.kind, plain.config), (TYPE_HARDWARE, 5));
        let faults = Selector::new(Event::PageFaults, &hybrid).unwrap();
        assert_eq!((faults.kind, faults.config), (TYPE_SOFTWARE, 2));
    }
}

//! Facts: what a machine reports about itself, before anything is measured.
//!
//! Plain data. `costof-measure` reads it, `costof-findings` judges it. Every field that a machine
//! may not report is an `Option`, a list or a map, so that unknown facts stay absent;
//! [`Facts::unread`] says why, if something prevented reading them. Readers ignore fields that a
//! newer costof added.

mod anonymous;
mod cpu;
mod cpu_order;
mod cpu_set;
mod devices;
mod diagnosis;
mod inherited;
mod kernel;
mod memory;
mod power;
mod storage;

pub use cpu::{Advertised, Cache, CacheKind, CacheSource, CoreKind, Cpu};
pub use cpu_set::CpuSet;
pub use devices::{Disk, DiskKind, FileSystem, NetworkDevice};
pub use diagnosis::{CoreLook, Diagnosis, DiagnosisState, Probed, SiblingThread, Trial};
pub use inherited::{Cgroup, Inherited, Rlimit, Rlimits, Seccomp};
pub use kernel::{Activity, ClockSource, Kernel, Virtualization};
pub use memory::{Dimm, HugePages, Memory, NumaNode};
pub use power::{Frequency, FrequencyPolicy, Idle, IdleState};
pub use storage::{Medium, Storage};

use crate::counted;
use serde::{Deserialize, Serialize};

/// Bytes of a cache line, where they matter no more than a factor of two.
const LINE_BYTES: u64 = 64;

/// Everything that one machine reports about itself, and what its processes inherit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The machine's own name.
    pub host_name: Option<String>,
    /// The architecture that the reading process was built for, as Rust names it: `x86_64`.
    pub architecture: Option<String>,
    /// The file of the reading process. A copy that the controller left is in `~/.cache/costof`.
    pub executable: Option<String>,
    /// The C library that the reading process was built with, whose functions some probes measure: `glibc`, `musl`.
    pub c_library: Option<String>,
    /// The CPUs.
    pub cpu: Cpu,
    /// The memory nodes; one on a machine with uniform memory, none if the kernel reports none.
    pub numa: Vec<NumaNode>,
    /// What determines the CPUs' clock, and within which bounds.
    pub frequency: Frequency,
    /// What a CPU does when it has nothing to do.
    pub idle: Idle,
    /// The hypervisor and the container in which the reading process runs.
    pub virtualization: Virtualization,
    /// The operating system's kernel.
    pub kernel: Kernel,
    /// The kernel's clock sources.
    pub clock_source: ClockSource,
    /// Transparent huge pages.
    pub huge_pages: HugePages,
    /// Main memory.
    pub memory: Memory,
    /// How busy the machine was when it was read.
    pub activity: Activity,
    /// Block devices with a size.
    pub disks: Vec<Disk>,
    /// Mounted file systems that hold files, including `tmpfs` and network file systems.
    pub file_systems: Vec<FileSystem>,
    /// The folder in which a probe creates files if the user names none. It is never on a file
    /// system in memory. None: there is none.
    pub temporary_folder: Option<String>,
    /// Network devices of the reading process's network namespace.
    pub network_devices: Vec<NetworkDevice>,
    /// The performance monitoring units that the kernel offers. Source:
    /// `/sys/bus/event_source/devices`. None: that folder cannot be read.
    pub performance_units: Option<Vec<String>>,
    /// What the reading process inherited.
    pub inherited: Inherited,
    /// Facts that exist but could not be read, each with the reason.
    pub unread: Vec<Unread>,
    /// The CPUs of a run, in the order in which the run uses them. They are not a fact of the
    /// machine, so they are never saved: empty except while a run is planned and predicted.
    #[serde(skip)]
    pub run_cpus: Vec<u32>,
}

/// A fact that exists, but was refused or made no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unread {
    /// The file or command that should have shown it.
    pub what: String,
    /// Why it did not.
    pub reason: String,
}

impl Facts {
    /// The caches that hold data, their own or with instructions.
    fn data_caches(&self) -> impl Iterator<Item = &Cache> {
        let holds_data =
            |cache: &&Cache| matches!(cache.kind, CacheKind::Data | CacheKind::Unified);
        self.cpu.caches.iter().filter(holds_data)
    }

    /// The data cache (data only or unified) that the machine advertises at a level; if its cores
    /// differ, that of the first kind of core.
    pub fn claimed_cache(&self, level: u32) -> Option<&Cache> {
        self.data_caches().find(|cache| cache.level == level)
    }

    /// The data cache that the machine advertises at a level for one CPU; on a hybrid machine, CPUs
    /// differ in it.
    pub fn claimed_cache_of(&self, level: u32, cpu: u32) -> Option<&Cache> {
        let is_its = |cache: &&Cache| cache.shared_by.iter().any(|set| set.contains(cpu));
        let mut caches = self.data_caches().filter(is_its);
        caches.find(|cache| cache.level == level).or_else(|| self.claimed_cache(level))
    }

    /// The data cache farthest from the cores.
    pub fn last_level_cache(&self) -> Option<&Cache> {
        self.data_caches().max_by_key(|cache| (cache.level, cache.size_bytes))
    }

    /// The size of an array of which caches hold little if every `stride` bytes of it are touched: its lines are
    /// four times the last level. From 64 bytes on, each element has a line of its own.
    pub fn bytes_beyond_caches(&self, stride: u64) -> u64 {
        let last = self.last_level_cache().map(|cache| cache.size_bytes);
        let lines = last.map_or(256 << 20, |last| (4 * last).clamp(64 << 20, 4 << 30));
        lines.saturating_mul(stride.max(LINE_BYTES)) / LINE_BYTES
    }

    /// The memory that this process can use: what the kernel has available, or what the cgroup
    /// leaves.
    pub fn available_bytes(&self) -> Option<u64> {
        let left = self.inherited.cgroup.memory_left_bytes();
        self.memory.available_bytes.into_iter().chain(left).min()
    }

    /// How much file data the kernel may cache: the available memory or the cgroup's limit,
    /// whichever is less. What the group already uses is not subtracted, since file pages may
    /// replace it.
    pub fn most_cached_bytes(&self) -> Option<u64> {
        let limit = self.inherited.cgroup.memory_limit_bytes;
        self.memory.available_bytes.into_iter().chain(limit).min()
    }

    /// The CPUs that this process can use: those that are online and that it may run on.
    pub fn usable_cpus(&self) -> CpuSet {
        let allowed = &self.inherited.allowed_cpus;
        if allowed.is_empty() {
            return self.cpu.online.clone();
        }
        if self.cpu.online.is_empty() {
            return allowed.clone();
        }
        allowed.iter().filter(|cpu| self.cpu.online.contains(*cpu)).collect()
    }

    /// The class of the machine: its CPU, how many of them, and the hypervisor. Costs on machines of different classes differ
    /// whatever the program does, so they are never taken for a change of it. The kernel does not count: whether a new one
    /// costs more is what a comparison is asked.
    pub fn machine_class(&self) -> String {
        let cpu = &self.cpu;
        let name = cpu.model_name.as_deref().unwrap_or("unknown CPU");
        // A hypervisor may give several CPUs one name.
        let numbers = [("family", cpu.family), ("model", cpu.model), ("stepping", cpu.stepping)];
        let numbers = numbers.into_iter().filter_map(|(what, n)| Some(format!("{what} {}", n?)));
        let numbers = numbers.collect::<Vec<_>>().join(" ");
        let design = if numbers.is_empty() { String::new() } else { format!(" ({numbers})") };
        let count = cpu.logical_count.map(|count| format!(", {}", counted(count, "CPU")));
        let hypervisor =
            match (self.virtualization.virtual_machine, &self.virtualization.hypervisor) {
                (_, Some(name)) => format!(", {name}"),
                (Some(true), None) => ", virtual".to_owned(),
                (Some(false), None) => ", not virtual".to_owned(),
                (None, None) => String::new(),
            };
        format!("{name}{design}{}{hypervisor}", count.unwrap_or_default())
    }

    /// The CPUs to plan for, in their order: those of the run, or all that are usable.
    pub fn planned_cpus(&self) -> Vec<u32> {
        match self.run_cpus.as_slice() {
            [] => self.usable_cpus().iter().collect(),
            some => some.to_vec(),
        }
    }

    /// Whether the kernel offers a unit that counts cycles. None: unknown.
    pub fn has_performance_unit(&self) -> Option<bool> {
        let units = self.performance_units.as_ref()?;
        let counts_cycles = |unit: &String| {
            ["cpu", "cpu_core", "cpu_atom", "cpu_lowpower"].contains(&unit.as_str())
                || ["armv8", "armv9", "apple_"].iter().any(|kind| unit.starts_with(kind))
        };
        Some(units.iter().any(counts_cycles))
    }

    /// Why a fact is absent. `what` is a part of its file's name.
    pub fn why_unread(&self, what: &str) -> Option<&str> {
        let mut unread = self.unread.iter();
        let unread = unread.find(|unread| unread.what.contains(what))?;
        Some(&unread.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_the_run_file_and_unknown_fields_are_ignored() {
        let facts = sample();
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
        let newer = r#"{"invented":1,"cpu":{"caches":[{"level":4,"kind":"holographic","new":2}]},
            "inherited":{"seccomp":"dreaming"}}"#;
        let read: Facts = serde_json::from_str(newer).unwrap();
        assert_eq!(read.cpu.caches[0].kind, CacheKind::Unknown);
        assert_eq!(read.inherited.seccomp, Some(Seccomp::Unknown));
        let nothing: Facts = serde_json::from_str("{}").unwrap();
        assert_eq!(nothing, Facts::default());
    }

    #[test]
    fn the_claimed_caches_are_those_that_hold_data() {
        let facts = sample();
        let size = |cache: Option<&Cache>| cache.map(|cache| cache.size_bytes);
        assert_eq!(size(facts.claimed_cache(1)), Some(48 << 10));
        for (cpu, expected) in [(4, 32 << 10), (99, 48 << 10)] {
            assert_eq!(size(facts.claimed_cache_of(1, cpu)), Some(expected));
        }
        assert_eq!(facts.last_level_cache().map(|cache| cache.level), Some(3));
        assert_eq!(facts.claimed_cache(4), None);
    }

    #[test]
    fn available_memory_is_the_smaller_of_kernel_and_cgroup() {
        let mut facts = sample();
        assert_eq!(facts.available_bytes(), Some(1000));
        facts.inherited.cgroup.memory_limit_bytes = Some(500);
        facts.inherited.cgroup.memory_used_bytes = Some(100);
        assert_eq!(facts.available_bytes(), Some(400));
        facts.memory.available_bytes = None;
        assert_eq!(facts.available_bytes(), Some(400));
    }

    #[test]
    fn a_class_is_the_cpu_their_number_and_the_hypervisor_but_not_the_kernel() {
        assert_eq!(Facts::default().machine_class(), "unknown CPU");
        let mut facts = sample();
        facts.cpu.model_name = Some("Intel(R) Xeon(R) Processor".to_owned());
        (facts.cpu.family, facts.cpu.model, facts.cpu.stepping) = (Some(6), Some(207), Some(2));
        facts.cpu.logical_count = Some(2);
        facts.virtualization.virtual_machine = Some(true);
        let named = "Intel(R) Xeon(R) Processor (family 6 model 207 stepping 2), 2 CPUs, ";
        assert_eq!(facts.machine_class(), format!("{named}virtual"));
        facts.virtualization.hypervisor = Some("KVM".to_owned());
        let class = facts.machine_class();
        assert_eq!(class, format!("{named}KVM"));
        (facts.kernel.release, facts.cpu.microcode) =
            (Some("6.2".to_owned()), Some("1".to_owned()));
        assert_eq!(facts.machine_class(), class);
        // Another CPU of the same name.
        facts.cpu.model = Some(143);
        assert_ne!(facts.machine_class(), class);
    }

    pub(super) fn sample() -> Facts {
        let cache = |level, kind, size_bytes, cpus: &str| Cache {
            level,
            kind,
            size_bytes,
            line_bytes: Some(64),
            ways: Some(8),
            shared_by: vec![CpuSet::parse(cpus).unwrap()],
            source: CacheSource::Sysfs,
        };
        Facts {
            host_name: Some("laptop-of-somebody".to_owned()),
            cpu: Cpu {
                online: CpuSet::parse("0-7").unwrap(),
                caches: vec![
                    cache(1, CacheKind::Instruction, 64 << 10, "0-1"),
                    cache(1, CacheKind::Data, 48 << 10, "0-1"),
                    cache(1, CacheKind::Data, 32 << 10, "4"),
                    cache(3, CacheKind::Unified, 32 << 20, "0-7"),
                ],
                ..Cpu::default()
            },
            memory: Memory { available_bytes: Some(1000), ..Memory::default() },
            ..Facts::default()
        }
    }
}

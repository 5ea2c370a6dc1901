//! The CPUs and their caches.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// A frequency and its source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Advertised {
    /// The frequency.
    pub hz: u64,
    /// The source: `CPUID leaf 15h`, `cpufreq cpuinfo_max_freq`.
    pub source: String,
}

/// The CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD`, `ARM`.
    pub vendor: Option<String>,
    /// `AMD EPYC`, `Cortex-A72`.
    pub model_name: Option<String>,
    /// Family, x86 only.
    pub family: Option<u32>,
    /// Model within the family (x86), or part number (aarch64).
    pub model: Option<u32>,
    /// Stepping (x86) or revision (aarch64).
    pub stepping: Option<u32>,
    /// The microcode's revision as the kernel prints it.
    pub microcode: Option<String>,
    /// Hardware threads that are online.
    pub logical_count: Option<u32>,
    /// Cores that have a thread online.
    pub physical_count: Option<u32>,
    /// Sockets that have a thread online.
    pub socket_count: Option<u32>,
    /// Which hardware threads are online.
    pub online: CpuSet,
    /// Whether any core runs more than one thread now.
    pub smt_active: Option<bool>,
    /// `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    /// Source: Documentation/ABI/testing/sysfs-devices-system-cpu, `smt/control`.
    pub smt_control: Option<String>,
    /// One entry per core: the hardware threads that share it.
    pub cores: Vec<CpuSet>,
    /// One entry per socket.
    pub sockets: Vec<CpuSet>,
    /// The kinds of cores, if they differ (hybrid, big.LITTLE); empty if all are alike.
    pub core_kinds: Vec<CoreKind>,
    /// The caches; identical ones share an entry.
    pub caches: Vec<Cache>,
    /// Whether the time stamp counter ticks at one rate in all states of clock and sleep. On
    /// aarch64, the generic timer does so by definition.
    pub tsc_invariant: Option<bool>,
    /// The advertised rate of the time stamp counter (aarch64: of the generic timer).
    pub tsc: Option<Advertised>,
    /// The guaranteed clock without turbo.
    pub base: Option<Advertised>,
    /// The highest advertised clock.
    pub max: Option<Advertised>,
    /// The instruction set extensions and properties that change costs.
    pub flags: Vec<String>,
    /// What the kernel reports about each known vulnerability: `Not affected`, `Vulnerable`,
    /// `Mitigation: …`. Source: Documentation/ABI/testing/sysfs-devices-system-cpu.
    pub vulnerabilities: BTreeMap<String, String>,
}

/// Cores of one kind on a machine with several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreKind {
    /// `core`, `atom`, `lowpower` (Intel), a part's name (aarch64), or `capacity 446`.
    pub name: String,
    /// Its hardware threads.
    pub cpus: CpuSet,
    /// Capacity relative to the largest core's 1024.
    pub capacity: Option<u32>,
}

/// A cache, or several identical ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Bytes of each cache.
    pub size_bytes: u64,
    /// Bytes of a line.
    pub line_bytes: Option<u32>,
    /// Ways of associativity; 0 means fully associative.
    pub ways: Option<u32>,
    /// One entry per cache: the hardware threads that share it. Empty if the source does not report
    /// it.
    pub shared_by: Vec<CpuSet>,
    /// The source.
    pub source: CacheSource,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
    /// A kind that this build does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Which source describes a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheSource {
    /// `/sys/devices/system/cpu/cpu*/cache`.
    Sysfs,
    /// CPUID leaf 4 (Intel), 8000001Dh (AMD).
    Cpuid,
    /// A source that this build does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

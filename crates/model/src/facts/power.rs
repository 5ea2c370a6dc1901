//! What keeps a CPU from its full clock, and what a CPU does when it is idle.

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// What determines the CPUs' clock, and within which bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frequency {
    /// `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`. None: the kernel does not scale the clock
    /// here (in a virtual machine it never does).
    pub driver: Option<String>,
    /// Whether clocks above the base are allowed.
    pub turbo_enabled: Option<bool>,
    /// One entry for all CPUs with the same policy.
    pub policies: Vec<FrequencyPolicy>,
}

/// The policy for the clock of some CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyPolicy {
    /// The CPUs.
    pub cpus: CpuSet,
    /// `performance`, `powersave`, `schedutil`, `ondemand`.
    pub governor: Option<String>,
    /// The highest clock that may be chosen.
    pub max_hz: Option<u64>,
    /// The highest clock that the hardware has.
    pub hardware_max_hz: Option<u64>,
}

/// What a CPU does when it has nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// `intel_idle`, `acpi_idle`, `haltpoll`, `psci_idle`. None: the kernel reports none.
    pub driver: Option<String>,
    /// `menu`, `teo`, `ladder`, `haltpoll`.
    pub governor: Option<String>,
    /// The states of the first CPU that has any, shallow to deep.
    pub states: Vec<IdleState>,
}

/// One idle state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// `POLL`, `C1E`, `C6`.
    pub name: String,
    /// The advertised time to leave it.
    pub exit_latency_ns: Option<u64>,
    /// Whether it is switched off.
    pub disabled: Option<bool>,
}

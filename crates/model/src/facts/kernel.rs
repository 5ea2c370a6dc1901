//! The kernel, what lies beneath it, and how busy it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The hypervisor and the container around the reading process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualization {
    /// Whether this is a virtual machine. None: nothing here shows it.
    pub virtual_machine: Option<bool>,
    /// `KVM`, `VMware`, `Hyper-V`, `Xen`, or what it calls itself.
    pub hypervisor: Option<String>,
    /// Which source says so: `CPUID leaf 40000000h`, `/sys/hypervisor/type`, `DMI`.
    pub hypervisor_source: Option<String>,
    /// The maker of the machine, as its firmware says.
    pub machine_vendor: Option<String>,
    /// The model of the machine (on many clouds, the instance type), as its firmware says.
    pub machine_model: Option<String>,
    /// `docker`, `podman`, `kubernetes`, `lxc`, `wsl`, `systemd-nspawn`. None: no sign of one.
    pub container: Option<String>,
}

/// The operating system's kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// `6.18.44-generic`.
    pub release: Option<String>,
    /// `#1 SMP PREEMPT_DYNAMIC …`.
    pub version: Option<String>,
    /// What it was started with.
    pub command_line: Option<String>,
    /// The options of its build that change what things cost, without `CONFIG_`; `n` is "not set".
    pub config: BTreeMap<String, String>,
    /// The file that holds them. None: no such file is to be read.
    pub config_source: Option<String>,
    /// The settings that change what things cost or what may be measured, by their dotted names;
    /// a list's parts stand apart by one blank.
    pub sysctls: BTreeMap<String, String>,
    /// `none`, `voluntary`, `full`, `lazy`, where the kernel chooses at start and reports it.
    pub preemption: Option<String>,
    /// Whether it is a real-time kernel (PREEMPT_RT).
    pub real_time: Option<bool>,
    /// `none`, `integrity`, `confidentiality`. Source: kernel_lockdown(7).
    pub lockdown: Option<String>,
    /// Changes at each start of the machine; two hosts with one boot id are one machine.
    pub boot_id: Option<String>,
}

/// The kernel's clock sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSource {
    /// `tsc`, `kvm-clock`, `hpet`, `arch_sys_counter`.
    pub current: Option<String>,
    /// Those that it could change to.
    pub available: Vec<String>,
}

/// How busy the machine was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Tasks that ran or waited to, the last minute's average.
    pub load_1min: Option<f64>,
    /// The same over five minutes.
    pub load_5min: Option<f64>,
    /// The same over fifteen minutes.
    pub load_15min: Option<f64>,
    /// The share of all processor time since the start that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The share of all processor time since the start in which processors were not idle.
    pub busy_share: Option<f64>,
    /// Stalls for a processor.
    pub cpu_pressure: Option<Pressure>,
    /// Stalls for memory.
    pub memory_pressure: Option<Pressure>,
    /// Stalls for disks.
    pub io_pressure: Option<Pressure>,
}

/// The share of time, from 0 to 1, in which tasks stood still for want of something.
/// Source: Documentation/accounting/psi.rst.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// At least one task, last 10 s.
    pub some_10s_share: Option<f64>,
    /// At least one task, last 60 s.
    pub some_60s_share: Option<f64>,
    /// All tasks at once, last 10 s.
    pub full_10s_share: Option<f64>,
    /// All tasks at once, last 60 s.
    pub full_60s_share: Option<f64>,
}

//! The kernel, the hypervisor below it, and how busy it was.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The hypervisor and the container in which the reading process runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualization {
    /// Whether this is a virtual machine. None: nothing shows it.
    pub virtual_machine: Option<bool>,
    /// `KVM`, `VMware`, `Hyper-V`, `Xen`, or the name that it reports.
    pub hypervisor: Option<String>,
    /// The vendor of the machine, according to its firmware.
    pub machine_vendor: Option<String>,
    /// The model of the machine (on many clouds, the instance type), according to its firmware.
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
    /// Its command line.
    pub command_line: Option<String>,
    /// The build options that change costs, without `CONFIG_`; `n` means "not set".
    pub config: BTreeMap<String, String>,
    /// The settings that change costs or what may be measured, by their dotted names; the parts of
    /// a list are separated by one blank.
    pub sysctls: BTreeMap<String, String>,
    /// `none`, `voluntary`, `full`, `lazy`: what the kernel reports (debugfs), else what it was built with or told at boot.
    pub preemption: Option<String>,
    /// Whether it is a real-time kernel (PREEMPT_RT).
    pub real_time: Option<bool>,
    /// Changes at each boot; two hosts with the same boot id are one machine.
    pub boot_id: Option<String>,
}

impl Kernel {
    /// Its ticks per second (CONFIG_HZ), if that is known.
    pub fn ticks_per_second(&self) -> Option<f64> {
        let hz = self.config.get("HZ")?.parse::<f64>().ok();
        hz.filter(|hz| *hz > 0.0)
    }
}

/// The kernel's clock sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSource {
    /// `tsc`, `kvm-clock`, `hpet`, `arch_sys_counter`.
    pub current: Option<String>,
    /// Those to which it could switch.
    pub available: Vec<String>,
}

/// How busy the machine was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Tasks that ran or waited to run, as an average of the last minute.
    pub load_1min: Option<f64>,
    /// The share of all CPU time since the start that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The share of all CPU time since the start in which CPUs were not idle.
    pub busy_share: Option<f64>,
}

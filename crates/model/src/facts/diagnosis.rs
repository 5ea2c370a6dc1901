//! Facts that only a trial shows, and what facts and trials mean for numbers.

use crate::alone::CpuAlone;
use serde::{Deserialize, Serialize};

/// The results of trials: may costof do this here, and who else uses the CPUs? `None` means that it was
/// not tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// Counting cycles with perf_event_open(2).
    pub hardware_events: Option<Trial>,
    /// Counting page faults with perf_event_open(2), at least those of user space.
    pub software_events: Option<Trial>,
    /// Counting what happens inside the kernel: context switches.
    pub kernel_events: Option<Trial>,
    /// Counting a tracepoint, whose number must be read first.
    pub tracepoints: Option<Trial>,
    /// Making a network namespace (inside a new user namespace, or as root).
    pub network_namespaces: Option<Trial>,
    /// Getting a huge page for an arena.
    pub huge_page: Option<Trial>,
    /// Opening /dev/net/tun, through which costof's relay emulates a link.
    pub tun: Option<Trial>,
    /// Getting a socket for ICMP echo requests.
    pub icmp: Option<Trial>,
    /// Setting up an io_uring.
    pub io_uring: Option<Trial>,
    /// The share of all CPUs' time that other processes used while this process slept.
    pub busy_share: Option<f64>,
    /// What else used the core of the measured CPU.
    pub core: Option<CoreLook>,
    /// For which share of about a second each CPU of the measured kind was alone; empty if the gauge has no floor. Of many
    /// CPUs, some.
    pub alone: Vec<CpuAlone>,
}

/// What the gauge of a core showed in a short look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreLook {
    /// The CPU on which the gauge ran.
    pub cpu: usize,
    /// The gauge's floor: core cycles per addition while the core is alone. `None` if it is
    /// unknown; then there are no readings.
    pub floor: Option<f64>,
    /// The share of the time in which something else used the core.
    pub shared: Option<f64>,
    /// The share of the core's execution slots that was taken during that time.
    pub taken: Option<f64>,
    /// The thread that used most of the time of the core's other CPUs, if this machine shows those
    /// CPUs.
    pub sibling: Option<SiblingThread>,
}

/// A thread on another CPU of the core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiblingThread {
    /// The CPU that it was on.
    pub cpu: usize,
    /// The process that it belongs to.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The CPU time that it used, as a share of the time of the look (in ticks of 10 ms).
    pub used: f64,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Trial {
    /// It works.
    Works,
    /// It does not, and why.
    Fails {
        /// The operation and the error: `io_uring_setup: Operation not permitted (os error 1)`.
        reason: String,
    },
}

/// A property of this machine that affects the quality of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The property: `governor`, `idle states`.
    pub topic: String,
    /// Its state.
    pub state: DiagnosisState,
    /// What was found, or why it could not be checked.
    pub what: String,
    /// Which numbers become worse or missing, or what works well.
    pub effect: String,
    /// What to do about it, as a command where there is one.
    pub advice: Option<String>,
}

/// The state of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisState {
    /// It does no harm.
    Good,
    /// Numbers are noisier, or differ from what this machine could do.
    Worse,
    /// Some numbers cannot be measured.
    Missing,
    /// This machine does not show it.
    NotChecked,
}

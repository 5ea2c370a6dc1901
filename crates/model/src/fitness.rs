//! Whether a machine, as it is now, can show a change of a program's cost.

use crate::timing::TimeMetric;
use serde::Serialize;

/// What a few seconds on a machine showed, and what follows for a check of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitness {
    /// Whether a check would see the change in time.
    pub fit: bool,
    /// The change that it should see, as a share.
    #[serde(rename = "for")]
    pub change: f64,
    /// How long the check may take, in seconds.
    pub budget_s: f64,
    /// How long it would take, in seconds; at least as long as the comparison took. `None` if that is unknown.
    pub needed_s: Option<f64>,
    /// The class of the machine: [`machine_class`](crate::facts::Facts::machine_class).
    pub machine: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The comparison of a program with itself, if there is one;
    pub compared: Option<SelfComparison>,
    /// otherwise why there is none.
    pub not_compared: Option<String>,
    /// Who used the measured cores.
    pub core: CoreUse,
}

/// A program compared with itself, in turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SelfComparison {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How many turns it had.
    pub turns: usize,
    /// What was compared.
    pub metric: TimeMetric,
    /// The smallest change, as a share, that would have been found in nine of ten tries.
    pub visible: f64,
}

impl SelfComparison {
    /// The smallest change, as a share, that so many seconds would show: the error falls with the square root of the time.
    pub fn visible_in(&self, seconds: f64) -> f64 {
        self.visible * (self.seconds / seconds).sqrt()
    }

    /// How many seconds would show this change, a share above zero.
    pub fn seconds_for(&self, change: f64) -> f64 {
        self.seconds * (self.visible / change).powi(2).max(1.0)
    }
}

/// Who used the core of a program besides it, as shares of its time, from 0 to 1. `None`: this machine does not show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CoreUse {
    /// Something used the core, by its gauge.
    pub shared: Option<f64>,
    /// The part of `shared` that no CPU of this machine explains. `None` also if its other CPUs were never idle.
    pub stranger: Option<f64>,
    /// The part of `shared` that other CPUs of this machine explain.
    pub own_core: Option<f64>,
    /// The program waited while others of this machine ran on its CPU.
    pub own_cpu: Option<f64>,
    /// The hypervisor ran something else on its CPU.
    pub steal: Option<f64>,
}

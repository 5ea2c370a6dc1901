//! The noise ledger of a launch, the grade that follows from it, and placement.

use crate::{CoreState, Few, LinkEnd, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What disturbed a launch, or could have, as recorded by its workers. All durations are in
/// nanoseconds, from the worker's first point to its last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// How long the launch lasted.
    pub duration_ns: f64,
    /// Time that the hypervisor took from a measured CPU, as a mean over the measured CPUs
    /// (accurate to a tick).
    pub steal_ns: Option<f64>,
    /// CPU time that other processes used on a measured CPU, as a mean over the measured CPUs
    /// (accurate to a tick, so minus two ticks).
    pub others_ns: Option<f64>,
    /// CPU time that other processes used on the machine's other CPUs, as a share of these CPUs'
    /// time (accurate to a tick).
    pub others_elsewhere: Option<f64>,
    /// Time during which the measuring thread was ready to run but waited; absent if the measured
    /// operation waits for others by design.
    pub run_queue_wait_ns: Option<f64>,
    /// Time during which the CPU quota of its cgroup throttled the worker, all its threads
    /// together, so possibly more than the duration; absent without a quota.
    pub throttled_ns: Option<f64>,
    /// How often the measuring thread was preempted.
    pub preemptions: u64,
    /// How often the measuring thread moved to another CPU.
    pub migrations: Option<u64>,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
    /// Gaps in the clock while the worker only read it.
    pub gaps: Option<Gaps>,
    /// The core clock before the first point.
    pub core_clock_before_hz: Option<f64>,
    /// The core clock after the last point.
    pub core_clock_after_hz: Option<f64>,
    /// How far apart the measured CPUs were before the first point and after the last: the
    /// round-trip time of a cache line between the first two of them, in nanoseconds. Absent if
    /// none was measured.
    pub distance_ns: Option<(f64, f64)>,
    /// What the gauge of the core showed; absent if no gauge was read.
    pub core: Option<CoreGauge>,
    /// The same for the core of another end, from a look before and after each round; of several
    /// cores, the worst. Absent if there is no other end.
    pub other_core: Option<CoreGauge>,
    /// Whether another process traced the worker (ptrace(2)), such as strace(1) or a debugger.
    pub traced: Option<bool>,
    /// What could not be recorded, by the kind of the warning that it could have caused, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<Text, String>,
    /// What the launch's packets met at the ends of its link, by role; empty without a link.
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub ends: Few<Text, LinkEnd>,
}

impl Noise {
    /// Subtracts what another role used of the measured CPUs: `cpu_ns` of CPU time, on `processors`
    /// CPUs. If that role shares the CPU of the measuring thread, waiting for it is part of the
    /// measurement.
    pub fn subtract_peer_cpu(&mut self, cpu_ns: f64, processors: usize, shares: bool) {
        let less = |time: &mut Option<f64>, ns: f64| *time = time.map(|t| (t - ns).max(0.0));
        less(&mut self.others_ns, cpu_ns / processors.max(1) as f64);
        if shares {
            less(&mut self.run_queue_wait_ns, cpu_ns);
        }
    }
}

/// What the gauge of the measuring thread's core showed during a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreGauge {
    /// Core cycles per addition while the core is alone.
    pub floor: f64,
    /// For how much of the measured time the core was alone, in nanoseconds.
    pub alone_ns: f64,
    /// For how much it was shared.
    pub shared_ns: f64,
    /// For how much it was neither.
    pub mixed_ns: f64,
    /// For how long batches waited for it to be alone, which is not part of the measured time.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub waited_ns: f64,
}

impl CoreGauge {
    /// Adds measured time in this state.
    pub fn add(&mut self, state: CoreState, ns: f64) {
        match state {
            CoreState::Alone => self.alone_ns += ns,
            CoreState::Shared => self.shared_ns += ns,
            CoreState::Mixed => self.mixed_ns += ns,
        }
    }

    /// Adds the times of another gauge of the same core, and takes its floor.
    #[must_use]
    pub fn and(self, other: CoreGauge) -> CoreGauge {
        CoreGauge {
            floor: other.floor,
            alone_ns: self.alone_ns + other.alone_ns,
            shared_ns: self.shared_ns + other.shared_ns,
            mixed_ns: self.mixed_ns + other.mixed_ns,
            waited_ns: self.waited_ns + other.waited_ns,
        }
    }

    /// The share of the time during which the core was alone, of what was measured and waited;
    /// `None` if no time was measured.
    pub fn alone(&self) -> Option<f64> {
        Some(self.alone_ns / self.all_ns()?)
    }

    /// The share of that time during which it was shared, as it nearly always is while a batch
    /// waits; `None` if no time was measured.
    pub fn shared(&self) -> Option<f64> {
        Some((self.shared_ns + self.waited_ns) / self.all_ns()?)
    }

    /// For how long it was measured and waited, in nanoseconds; `None` if it was not.
    pub fn all_ns(&self) -> Option<f64> {
        let all_ns = self.alone_ns + self.shared_ns + self.mixed_ns + self.waited_ns;
        (all_ns > 0.0).then_some(all_ns)
    }

    /// Of the two, the one whose core was alone for the smaller share of its time.
    pub fn worse(self, other: CoreGauge) -> CoreGauge {
        if other.alone() < self.alone() { other } else { self }
    }
}

/// Gaps in a clock that was read without pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// For how long the clock was read.
    pub watched_ns: f64,
    /// How many gaps there were.
    pub count: u64,
    /// Their sum.
    pub sum_ns: f64,
    /// The longest of them.
    pub longest_ns: f64,
}

/// How far a number can be trusted. It follows from recorded causes only, never from the width of
/// the interval. A: nothing was recorded that could have changed the number. D: what was recorded
/// is large enough to decide the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grade {
    /// Nothing significant was recorded.
    A,
    /// Small disturbances.
    B,
    /// Disturbances that may have changed the number.
    C,
    /// Disturbances during a tenth of the time or more, or a core clock that changed by a quarter:
    /// large enough to decide the number.
    D,
}

/// The kind of the warning that the launches disagree so much that there is no number.
pub const DISAGREE: &str = "disagree";

/// The kind of the warning that so few launches gave a value that there is no number.
pub const FEW_LAUNCHES: &str = "few_launches";

/// A warning about a number, and what the reader can do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// The kind of warning, as a short identifier.
    pub kind: Text,
    /// The grade that this warning alone would leave.
    pub grade: Grade,
    /// What was recorded, in one sentence.
    pub what: String,
    /// What the reader can do.
    pub advice: String,
}

/// Each kind of warning at its worst, and its count.
pub fn by_kind<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Vec<(&'a Warning, usize)> {
    let mut kinds: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        let mut known = kinds.iter_mut();
        match known.find(|(known, _)| known.kind == warning.kind) {
            Some((known, count)) => {
                *count += 1;
                if warning.grade > known.grade {
                    *known = warning;
                }
            }
            None => kinds.push((warning, 1)),
        }
    }
    kinds
}

/// What gave most rows the worst grade that is among these warnings: of those of that grade, the
/// most frequent kind; of equally frequent kinds, the first.
pub fn main_cause<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Option<&'a Warning> {
    let warnings: Vec<&Warning> = warnings.into_iter().collect();
    let worst = warnings.iter().map(|warning| warning.grade).max()?;
    let kinds = by_kind(warnings.into_iter().filter(|warning| warning.grade == worst));
    let main = kinds.iter().rev().max_by_key(|(_, count)| *count);
    main.map(|(warning, _)| *warning)
}

/// The name of the controller in a [`Placement`].
pub const CONTROLLER: &str = "controller";

/// The name of the measured CPUs in the placement of a plan: that of the only role of a probe.
pub const MEASURED: &str = "only";

/// The name, in the placement of a plan, of the CPUs of roles that do not lead, if they have their
/// own list.
pub const PEER: &str = "peer";

/// The name, in the placement of a plan, of the CPUs among which each launch chooses those whose cores are
/// most alone. Absent if the user has named the CPUs.
pub const ELIGIBLE: &str = "eligible";

/// Which CPUs each role used, by role and by [`CONTROLLER`]. A role runs on its first CPU; its
/// other threads and children run on the others, nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(#[serde(with = "crate::few")] pub Few<Text, Vec<usize>>);

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_cause_is_what_gave_the_worst_grade() {
        let warning = |kind: &'static str, grade| Warning {
            kind: kind.into(),
            grade,
            what: kind.to_owned(),
            advice: String::new(),
        };
        let mut all = vec![warning("steal", Grade::C); 9];
        all.extend([warning("others", Grade::D), warning("steal", Grade::B)]);
        let main = |warnings: &[Warning]| main_cause(warnings).map(|main| main.what.clone());
        assert_eq!(main(&all).as_deref(), Some("others"));
        all.extend([warning("throttled", Grade::D), warning("throttled", Grade::D)]);
        assert_eq!(main(&all).as_deref(), Some("throttled"));
        assert_eq!(main(&all[..9]).as_deref(), Some("steal"));
        assert_eq!(main(&[]), None);
    }
}

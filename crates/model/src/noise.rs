//! The noise ledger of a launch, the grade that follows from it, and placement.

use crate::link_end::LinkEnd;
use crate::metric::CoreState;
use crate::{Few, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What disturbed a launch, or could have, as its workers recorded it. All durations are in
/// nanoseconds and counted from the worker's first point to its last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// How long the launch lasted.
    pub duration_ns: f64,
    /// Time that the hypervisor took from a measured processor, in the mean over
    /// them (tick accuracy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_ns: Option<f64>,
    /// CPU time that others used on a measured processor, in the mean over them
    /// (tick accuracy, so less two ticks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_ns: Option<f64>,
    /// CPU time that others used on the machine's other processors, as a share
    /// of what those have (tick accuracy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_elsewhere: Option<f64>,
    /// Time that the measuring thread was ready to run and waited; absent where
    /// what is measured waits for others by design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queue_wait_ns: Option<f64>,
    /// Time for which the processor quota of its cgroup held the worker back,
    /// all its threads together; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<f64>,
    /// How often the measuring thread was preempted.
    pub preemptions: u64,
    /// How often it moved to another processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrations: Option<u64>,
    /// Page faults that needed no device.
    pub minor_faults: u64,
    /// Page faults that waited for a device.
    pub major_faults: u64,
    /// Gaps in the clock while the worker did nothing but read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
    /// The core clock before the first point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_clock_before_hz: Option<f64>,
    /// The core clock after the last point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_clock_after_hz: Option<f64>,
    /// How far the measured CPUs lay apart before the first point and after the last: what a cache
    /// line took between the first two of them, there and back, in nanoseconds. Absent where one was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_ns: Option<(f64, f64)>,
    /// What the gauge of the core showed; absent where none was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreGauge>,
    /// The same of the core of another end, as looks at it before and after each round say; the worst of
    /// several. Absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_core: Option<CoreGauge>,
    /// What the launch's packets met at the ends of its link, by role; empty
    /// where it has none.
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub ends: Few<Text, LinkEnd>,
}

impl Noise {
    /// Without what another role used of the measured processors, of which there
    /// are `processors`: `cpu_ns` of processor time. Where it shares that of the
    /// measuring thread, waiting for it is what is measured.
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
    /// How much measured time had the core to itself, in nanoseconds.
    pub alone_ns: f64,
    /// How much had to share it.
    pub shared_ns: f64,
    /// How much was neither.
    pub mixed_ns: f64,
}

impl CoreGauge {
    /// Counts so much time.
    pub fn add(&mut self, state: CoreState, ns: f64) {
        match state {
            CoreState::Alone => self.alone_ns += ns,
            CoreState::Shared => self.shared_ns += ns,
            CoreState::Mixed => self.mixed_ns += ns,
        }
    }

    /// This and what another one says of the same core, which knows the floor.
    #[must_use]
    pub fn and(self, other: CoreGauge) -> CoreGauge {
        CoreGauge {
            floor: other.floor,
            alone_ns: self.alone_ns + other.alone_ns,
            shared_ns: self.shared_ns + other.shared_ns,
            mixed_ns: self.mixed_ns + other.mixed_ns,
        }
    }

    /// The share of the time that had the core to itself; `None` where there was no time.
    pub fn alone(&self) -> Option<f64> {
        Some(self.alone_ns / self.all_ns()?)
    }

    /// How long the gauge was read, in nanoseconds; `None` where it was not.
    pub fn all_ns(&self) -> Option<f64> {
        let all_ns = self.alone_ns + self.shared_ns + self.mixed_ns;
        (all_ns > 0.0).then_some(all_ns)
    }

    /// The one of both that had its core to itself for less of its time.
    pub fn worse(self, other: CoreGauge) -> CoreGauge {
        if other.alone() < self.alone() {
            other
        } else {
            self
        }
    }
}

/// Gaps in a clock that was read without pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// For how long it was read.
    pub watched_ns: f64,
    /// How many gaps there were.
    pub count: u64,
    /// Their sum.
    pub sum_ns: f64,
    /// The longest of them.
    pub longest_ns: f64,
}

/// How far a number can be trusted, by recorded causes only and never by the
/// width of its interval. A: nothing was recorded that could have moved it.
/// D: what was recorded is large enough to decide what the number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grade {
    /// Nothing of note was recorded.
    A,
    /// Small disturbances.
    B,
    /// Disturbances that may have moved the number.
    C,
    /// Disturbances of a tenth of the time and more, or a core clock that moved by
    /// a quarter: large enough to decide what the number is.
    D,
}

/// The kind of warning that says that launches disagree so far that there is no number.
pub const DISAGREE: &str = "disagree";

/// A doubt about a number, and what the reader can do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What kind of doubt, as a short identifier.
    pub kind: Text,
    /// The grade that this alone leaves.
    pub grade: Grade,
    /// What was seen, in one sentence.
    pub what: String,
    /// What the reader can do.
    pub advice: String,
}

/// Each kind of doubt at its worst, and how many there are of it.
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

/// The most frequent of these doubts, at its worst; of several as frequent, the first.
pub fn main_cause<'a>(warnings: impl IntoIterator<Item = &'a Warning>) -> Option<&'a Warning> {
    let kinds = by_kind(warnings);
    let main = kinds.iter().rev().max_by_key(|(_, count)| *count);
    main.map(|(warning, _)| *warning)
}

/// By which name a [`Placement`] knows the controller.
pub const CONTROLLER: &str = "controller";

/// By which name the placement of a plan knows the measured processors: that of
/// the role of a probe with one role.
pub const MEASURED: &str = "only";

/// By which name the placement of a plan knows the processors of the roles that
/// do not lead, where they have a list of their own.
pub const PEER: &str = "peer";

/// Which processors did what, by role and by [`CONTROLLER`]. A role runs on its
/// first; its further threads and children run on the others, nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(#[serde(with = "crate::few")] pub Few<Text, Vec<usize>>);

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Grade::A => "A",
            Grade::B => "B",
            Grade::C => "C",
            Grade::D => "D",
        })
    }
}

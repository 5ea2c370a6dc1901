//! The work of a batch, and when a point has enough batches.

use crate::crew::Crew;
use crate::gauge::{Gauge, Reading};
use costof_model::{CoreState, Failure};

/// The fewest measured batches of a point in a launch, however long they last.
pub(super) const BATCHES_MIN: usize = 6;
/// A point is done if the core was alone for this share of its time ...
const ALONE_SHARE: f64 = 0.5;
/// ... or if this many times its time is over.
const SHARED_TIMES: f64 = 1.5;

/// An operation that is timed in batches.
pub(super) struct Batched<'o> {
    pub(super) metric: &'static str,
    /// At most this many operations fit into one batch.
    pub(super) most: u64,
    /// How many short runs precede each timed batch.
    pub(super) settling_runs: u64,
    pub(super) work: &'o mut dyn Work,
}

/// The work of a batch.
pub(super) trait Work {
    /// Prepares `n` operations, untimed.
    fn prepare(&mut self, _n: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Does `n` operations.
    fn run(&mut self, n: u64);

    /// Reads the gauge of each core that does the work, and returns the worst reading; without a clock if there are
    /// several.
    fn read(&mut self, own: &Gauge) -> Reading {
        own.read_with_clock()
    }
}

pub(super) struct Repeatable<O>(pub(super) O);

impl<O: FnMut(u64)> Work for Repeatable<O> {
    fn run(&mut self, n: u64) {
        (self.0)(n);
    }
}

pub(super) struct UsedUp<P, O>(pub(super) P, pub(super) O);

impl<P: FnMut(u64) -> Result<(), Failure>, O: FnMut(u64)> Work for UsedUp<P, O> {
    fn prepare(&mut self, n: u64) -> Result<(), Failure> {
        (self.0)(n)
    }

    fn run(&mut self, n: u64) {
        (self.1)(n);
    }
}

impl Work for Crew {
    fn run(&mut self, n: u64) {
        Crew::run(self, n);
    }

    fn read(&mut self, own: &Gauge) -> Reading {
        self.read_gauges(own)
    }
}

/// The time measured so far for a point, by state of the core.
#[derive(Default)]
pub(super) struct Spent {
    all_ns: f64,
    alone_ns: f64,
    /// Beside the batches: waiting until the core is alone, and reading its gauge.
    pub(super) beside_ns: f64,
    pub(super) count: usize,
    alone_count: usize,
    /// Whether none of those alone counts, as too many of them may hide a visit.
    pub(super) hides_visits: bool,
}

impl Spent {
    pub(super) fn add(&mut self, ns: f64, state: Option<CoreState>) {
        self.all_ns += ns;
        self.count += 1;
        if state == Some(CoreState::Alone) {
            self.alone_ns += ns;
            self.alone_count += 1;
        }
    }

    /// Whether a point that should take `time_ns` has enough.
    pub(super) fn suffices(&self, time_ns: f64, is_gauged: bool) -> bool {
        let is_alone = self.alone_ns >= ALONE_SHARE * time_ns
            && self.alone_count >= BATCHES_MIN
            && !self.hides_visits;
        self.count >= BATCHES_MIN && (is_alone || self.is_over(time_ns, is_gauged))
    }

    /// Whether it took all the time that such a point has.
    pub(super) fn is_over(&self, time_ns: f64, is_gauged: bool) -> bool {
        let times = if is_gauged { SHARED_TIMES } else { 1.0 };
        self.all_ns + self.beside_ns >= times * time_ns
    }
}

//! What the meter records of a point: batches, latencies and values.

use super::hunt::SeenVisits;
use crate::gauge::{Gauge, Reading, state};
use costof_model::metric::{BatchClock, ByCore, Gauged};
use costof_model::noise::CoreGauge;
use costof_model::protocol::BY_HAND;
use costof_model::{CoreState, Data, Measured, Report, Selection, State, Text};
use costof_stats::median;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The longest single operation that can be recorded, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Operations from this time on, in picoseconds, are few: a launch takes long for a thousand of them.
const SLOW_PS: u64 = 1_000_000_000;
/// As long as there are no more than these, and all of them are slow, they are kept as they are.
const EXACT_MAX: usize = 1000;

/// Single operations in picoseconds: a few slow ones as they are, others to three digits. The histogram
/// grows with the longest one, since all of its memory is written: after a fork, the kernel would copy
/// unused memory too.
#[derive(Debug)]
struct Latencies {
    exact: Vec<u64>,
    buckets: Histogram<u32>,
}

/// Latencies: all of them, and those with the core in one state.
#[derive(Debug)]
pub(super) struct Singles {
    all: Latencies,
    alone: Latencies,
    shared: Latencies,
    /// Whether the state is known for all of them.
    gauged: bool,
}

/// The results of a point so far in this launch, over all its rounds.
#[derive(Debug, Default)]
pub struct Record {
    pub(super) batches: BTreeMap<Text, Batches>,
    pub(super) latencies: BTreeMap<Text, Singles>,
    pub(super) values: BTreeMap<Text, Vec<f64>>,
    pub(super) below_resolution: bool,
    /// Operations done while the counters counted: those in the batches of the primary metric.
    pub counted_operations: u64,
    pub(super) allocations: u64,
    pub(super) may_allocate: bool,
    pub(super) core: CoreGauge,
    /// Ticks per second of the counter in which the clock of the core is read; absent if cycles say nothing of the point.
    counter_hz: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Batches {
    /// How many operations a batch was sized for in the first round.
    pub(super) sized: u64,
    /// How many a batch has: fewer where the core is hardly ever alone for that long.
    pub(super) operations: u64,
    pub(super) samples: Vec<(u64, f64)>,
    pub(super) disturbed: Vec<u32>,
    /// The gauge before and after each sample, if it was read.
    pub(super) readings: Vec<(f64, f64)>,
    /// The ticks of the counter in a core cycle during each sample, by the same readings.
    ticks_per_cycle: Vec<f64>,
    pub(super) visits: SeenVisits,
}

impl Singles {
    pub(super) fn new() -> Singles {
        Singles {
            all: Latencies::new(),
            alone: Latencies::new(),
            shared: Latencies::new(),
            gauged: true,
        }
    }

    /// Counts a latency, between two operations.
    pub(super) fn add(&mut self, ns: f64, state: Option<CoreState>) {
        let picoseconds = (ns * 1000.0).clamp(0.0, LATENCY_MAX_NS as f64 * 1000.0) as u64;
        self.all.record(picoseconds);
        match state {
            Some(CoreState::Alone) => self.alone.record(picoseconds),
            Some(CoreState::Shared) => self.shared.record(picoseconds),
            Some(CoreState::Mixed) => {}
            None => self.gauged = false,
        }
    }

    fn measured(self, name: Text) -> Measured {
        let parts = || ByCore { alone: self.alone.counted(), shared: self.shared.counted() };
        let gauged = self.gauged.then(|| Gauged::Histogram(Box::new(parts())));
        Measured {
            gauged,
            exact: self.all.buckets.is_empty() && !self.all.exact.is_empty(),
            ..Measured::new(name, Data::Histogram(self.all.counted()))
        }
    }
}

impl Latencies {
    fn new() -> Latencies {
        Latencies {
            exact: Vec::new(),
            // It resizes itself.
            buckets: Histogram::new(3).expect("three digits are valid"),
        }
    }

    fn record(&mut self, picoseconds: u64) {
        let is_slow = picoseconds >= SLOW_PS && self.buckets.is_empty();
        if is_slow && self.exact.len() < EXACT_MAX {
            self.exact.push(picoseconds);
            return;
        }
        for picoseconds in self.exact.drain(..).chain([picoseconds]) {
            (self.buckets.record(picoseconds)).expect("it grows as needed");
        }
    }

    /// Each operation, or the middle of each bucket, in nanoseconds, and its count.
    fn counted(&self) -> Vec<(f32, u32)> {
        let ns = |picoseconds: u64| (picoseconds as f64 / 1000.0) as f32;
        let exact = self.exact.iter().map(|picoseconds| (ns(*picoseconds), 1));
        let buckets = self.buckets.iter_recorded().map(|bucket| {
            let middle = self.buckets.median_equivalent(bucket.value_iterated_to());
            (ns(middle), bucket.count_at_value())
        });
        exact.chain(buckets).collect()
    }
}

impl Batches {
    /// Whether the last batch began and ended alone.
    pub(super) fn stays_alone(&self, gauge: Option<&Gauge>) -> bool {
        (self.readings.last().zip(gauge)).is_some_and(|((before, after), gauge)| {
            gauge.state(*before, *after) == CoreState::Alone
        })
    }

    /// Notes the readings before and after a sample, and returns what they show of the core's state.
    pub(super) fn read(&mut self, before: Reading, after: Reading) -> (f64, f64) {
        let readings = (before.cycles_per_addition, after.cycles_per_addition);
        self.readings.push(readings);
        self.ticks_per_cycle.push(f64::midpoint(before.ticks_per_cycle, after.ticks_per_cycle));
        readings
    }

    /// The clock of the core during these samples, if it was read around each of them.
    fn clock(&self, measured: &Measured, counter_hz: f64) -> Option<BatchClock> {
        let costs = measured.data.costs();
        let hz = |selection: Selection| {
            let positions = measured.positions(selection);
            let (ns, cycles): (Vec<f64>, Vec<f64>) =
                positions.map(|at| (costs[at], costs[at] / self.ticks_per_cycle[at])).unzip();
            Some(median(&cycles)? / median(&ns)? * counter_hz).filter(|hz| hz.is_finite())
        };
        let is_whole = self.ticks_per_cycle.len() == costs.len();
        let is_read = is_whole && self.ticks_per_cycle.iter().all(|ticks| ticks.is_finite());
        is_read.then(|| {
            Some(BatchClock { all_hz: hz(Selection::All)?, alone_hz: hz(Selection::Alone) })
        })?
    }

    /// Adds the states of the core according to this floor.
    fn measured(mut self, name: Text, floor: f64, counter_hz: Option<f64>) -> Measured {
        let is_gauged = self.readings.len() == self.samples.len() && !self.samples.is_empty();
        let hides = self.visits.hide();
        let states =
            self.readings.iter().map(|(before, after)| match state(floor, *before, *after) {
                CoreState::Alone if hides => CoreState::Mixed,
                state => state,
            });
        let measured = Measured {
            gauged: is_gauged.then(|| Gauged::Samples(states.collect())),
            disturbed: std::mem::take(&mut self.disturbed),
            ..Measured::new(name, Data::Samples(std::mem::take(&mut self.samples)))
        };
        let core_clock = counter_hz.and_then(|hz| self.clock(&measured, hz));
        Measured { core_clock, ..measured }
    }
}

impl Record {
    /// A record that counts core cycles, by a counter of so many ticks per second; without it, times alone.
    pub fn counting_cycles(counter_hz: Option<f64>) -> Record {
        Record { counter_hz, ..Record::default() }
    }

    /// What the gauge showed during the samples so far. Batches that may hide a visit were mixed.
    pub fn core(&self) -> CoreGauge {
        let hiding = self.batches.values().filter(|batches| batches.visits.hide());
        let hidden_ns: f64 = hiding.map(|batches| batches.visits.stayed_ns).sum();
        let CoreGauge { alone_ns, mixed_ns, .. } = self.core;
        CoreGauge {
            alone_ns: (alone_ns - hidden_ns).max(0.0),
            mixed_ns: mixed_ns + hidden_ns,
            ..self.core
        }
    }

    /// The point's result in this launch. `failed` means that it has no number.
    pub fn into_report(self, failed: bool, counted: Vec<(Text, f64)>) -> Report {
        let state = match (failed, self.below_resolution) {
            (true, _) => State::Failed,
            (false, true) => State::BelowResolution,
            (false, false) => State::Ok,
        };
        let floor = self.core.floor;
        let mut metrics: Vec<Measured> = Vec::new();
        if state != State::Failed {
            let batches = self.batches.into_iter();
            let hz = self.counter_hz;
            metrics.extend(batches.map(|(name, batches)| batches.measured(name, floor, hz)));
            let latencies = self.latencies.into_iter();
            metrics.extend(latencies.map(|(name, singles)| singles.measured(name)));
        }
        let values = self.values.into_iter();
        let values = values.filter_map(|(name, values)| Some((name, median(&values)?)));
        // What a user has sent by hand counts even after a failure.
        let counts = |(name, _): &(Text, f64)| state != State::Failed || *name == BY_HAND;
        let value = |(name, value)| Measured::new(name, Data::Value(value));
        metrics.extend(values.chain(counted).filter(counts).map(value));
        Report { state, metrics, allocations: self.allocations }
    }
}

//! The meter: what a role hands its operation to, to have it timed.
//!
//! Three kinds of operation: *repeatable* (timed in batches), *used up*
//! (prepared untimed, then timed in batches), *single* (each one stamped).
//! A timed batch allocates nothing, takes no lock and makes no system call but
//! those of the operation itself; what must be recorded is recorded between
//! batches.

use crate::clock::Clock;
use crate::counters::Counters;
use crate::statistics::drift::has_settled;
use costof_model::Text;
use costof_model::failure::Failure;
use costof_model::metric::{Data, Measured};
use costof_model::protocol::Report;
use costof_model::rows::State;
use costof_os::allocator::allocations;
use costof_os::usage;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch lasts at least this many clock resolutions.
const RESOLUTIONS_PER_BATCH: f64 = 1000.0;
/// Reading the clock, twice a batch, stays below 0.1 % of a batch.
const READS_PER_BATCH: f64 = 2000.0;
/// Into how many batches a point's time is cut, as far as they last long enough.
const BATCHES_PER_POINT: f64 = 64.0;
/// The fewest measured batches of a point in a launch, however long they last.
const BATCHES_MIN: usize = 6;
/// The most: where batches stay short, a launch is still a line of reasonable length.
const BATCHES_MAX: usize = 4096;
/// Operations in a batch, at most: none is so cheap that it needs more, so a
/// loop that is still too short was removed by the compiler.
const OPERATIONS_MAX: u64 = 1 << 34;
/// The longest single operation that is recorded as such, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// A warm-up takes at most this share of a point's time.
const WARM_UP_SHARE: f64 = 0.5;

/// Times operations, and keeps what it recorded.
pub struct Meter<'a> {
    clock: &'a dyn Clock,
    time_ns: f64,
    stop: &'a AtomicBool,
    counters: Option<&'a mut Counters>,
    record: &'a mut Record,
}

/// What a point gave so far in this launch, over all its rounds.
#[derive(Debug, Default)]
pub struct Record {
    batches: BTreeMap<Text, Batches>,
    latencies: BTreeMap<Text, Histogram<u64>>,
    values: BTreeMap<Text, Vec<f64>>,
    below_resolution: bool,
    counted_operations: u64,
    allocations: u64,
}

#[derive(Debug, Default)]
struct Batches {
    /// Operations in a batch, found in the first round.
    operations: u64,
    samples: Vec<(u64, f64)>,
    disturbed: Vec<u32>,
}

impl<'a> Meter<'a> {
    /// A meter that measures for `time_ns` by `clock` and adds to `record`.
    /// Whoever sets `stop` ends [`Meter::until_stopped`].
    pub fn new(
        clock: &'a dyn Clock,
        time_ns: f64,
        stop: &'a AtomicBool,
        counters: Option<&'a mut Counters>,
        record: &'a mut Record,
    ) -> Meter<'a> {
        Meter {
            clock,
            time_ns,
            stop,
            counters,
            record,
        }
    }

    /// The clock, for what a role must time by itself.
    pub fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// How long this round is to measure, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        self.time_ns
    }

    /// The cost of an operation that can be repeated: `operation(n)` does it
    /// `n` times. Batches of n and of 2n take turns, so that twice the work
    /// can be seen to take twice the time.
    pub fn repeatable(&mut self, metric: &'static str, mut operation: impl FnMut(u64)) {
        let mut untimed = |_| Ok(());
        // A preparation that does nothing cannot fail.
        let _ = self.batches(metric, OPERATIONS_MAX, &mut untimed, &mut operation);
    }

    /// The cost of an operation that uses something up: `prepare(n)` provides
    /// for n of them, untimed, and `operation(n)` does them. At most `most`
    /// fit into one batch.
    ///
    /// # Errors
    /// Those of `prepare`.
    pub fn used_up(
        &mut self,
        metric: &'static str,
        most: u64,
        mut prepare: impl FnMut(u64) -> Result<(), Failure>,
        mut operation: impl FnMut(u64),
    ) -> Result<(), Failure> {
        self.batches(metric, most, &mut prepare, &mut operation)
    }

    /// The latency of an operation that is stamped each time.
    pub fn single(&mut self, metric: &'static str, mut operation: impl FnMut()) {
        let clock = self.clock;
        let warm_up_end = clock.start() + self.ticks(self.time_ns * WARM_UP_SHARE / 5.0);
        operation();
        while clock.end() < warm_up_end {
            operation();
        }
        let mut histogram = self.take_histogram(metric);
        let end = clock.start() + self.ticks(self.time_ns);
        let mut done = 0;
        self.resume_counting();
        loop {
            let start = clock.start();
            operation();
            let stop = clock.end();
            histogram.saturating_record(picoseconds(clock.ns(stop.saturating_sub(start))));
            done += 1;
            if stop >= end && done >= BATCHES_MIN {
                break;
            }
        }
        self.pause_counting(done as u64);
        self.record.latencies.insert(metric.into(), histogram);
    }

    /// The latency of operations that were to begin at given times: `operation`
    /// is called with the time that has passed since the first was intended,
    /// performs the next one when its time has come, and returns how long after
    /// its *intended* time it was complete, in nanoseconds, or `None` at the end.
    pub fn open_loop(
        &mut self,
        metric: &'static str,
        mut operation: impl FnMut(f64) -> Option<f64>,
    ) {
        let clock = self.clock;
        let mut histogram = self.take_histogram(metric);
        let start = clock.start();
        while let Some(latency_ns) = operation(clock.ns(clock.end().saturating_sub(start))) {
            histogram.saturating_record(picoseconds(latency_ns));
        }
        self.record.latencies.insert(metric.into(), histogram);
    }

    /// The nanoseconds of one call: the first, which users pay once.
    pub fn first(&mut self, metric: &'static str, operation: impl FnOnce()) {
        let start = self.clock.start();
        operation();
        let ns = self.clock.ns(self.clock.end().saturating_sub(start));
        self.value(metric, ns);
    }

    /// A number in the metric's unit. Of several rounds, the median counts.
    pub fn value(&mut self, metric: &'static str, value: f64) {
        self.record
            .values
            .entry(metric.into())
            .or_default()
            .push(value);
    }

    /// Serves, for a role that does not lead, until the leading role has measured.
    pub fn until_stopped(&self, mut serve: impl FnMut()) {
        while !self.stop.load(Ordering::Acquire) {
            serve();
        }
    }

    fn batches(
        &mut self,
        metric: &'static str,
        most: u64,
        prepare: &mut dyn FnMut(u64) -> Result<(), Failure>,
        operation: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut batches = self.record.batches.remove(metric).unwrap_or_default();
        if batches.operations == 0 {
            // Twice as many must fit too.
            batches.operations = self.size(most.div_ceil(2), prepare, operation)?;
        }
        self.warm_up(batches.operations, prepare, operation)?;
        self.measure(&mut batches, most, prepare, operation)?;
        self.record.batches.insert(metric.into(), batches);
        Ok(())
    }

    /// How many operations make a batch that is long enough to be timed.
    fn size(
        &mut self,
        most: u64,
        prepare: &mut dyn FnMut(u64) -> Result<(), Failure>,
        operation: &mut dyn FnMut(u64),
    ) -> Result<u64, Failure> {
        let least_ns = (RESOLUTIONS_PER_BATCH * self.clock.resolution_ns())
            .max(READS_PER_BATCH * self.clock.read_ns());
        let wanted_ns = least_ns.max(self.time_ns / BATCHES_PER_POINT / 1.5);
        let mut operations = 1;
        loop {
            prepare(operations)?;
            let ns = self.batch(operations, operation);
            if ns >= wanted_ns {
                return Ok(operations);
            }
            if operations >= most {
                // Shorter than a clock can tell, at as many operations as there can be.
                self.record.below_resolution |= ns < least_ns;
                return Ok(most);
            }
            // Grows fast while short, then aims, and always ends.
            let aim = (operations as f64 * wanted_ns / ns.max(1.0)).ceil();
            operations = (aim as u64)
                .clamp(operations + 1, operations.saturating_mul(8))
                .min(most);
        }
    }

    fn warm_up(
        &mut self,
        operations: u64,
        prepare: &mut dyn FnMut(u64) -> Result<(), Failure>,
        operation: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut costs = Vec::with_capacity(64);
        let mut spent_ns = 0.0;
        while spent_ns < self.time_ns * WARM_UP_SHARE && !has_settled(&costs) {
            prepare(operations)?;
            let ns = self.batch(operations, operation);
            spent_ns += ns;
            costs.push(ns);
        }
        Ok(())
    }

    fn measure(
        &mut self,
        batches: &mut Batches,
        most: u64,
        prepare: &mut dyn FnMut(u64) -> Result<(), Failure>,
        operation: &mut dyn FnMut(u64),
    ) -> Result<(), Failure> {
        let mut spent_ns = 0.0;
        let mut count = 0;
        while count < BATCHES_MIN || (spent_ns < self.time_ns && count < BATCHES_MAX) {
            let double = count % 2 == 1;
            let operations = batches.operations * if double { 2 } else { 1 };
            let operations = operations.min(most);
            prepare(operations)?;
            let before = usage::thread();
            let allocated = allocations();
            self.resume_counting();
            let ns = self.batch(operations, operation);
            self.pause_counting(operations);
            self.record.allocations += allocations() - allocated;
            let after = usage::thread();
            if after.involuntary_switches > before.involuntary_switches
                || after.major_faults > before.major_faults
            {
                batches.disturbed.push(batches.samples.len() as u32);
            }
            batches.samples.push((operations, ns));
            spent_ns += ns;
            count += 1;
        }
        Ok(())
    }

    /// One timed batch, in nanoseconds.
    #[inline]
    fn batch(&self, operations: u64, operation: &mut dyn FnMut(u64)) -> f64 {
        let start = self.clock.start();
        operation(operations);
        self.clock.ns(self.clock.end().saturating_sub(start))
    }

    fn take_histogram(&mut self, metric: &'static str) -> Histogram<u64> {
        self.record.latencies.remove(metric).unwrap_or_else(|| {
            // In picoseconds, three digits, up to ten minutes.
            Histogram::new_with_bounds(1, LATENCY_MAX_NS * 1000, 3).expect("valid bounds")
        })
    }

    fn ticks(&self, ns: f64) -> u64 {
        (ns / self.clock.ns(1)) as u64
    }

    fn resume_counting(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.resume();
        }
    }

    fn pause_counting(&mut self, operations: u64) {
        if let Some(counters) = &mut self.counters {
            counters.pause();
        }
        self.record.counted_operations += operations;
    }
}

fn picoseconds(ns: f64) -> u64 {
    (ns * 1000.0).max(0.0) as u64
}

impl Record {
    /// Allocations inside timed batches; a probe that is written well has none.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }

    /// Operations that were done while the counters counted.
    pub fn counted_operations(&self) -> u64 {
        self.counted_operations
    }

    /// What the point gave in this launch. `failed` where it has no number.
    pub fn into_report(self, failed: bool, counted: Vec<(Text, f64)>) -> Report {
        let state = match (failed, self.below_resolution) {
            (true, _) => State::Failed,
            (false, true) => State::BelowResolution,
            (false, false) => State::Ok,
        };
        let plain = |name, data| Measured {
            name,
            data,
            disturbed: Vec::new(),
        };
        let mut metrics: Vec<Measured> = Vec::new();
        if state != State::Failed {
            metrics.extend(self.batches.into_iter().map(|(name, batches)| Measured {
                name,
                data: Data::Samples(batches.samples),
                disturbed: batches.disturbed,
            }));
            metrics.extend(
                self.latencies
                    .into_iter()
                    .map(|(name, histogram)| plain(name, Data::Histogram(buckets(&histogram)))),
            );
            metrics.extend(self.values.into_iter().filter_map(|(name, values)| {
                let median = crate::statistics::quantile::median(&values)?;
                Some(plain(name, Data::Value(median)))
            }));
            metrics.extend(
                counted
                    .into_iter()
                    .map(|(name, value)| plain(name, Data::Value(value))),
            );
        }
        Report { state, metrics }
    }
}

fn buckets(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    histogram
        .iter_recorded()
        .map(|bucket| {
            (
                bucket.value_iterated_to() as f64 / 1000.0,
                bucket.count_at_value(),
            )
        })
        .collect()
}

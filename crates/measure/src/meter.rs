//! The meter: a role passes its operation to it to have it timed.
//!
//! Three kinds of operation: *repeatable* (timed in batches), *used up* (prepared untimed, then
//! timed in batches), *single* (each one time-stamped). A timed batch allocates nothing, takes no
//! lock and makes no system call, other than those of the operation itself. The meter records
//! between batches. It reads a gauge of the core before and after each batch, or each group of
//! single operations, and so knows whether the core was shared meanwhile.

mod batches;
mod hunt;
mod record;
mod work;

pub use record::Record;

use record::Singles;
use work::{Batched, Repeatable, Spent, UsedUp, Work};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::crew::Crew;
use crate::gauge::Gauge;
use costof_model::{CoreState, Failure};
use costof_os::memory::allocator::allocations;
use costof_stats::median;
use std::sync::atomic::{AtomicBool, Ordering};

/// If a gauge is read around it, a batch or a group of single operations lasts about this long:
/// neighbours come and go within a tenth of a millisecond.
const GAUGED_BATCH_NS: f64 = 40_000.0;
/// But a batch has at least this many operations, unless it would then last longer than without a
/// gauge: the first operation after a pause may have to wake a thread.
const OPERATIONS_PER_GAUGED_BATCH: f64 = 32.0;
/// The length of a group in an open loop, which must not be delayed often.
const GAUGED_LOOP_NS: f64 = 1_000_000.0;
/// At most this many single operations make a group; slow ones make a group of this length.
const GROUP_MAX: usize = 1024;
const GROUP_MAX_NS: f64 = 300_000.0;
/// At most this many operations make a batch. No operation is so cheap that it needs more: if that is still
/// too short for the clock, the point is below resolution.
const OPERATIONS_MAX: u64 = 1 << 34;
/// Short runs of the operation between the bookkeeping and the timed batch. The system calls of the
/// bookkeeping leave a core's predictors in one of several states, and a tight loop then stays in
/// it: by chance, a call took 4.0 or 4.6 cycles, a coarse clock read 10 or 16. After entering the
/// loop a few times, it settles as it does without interruption.
const SETTLING_RUNS: u64 = 4;
/// A point takes at most this many times its time if preparing its batches takes longer than they
/// do. The minimum of batches is measured in any case.
const WALL_TIMES: f64 = 5.0;
/// A warm-up takes at most this share of a point's time.
const WARM_UP_SHARE: f64 = 0.5;

/// Times operations and keeps the results.
pub struct Meter<'a> {
    clock: &'a dyn Clock,
    time_ns: f64,
    /// A batch lasts at least this long.
    batch_least_ns: f64,
    /// A batch has a multiple of so many operations.
    batch_multiple: u64,
    stop: &'static AtomicBool,
    counters: Option<&'a mut Counters>,
    /// The hardware counters count during the batches of this metric only. A point has one count
    /// for each counter, so it must not mix several operations.
    counted: &'a str,
    /// Shows whether the core is shared; absent if the core's floor is not known.
    gauge: Option<&'a Gauge>,
    record: &'a mut Record,
}

impl<'a> Meter<'a> {
    /// A meter that measures for `time_ns` by `clock` and adds to `record`. Setting `stop` ends
    /// [`Meter::until_stopped`]. The counters count during the batches of the metric `counted`.
    pub fn new(
        clock: &'a dyn Clock,
        time_ns: f64,
        stop: &'static AtomicBool,
        counters: Option<&'a mut Counters>,
        counted: &'a str,
        record: &'a mut Record,
    ) -> Meter<'a> {
        Meter {
            clock,
            time_ns,
            batch_least_ns: 0.0,
            batch_multiple: 1,
            stop,
            counters,
            counted,
            gauge: None,
            record,
        }
    }

    /// Reads this gauge of the core, if there is one, around what it measures.
    pub fn gauged(mut self, gauge: Option<&'a Gauge>) -> Meter<'a> {
        self.gauge = gauge;
        self
    }

    /// The clock, for a role that times something itself.
    pub fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// The gauge of the core, for measurements of the core itself; absent if its floor is not
    /// known.
    pub fn gauge(&self) -> Option<&'a Gauge> {
        self.gauge
    }

    /// How long this round should measure, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        self.time_ns
    }

    /// A meter for one of `parts` measurements that share this point's time.
    pub fn share(&mut self, parts: u32) -> Meter<'_> {
        Meter {
            clock: self.clock,
            time_ns: self.time_ns / f64::from(parts),
            batch_least_ns: self.batch_least_ns,
            batch_multiple: self.batch_multiple,
            stop: self.stop,
            counters: self.counters.as_deref_mut(),
            counted: self.counted,
            gauge: self.gauge,
            record: &mut *self.record,
        }
    }

    /// A meter that measures for at least `least_ns`, even if the point was given less time.
    pub fn lasting(&mut self, least_ns: f64) -> Meter<'_> {
        let mut meter = self.share(1);
        meter.time_ns = meter.time_ns.max(least_ns);
        meter
    }

    /// The median cost of one operation in the batches so far, in nanoseconds; `None` if `metric`
    /// has no batches.
    pub fn cost_ns(&self, metric: &str) -> Option<f64> {
        let samples = &self.record.batches.get(metric)?.samples;
        let costs: Vec<f64> = samples.iter().map(|(n, ns)| ns / *n as f64).collect();
        median(&costs)
    }

    /// Makes batches last at least `ns`, for effects that come and go more slowly than the
    /// operation, as time slices do. A point may then take longer than its time.
    pub fn batches_last(&mut self, ns: f64) {
        self.batch_least_ns = ns;
    }

    /// Makes each batch a multiple of `operations`, where only these together are the same work each time, as
    /// is a lap of which some parts are cached. A point may then take longer than its time.
    pub fn batches_are_multiples_of(&mut self, operations: u64) {
        self.batch_multiple = operations.max(1);
    }

    /// Declares that the point's operation allocates by nature, so that its allocations do not
    /// count as a fault of the measurement.
    pub fn operation_allocates(&mut self) {
        self.record.may_allocate = true;
    }

    /// Measures the cost of an operation that can be repeated: `operation(n)` does it `n` times.
    /// Batches of n and of 2n take turns, which shows whether twice the work takes twice the time.
    // METHOD 3
    pub fn repeatable(&mut self, metric: &'static str, operation: impl FnMut(u64)) {
        self.repeated(metric, &mut Repeatable(operation));
    }

    /// Measures the cost of what the threads of a crew do at the same time, as
    /// [`Meter::repeatable`] does. A batch counts as alone only if every member was alone on its
    /// core.
    pub fn crew(&mut self, metric: &'static str, crew: &mut Crew) {
        self.repeated(metric, crew);
    }

    fn repeated(&mut self, metric: &'static str, work: &mut dyn Work) {
        let mut operation =
            Batched { metric, most: OPERATIONS_MAX, settling_runs: SETTLING_RUNS, work };
        // A preparation that does nothing cannot fail.
        let _ = self.batches(&mut operation);
    }

    /// Measures the cost of an operation that uses something up: `prepare(n)` provides for `n` of
    /// them, untimed, and `operation(n)` does them. At most `most` fit into one batch.
    ///
    /// # Errors
    /// The errors of `prepare`.
    // METHOD 3
    pub fn used_up(
        &mut self,
        metric: &'static str,
        most: u64,
        prepare: impl FnMut(u64) -> Result<(), Failure>,
        operation: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let mut operation = Batched {
            metric,
            most,
            // Settling runs would use up what was prepared.
            settling_runs: 0,
            work: &mut UsedUp(prepare, operation),
        };
        self.batches(&mut operation)
    }

    /// Measures the latency of an operation, each one time-stamped.
    // METHOD 3
    pub fn single(&mut self, metric: &'static str, mut operation: impl FnMut()) {
        self.stamped([metric], |clock| {
            let start = clock.start();
            operation();
            (start, [clock.end()])
        });
    }

    /// Measures the latency of an operation that uses up what `prepare` provides for each one,
    /// untimed. Does as many as fit into half the point's time.
    ///
    /// # Errors
    /// The errors of `prepare`.
    pub fn single_used_up(
        &mut self,
        metric: &'static str,
        mut prepare: impl FnMut() -> Result<(), Failure>,
        mut operation: impl FnMut(),
    ) -> Result<(), Failure> {
        let clock = self.clock;
        let wall_end = clock.end() + self.ticks(self.time_ns / 2.0);
        while clock.end() < wall_end {
            prepare()?;
            self.time(metric, &mut operation);
        }
        Ok(())
    }

    /// Measures the latency of an operation that has two stages. The same operations give two
    /// latencies: that of `begin` is recorded as `call`, that of `begin` and `end` together as
    /// `whole`. One reading of the clock is between them.
    pub fn stages<T>(
        &mut self,
        call: &'static str,
        whole: &'static str,
        mut begin: impl FnMut() -> T,
        mut end: impl FnMut(T),
    ) {
        self.stamped([call, whole], |clock| {
            let start = clock.start();
            let begun = begin();
            let called = clock.end();
            end(begun);
            (start, [called, clock.end()])
        });
    }

    /// Runs operations that return when they started, and when each of the metrics was complete;
    /// the last metric completes last.
    fn stamped<const METRICS: usize>(
        &mut self,
        metrics: [&'static str; METRICS],
        mut operation: impl FnMut(&dyn Clock) -> (u64, [u64; METRICS]),
    ) {
        let clock = self.clock;
        let mut singles = metrics.map(|metric| self.take_singles(metric));
        let mut group: Vec<[u64; METRICS]> = Vec::with_capacity(GROUP_MAX);
        let warm_up_end = clock.start() + self.ticks(self.time_ns * WARM_UP_SHARE / 5.0);
        operation(clock);
        while clock.end() < warm_up_end {
            operation(clock);
        }
        let mut spent = Spent::default();
        while !spent.suffices(self.time_ns, self.gauge.is_some()) {
            let before = self.gauge.map(Gauge::read);
            let began = clock.start();
            let is_complete = |count: usize, ended: u64| {
                let ns = clock.ns(ended.saturating_sub(began));
                let is_long =
                    ns >= GAUGED_BATCH_NS && count >= OPERATIONS_PER_GAUGED_BATCH as usize;
                is_long || ns >= GROUP_MAX_NS || count >= GROUP_MAX
            };
            let mut ended = began;
            while !is_complete(group.len(), ended) {
                let allocated = allocations();
                let (start, stops) = operation(clock);
                self.count_allocations(allocated);
                ended = stops.into_iter().max().unwrap_or(start);
                group.push(stops.map(|stop| stop.saturating_sub(start)));
            }
            let after = self.gauge.map(Gauge::read);
            let state = self.note_state(before.zip(after), clock.ns(ended.saturating_sub(began)));
            // Each of them counts as a batch would.
            let each_ns = clock.ns(ended.saturating_sub(began)) / group.len() as f64;
            for took in group.drain(..) {
                spent.add(each_ns, state);
                for (single, ticks) in singles.iter_mut().zip(took) {
                    single.add(clock.ns(ticks), state);
                }
            }
        }
        for (metric, single) in metrics.into_iter().zip(singles) {
            self.record.latencies.insert(metric.into(), single);
        }
    }

    /// Measures the latency of operations that should begin at given times. Calls `operation` with
    /// the time since the intended start of the first one. It performs the next operation when that
    /// is due, and returns how long after the *intended* time it was complete, in nanoseconds;
    /// `None` at the end.
    pub fn open_loop(
        &mut self,
        metric: &'static str,
        mut operation: impl FnMut(f64) -> Option<f64>,
    ) {
        let clock = self.clock;
        let mut singles = self.take_singles(metric);
        let mut group: Vec<f64> = Vec::with_capacity(GROUP_MAX);
        let start = clock.start();
        let mut ended = false;
        while !ended {
            let before = self.gauge.map(Gauge::read);
            let began = clock.end();
            let group_end = began + self.ticks(GAUGED_LOOP_NS);
            let mut now = began;
            while now < group_end && group.len() < GROUP_MAX && !ended {
                let allocated = allocations();
                let latency_ns = operation(clock.ns(now.saturating_sub(start)));
                // What the histogram allocates as it grows is not the operation's.
                self.count_allocations(allocated);
                group.extend(latency_ns);
                ended = latency_ns.is_none();
                now = clock.end();
            }
            let after = self.gauge.map(Gauge::read);
            let state = self.note_state(before.zip(after), clock.ns(now.saturating_sub(began)));
            for latency_ns in group.drain(..) {
                singles.add(latency_ns, state);
            }
        }
        self.record.latencies.insert(metric.into(), singles);
    }

    /// Times one operation and records its latency, for a role that triggers each operation itself
    /// and does untimed work between them. Only for a role that leads: the gauge is read before and
    /// after the operation, and the other end would wait meanwhile.
    pub fn time<T>(&mut self, metric: &'static str, operation: impl FnOnce() -> T) -> T {
        let before = self.gauge.map(Gauge::read);
        let allocated = allocations();
        let start = self.clock.start();
        let result = operation();
        let end = self.clock.end();
        self.count_allocations(allocated);
        let after = self.gauge.map(Gauge::read);
        let ns = self.clock.ns(end.saturating_sub(start));
        let state = self.note_state(before.zip(after), ns);
        self.singles(metric).add(ns, state);
        result
    }

    /// Records a latency in nanoseconds: the difference of two time stamps that this meter did not
    /// take.
    pub fn latency(&mut self, metric: &'static str, ns: f64) {
        self.singles(metric).add(ns, None);
    }

    /// Repeats what a role times itself until the point's time is over, at most this many times and
    /// at least once: this also measures an operation that takes longer than that time.
    ///
    /// # Errors
    /// The first error of `round`, which ends it.
    pub fn repeat(
        &mut self,
        most: u64,
        mut round: impl FnMut(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let end = self.clock.end() + self.ticks(self.time_ns);
        for _ in 0..most {
            round(self)?;
            if self.clock.end() >= end {
                break;
            }
        }
        Ok(())
    }

    /// The nanoseconds of one call, the first one: a cost that users pay once.
    pub fn first(&mut self, metric: &'static str, operation: impl FnOnce()) {
        let start = self.clock.start();
        operation();
        let ns = self.clock.ns(self.clock.end().saturating_sub(start));
        self.value(metric, ns);
    }

    /// Records a number in the metric's unit. Of several rounds, the median counts.
    pub fn value(&mut self, metric: &'static str, value: f64) {
        self.record.values.entry(metric.into()).or_default().push(value);
    }

    /// Records a batch that the role timed itself, for example because several threads did it.
    pub fn batch_done(&mut self, metric: &'static str, operations: u64, ns: f64) {
        let batches = self.record.batches.entry(metric.into()).or_default();
        batches.samples.push((operations, ns));
    }

    /// Records how many allocations happened in what the role timed itself.
    pub fn allocated(&mut self, count: u64) {
        self.record.allocations += count;
    }

    /// Set when the leading role has measured, or a user ends what is sent by hand; for a role whose
    /// threads poll it.
    pub fn stop(&self) -> &'static AtomicBool {
        self.stop
    }

    /// Calls `serve` until the leading role has measured; for a role that does not lead.
    pub fn until_stopped(&self, mut serve: impl FnMut()) {
        while !self.is_stopped() {
            serve();
        }
    }

    /// Whether the leading role has measured; for a role that does not lead.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Notes the state of the core between two readings of its gauge, during which `ns` were
    /// measured.
    fn note_state(&mut self, readings: Option<(f64, f64)>, ns: f64) -> Option<CoreState> {
        let gauge = self.gauge?;
        let (before, after) = readings?;
        let state = gauge.state(before, after);
        let core = &mut self.record.core;
        core.floor = gauge.floor;
        core.add(state, ns);
        Some(state)
    }

    fn singles(&mut self, metric: &'static str) -> &mut Singles {
        let latencies = &mut self.record.latencies;
        latencies.entry(metric.into()).or_insert_with(Singles::new)
    }

    fn take_singles(&mut self, metric: &'static str) -> Singles {
        let known = self.record.latencies.remove(metric);
        known.unwrap_or_else(Singles::new)
    }

    fn ticks(&self, ns: f64) -> u64 {
        (ns / self.clock.ns(1)) as u64
    }

    /// When a measurement must end: after this share of the longest wall-clock time of the point.
    fn wall_end(&self, share: f64) -> u64 {
        self.clock.end() + self.ticks(self.time_ns * share * WALL_TIMES)
    }

    fn count_allocations(&mut self, before: u64) {
        if !self.record.may_allocate {
            self.record.allocations += allocations() - before;
        }
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

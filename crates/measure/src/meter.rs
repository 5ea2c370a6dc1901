//! The meter: what a role hands its operation to, to have it timed.
//!
//! Three kinds of operation: *repeatable* (timed in batches), *used up*
//! (prepared untimed, then timed in batches), *single* (each one stamped).
//! A timed batch allocates nothing, takes no lock and makes no system call but
//! those of the operation itself; what must be recorded is recorded between
//! batches. A gauge of the core is read before and after each, or each group of
//! single operations, and says whether the core was shared meanwhile.

mod batches;
mod record;
mod work;

pub use record::Record;

use record::Singles;
use work::{Batched, Repeatable, Spent, UsedUp, Work};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::crew::Crew;
use crate::gauge::Gauge;
use costof_model::failure::Failure;
use costof_model::metric::CoreState;
use costof_os::memory::allocator::allocations;
use costof_stats::median;
use std::sync::atomic::{AtomicBool, Ordering};

/// A batch lasts about this long where a gauge is read around it, and so does a
/// group of single operations: others come and go within a tenth of a millisecond.
const GAUGED_BATCH_NS: f64 = 40_000.0;
/// But a batch has so many operations, as long as it lasts no longer than without a gauge: the first one
/// after a pause may have to wake somebody.
const OPERATIONS_PER_GAUGED_BATCH: f64 = 32.0;
/// A group of an open loop, which must not be held up often.
const GAUGED_LOOP_NS: f64 = 1_000_000.0;
/// Single operations in a group, at most, and how long it lasts where they are slow.
const GROUP_MOST: usize = 1024;
const GROUP_MOST_NS: f64 = 300_000.0;
/// Operations in a batch, at most: none is so cheap that it needs more, so a
/// loop that is still too short was removed by the compiler.
const OPERATIONS_MAX: u64 = 1 << 34;
/// Short runs of the operation between the bookkeeping and the timed batch.
/// The bookkeeping's system calls leave a core's predictors in one of several
/// states, in which a tight loop then stays: a call took 4.0 or 4.6 cycles, a
/// coarse clock read 10 or 16, by chance. Entering the loop anew a few times
/// lets it settle where it does when nothing interrupts it.
const SETTLING_RUNS: u64 = 4;
/// A point takes at most this many times its time where providing for its
/// batches takes longer than they do; the least batches are measured anyhow.
const WALL_TIMES: f64 = 5.0;
/// A warm-up takes at most this share of a point's time.
const WARM_UP_SHARE: f64 = 0.5;

/// Times operations, and keeps what it recorded.
pub struct Meter<'a> {
    clock: &'a dyn Clock,
    time_ns: f64,
    /// A batch lasts at least this long.
    batch_least_ns: f64,
    stop: &'a AtomicBool,
    counters: Option<&'a mut Counters>,
    /// The metric whose batches are counted: a point has one count for each
    /// counter, which must not be that of several operations.
    counted: &'a str,
    /// Whether the core is shared; absent where its floor is not known.
    gauge: Option<&'a Gauge>,
    record: &'a mut Record,
}

impl<'a> Meter<'a> {
    /// A meter that measures for `time_ns` by `clock` and adds to `record`.
    /// Whoever sets `stop` ends [`Meter::until_stopped`]. The counters count the
    /// batches of the metric `counted`.
    pub fn new(
        clock: &'a dyn Clock,
        time_ns: f64,
        stop: &'a AtomicBool,
        counters: Option<&'a mut Counters>,
        counted: &'a str,
        record: &'a mut Record,
    ) -> Meter<'a> {
        Meter {
            clock,
            time_ns,
            batch_least_ns: 0.0,
            stop,
            counters,
            counted,
            gauge: None,
            record,
        }
    }

    /// Reads this gauge of the core around what it measures, where there is one.
    pub fn gauged(mut self, gauge: Option<&'a Gauge>) -> Meter<'a> {
        self.gauge = gauge;
        self
    }

    /// The clock, for what a role must time by itself.
    pub fn clock(&self) -> &'a dyn Clock {
        self.clock
    }

    /// The gauge of the core, for what is about the core itself; absent where its floor is not known.
    pub fn gauge(&self) -> Option<&'a Gauge> {
        self.gauge
    }

    /// How long this round is to measure, in nanoseconds.
    pub fn time_ns(&self) -> f64 {
        self.time_ns
    }

    /// A meter for one of `parts` measurements that share this point's time.
    pub fn share(&mut self, parts: u32) -> Meter<'_> {
        Meter {
            clock: self.clock,
            time_ns: self.time_ns / f64::from(parts),
            batch_least_ns: self.batch_least_ns,
            stop: self.stop,
            counters: self.counters.as_deref_mut(),
            counted: self.counted,
            gauge: self.gauge,
            record: &mut *self.record,
        }
    }

    /// A meter that measures for `least_ns` at least, however little time the
    /// point was given.
    pub fn lasting(&mut self, least_ns: f64) -> Meter<'_> {
        let mut meter = self.share(1);
        meter.time_ns = meter.time_ns.max(least_ns);
        meter
    }

    /// What one operation cost in the median of the batches so far, in
    /// nanoseconds; `None` where `metric` has no batches.
    pub fn cost_ns(&self, metric: &str) -> Option<f64> {
        let samples = &self.record.batches.get(metric)?.samples;
        let costs: Vec<f64> = samples.iter().map(|(n, ns)| ns / *n as f64).collect();
        median(&costs)
    }

    /// Makes batches last `ns` at least, though a point may then take longer
    /// than its time: where what is averaged over comes and goes more slowly
    /// than the operation, as time slices do.
    pub fn batches_last(&mut self, ns: f64) {
        self.batch_least_ns = ns;
    }

    /// Says that the point's operation allocates by nature, so that its
    /// allocations are no fault of the measurement.
    pub fn operation_allocates(&mut self) {
        self.record.may_allocate = true;
    }

    /// The cost of an operation that can be repeated: `operation(n)` does it
    /// `n` times. Batches of n and of 2n take turns, so that twice the work
    /// can be seen to take twice the time.
    pub fn repeatable(&mut self, metric: &'static str, operation: impl FnMut(u64)) {
        self.repeated(metric, &mut Repeatable(operation));
    }

    /// The cost of what the threads of a crew do at the same time, as
    /// [`Meter::repeatable`]; alone is only what was alone on the core of each.
    pub fn crew(&mut self, metric: &'static str, crew: &mut Crew) {
        self.repeated(metric, crew);
    }

    fn repeated(&mut self, metric: &'static str, work: &mut dyn Work) {
        let mut operation = Batched {
            metric,
            most: OPERATIONS_MAX,
            settling_runs: SETTLING_RUNS,
            work,
        };
        // A preparation that does nothing cannot fail.
        let _ = self.batches(&mut operation);
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
        prepare: impl FnMut(u64) -> Result<(), Failure>,
        operation: impl FnMut(u64),
    ) -> Result<(), Failure> {
        let mut operation = Batched {
            metric,
            most,
            // Settling would use up what was prepared.
            settling_runs: 0,
            work: &mut UsedUp(prepare, operation),
        };
        self.batches(&mut operation)
    }

    /// The latency of an operation that is stamped each time.
    pub fn single(&mut self, metric: &'static str, mut operation: impl FnMut()) {
        self.stamped([metric], |clock| {
            let start = clock.start();
            operation();
            (start, [clock.end()])
        });
    }

    /// The latency of an operation that uses up what `prepare` provides for
    /// each one, untimed, as often as half the point's time allows.
    ///
    /// # Errors
    /// Those of `prepare`.
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

    /// The latency of an operation that has two stages: `begin` is stamped as
    /// `call`, `begin` and `end` together as `whole`, each time, so that both
    /// speak of the same operations. One reading of the clock is between them.
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

    /// Operations that say when they started, and when each of the metrics was
    /// complete, the last one last.
    fn stamped<const METRICS: usize>(
        &mut self,
        metrics: [&'static str; METRICS],
        mut operation: impl FnMut(&dyn Clock) -> (u64, [u64; METRICS]),
    ) {
        let clock = self.clock;
        let mut singles = metrics.map(|metric| self.take_singles(metric));
        let mut group: Vec<[u64; METRICS]> = Vec::with_capacity(GROUP_MOST);
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
                is_long || ns >= GROUP_MOST_NS || count >= GROUP_MOST
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
        let mut singles = self.take_singles(metric);
        let mut group: Vec<f64> = Vec::with_capacity(GROUP_MOST);
        let start = clock.start();
        let mut ended = false;
        while !ended {
            let before = self.gauge.map(Gauge::read);
            let began = clock.end();
            let group_end = began + self.ticks(GAUGED_LOOP_NS);
            let mut now = began;
            while now < group_end && group.len() < GROUP_MOST && !ended {
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

    /// Times one operation of a role that brings about each by itself, and does
    /// between them what is not timed; its latency is recorded.
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

    /// Records a latency that is the difference of two stamps which others than
    /// this meter have set, in nanoseconds.
    pub fn latency(&mut self, metric: &'static str, ns: f64) {
        self.singles(metric).add(ns, None);
    }

    /// Repeats what a role times by itself until the point's time is over, at
    /// most so many times, and once at least: also an operation that takes
    /// longer than that is measured.
    ///
    /// # Errors
    /// The first one of `round`, which ends it.
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

    /// A batch that the role has timed itself, as where several threads did it.
    pub fn batch_done(&mut self, metric: &'static str, operations: u64, ns: f64) {
        let batches = self.record.batches.entry(metric.into()).or_default();
        batches.samples.push((operations, ns));
    }

    /// How often what the role has timed itself has allocated.
    pub fn allocated(&mut self, count: u64) {
        self.record.allocations += count;
    }

    /// What is set when the leading role has measured, for a role whose threads look at it.
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Serves, for a role that does not lead, until the leading role has measured.
    pub fn until_stopped(&self, mut serve: impl FnMut()) {
        while !self.is_stopped() {
            serve();
        }
    }

    /// Whether the leading role has measured, for a role that does not lead.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The state of the core between two readings of its gauge, in which `ns` were measured.
    fn note_state(&mut self, readings: Option<(f64, f64)>, ns: f64) -> Option<CoreState> {
        let gauge = self.gauge?;
        let (before, after) = readings?;
        let state = gauge.state(before, after);
        let core = &mut self.record.core;
        core.floor = gauge.floor();
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

    /// When a measurement must end that is to take so many times its time.
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

//! Operations that are timed in batches: how long a batch is, when the warm-up is over, and the
//! timed loop.

use super::hunt::{Begin, are_too_long, is_interrupted};
use super::record::Batches;
use super::work::{BATCHES_MIN, Batched, Spent, Work};
use super::{GAUGED_BATCH_NS, Meter, OPERATIONS_PER_GAUGED_BATCH, WARM_UP_SHARE};
use costof_model::{CoreState, Failure};
use costof_os::memory::allocator::allocations;
use costof_os::sched::usage;
use costof_stats::drift::has_settled;

/// A batch lasts at least this many clock resolutions.
const RESOLUTIONS_PER_BATCH: f64 = 1000.0;
/// Reading the clock twice per batch takes less than 0.1 % of the batch.
const READS_PER_BATCH: f64 = 2000.0;
/// Into how many batches a point's time is divided, as long as they are long enough.
const BATCHES_PER_POINT: f64 = 64.0;
/// At most this many batches: with short batches, the row of a launch still has a reasonable
/// length.
const BATCHES_MAX: usize = 4096;
/// How many times shorter a settling run is than a batch.
const SETTLING_PART: u64 = 64;
/// If a batch has fewer operations than that, but at least this many, one operation runs before it.
/// The first operation after a pause took 1.4 times as long if it wakes another thread.
const SETTLED_MIN: u64 = 3;

impl Meter<'_> {
    /// Sizes, warms up and measures batches of an operation.
    pub(super) fn batches(&mut self, operation: &mut Batched<'_>) -> Result<(), Failure> {
        let metric = operation.metric;
        let mut batches = self.record.batches.remove(metric).unwrap_or_default();
        if batches.sized == 0 {
            batches.sized = self.size(operation)?;
        }
        let shorter = self.warm_up(batches.sized, operation)?;
        if batches.samples.is_empty() {
            batches.operations = shorter;
        }
        self.measure(&mut batches, operation)?;
        self.record.batches.insert(metric.into(), batches);
        Ok(())
    }

    /// How many operations a batch needs to be long enough to be timed.
    // METHOD 2
    fn size(&mut self, operation: &mut Batched<'_>) -> Result<u64, Failure> {
        let least_ns = (RESOLUTIONS_PER_BATCH * self.clock.resolution_ns())
            .max(READS_PER_BATCH * self.clock.read_ns());
        let cut_ns = self.time_ns / BATCHES_PER_POINT / 1.5;
        // The duration of batches whose operations take this long.
        let wanted_ns = |each_ns: f64| {
            let gauged_ns = GAUGED_BATCH_NS.max(OPERATIONS_PER_GAUGED_BATCH * each_ns);
            let cut_ns = match self.gauge {
                Some(_) => cut_ns.min(gauged_ns),
                None => cut_ns,
            };
            least_ns.max(cut_ns).max(self.batch_least_ns)
        };
        // A batch of twice as many operations must fit too.
        let most = operation.most.div_ceil(2);
        let mut operations = self.batch_multiple.min(most);
        loop {
            let mut ns = self.batch(operations, operation)?;
            let wanted_ns = wanted_ns(ns / operations as f64);
            if ns >= wanted_ns {
                // An interruption may have made the batch long, so it must be long again.
                ns = ns.min(self.batch(operations, operation)?);
            }
            if ns >= wanted_ns {
                return Ok(operations);
            }
            if operations >= most {
                // The operation is too short for the clock, even with the most operations that a
                // batch can have.
                self.record.below_resolution |= ns < least_ns;
                return Ok(most);
            }
            // Grows fast while short, then aims, and always ends.
            let aim = (operations as f64 * wanted_ns / ns.max(1.0)).ceil();
            operations = (aim as u64)
                .clamp(operations + 1, operations.saturating_mul(8))
                .next_multiple_of(self.batch_multiple)
                .min(most);
        }
    }

    /// Warms up by batches of this many operations, and returns how many are few enough for the
    /// times that the core is alone.
    // METHOD 11
    fn warm_up(&mut self, operations: u64, operation: &mut Batched<'_>) -> Result<u64, Failure> {
        let mut costs = Vec::with_capacity(64);
        let mut were_alone = Vec::with_capacity(64);
        let mut read = |work: &mut dyn Work| {
            let Some(gauge) = self.gauge else { return };
            let reading = work.read(gauge).cycles_per_addition;
            if !is_interrupted(gauge, reading) {
                were_alone.push(gauge.is_alone(reading));
            }
        };
        read(operation.work);
        let mut spent_ns = 0.0;
        let wall_end = self.wall_end(WARM_UP_SHARE);
        while spent_ns < self.time_ns * WARM_UP_SHARE
            && self.clock.end() < wall_end
            && !has_settled(&costs)
        {
            let ns = self.batch(operations, operation)?;
            spent_ns += ns;
            costs.push(ns);
            read(operation.work);
        }
        let least_ns = costs.iter().copied().reduce(f64::min);
        // Those that use something up cannot fill the caches before a batch.
        let is_shortened = operation.settling_runs > 0 && are_too_long(&were_alone);
        Ok(match least_ns.filter(|_| is_shortened) {
            Some(ns) => self.shorter(operations, ns),
            None => operations,
        })
    }

    fn measure(
        &mut self,
        batches: &mut Batches,
        operation: &mut Batched<'_>,
    ) -> Result<(), Failure> {
        let mut spent = Spent::default();
        let wall_end = self.wall_end(1.0);
        let is_counted = operation.metric == self.counted;
        while !spent.suffices(self.time_ns, self.gauge.is_some()) {
            let is_over = spent.count >= BATCHES_MAX || self.clock.end() >= wall_end;
            if spent.count >= BATCHES_MIN && is_over {
                break;
            }
            let times = if spent.count.is_multiple_of(2) { 1 } else { 2 };
            let operations = (times * batches.operations).min(operation.most);
            operation.work.prepare(operations)?;
            let allocated = allocations();
            let began = self.clock.end();
            let Begin { usage: usage_before, reading: before } =
                self.begin(batches, operation, &spent);
            if is_counted {
                self.resume_counting();
            }
            let settling = self.settle(batches.sized, operation);
            let ns = self.timed(operations, operation.work);
            if is_counted {
                self.pause_counting(settling + operations);
            }
            self.count_allocations(allocated);
            let ended = self.clock.end();
            let after = self.gauge.map(|gauge| operation.work.read(gauge));
            let took_ns = self.clock.ns(self.clock.end().saturating_sub(began));
            let since = usage::thread().since(&usage_before);
            let is_disturbed = since.involuntary_switches > 0 || since.major_faults > 0;
            if is_disturbed {
                batches.disturbed.push(batches.samples.len() as u32);
            }
            batches.samples.push((operations, ns));
            let readings = before.zip(after).map(|(before, after)| batches.read(before, after));
            if let Some(readings) = readings {
                self.note_visit(batches, readings, ended, ns);
                spent.hides_visits = batches.visits.hide();
                spent.beside_ns += took_ns - ns;
            }
            let state = self.note_state(readings, ns);
            spent.add(ns, state.filter(|_| !is_disturbed));
            // They were sized while the core was shared, and it is faster alone.
            let is_alone = state == Some(CoreState::Alone);
            if is_alone && batches.operations < batches.sized && self.is_too_short(ns) {
                batches.operations = (2 * batches.operations).min(batches.sized);
            }
        }
        Ok(())
    }

    /// Runs the operation a few times briefly before a batch, and returns how many operations that
    /// were. `operations` is how many a batch was sized for, however many it has.
    fn settle(&self, operations: u64, operation: &mut Batched<'_>) -> u64 {
        let (runs, part) = match operations {
            SETTLING_PART.. => (operation.settling_runs, operations / SETTLING_PART),
            SETTLED_MIN.. => (operation.settling_runs.min(1), 1),
            _ => return 0,
        };
        for _ in 0..runs {
            self.timed(part, operation.work);
        }
        runs * part
    }

    /// The time of one prepared batch without bookkeeping, in nanoseconds.
    fn batch(&self, operations: u64, operation: &mut Batched<'_>) -> Result<f64, Failure> {
        operation.work.prepare(operations)?;
        Ok(self.timed(operations, operation.work))
    }

    /// The time of a batch, in nanoseconds.
    #[inline]
    pub(super) fn timed(&self, operations: u64, work: &mut dyn Work) -> f64 {
        let start = self.clock.start();
        work.run(operations);
        self.clock.ns(self.clock.end().saturating_sub(start))
    }
}

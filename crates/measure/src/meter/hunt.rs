//! Hunting for times when the core is alone. A batch waits until a reading of the gauge is alone,
//! and batches are short while the core is hardly ever alone for long. Visits that begin and end
//! within a batch stay unseen, so they are estimated from those that are seen. All of this looks
//! at the gauge, and never at what a batch cost.

use super::Meter;
use super::record::Batches;
use super::work::{BATCHES_MIN, Batched, Spent};
use crate::gauge::{BROKEN, Gauge, Reading};
use costof_os::sched::usage::{self, Usage};

/// Batches are shortened if fewer than this share of those that began alone also ended alone.
const STAYED_MIN: f64 = 0.75;
/// A shortened batch lasts about this long, ...
const SHORT_BATCH_NS: f64 = 10_000.0;
/// ... at least this many readings and resolutions of the clock, so that reading it is at most
/// 0.2 % of the batch, ...
const READS_PER_SHORT_BATCH: f64 = 500.0;
/// ... and has at least this many operations. Batches of fewer do not wait: a core is hardly ever
/// alone for as long as they last.
const OPERATIONS_PER_SHORT_BATCH: u64 = 8;
/// A batch waits at most this many times as long as it lasts, ...
const PATIENCE_BATCHES: f64 = 8.0;
/// ... and at most this share of its point's time, so that a core that is never alone leaves enough
/// batches for the cost while it is shared.
const PATIENCE_SHARE: f64 = 1.0 / 16.0;
/// How many times shorter than a batch the runs of the operation are that fill the waiting.
const WAITING_PART: u64 = 4;
/// If more than this share of the batches that look alone hide a visit, none of them counts: their
/// median would be too high.
const HIDDEN_MAX: f64 = 0.2;
/// Nor does any if fewer than this share of those that began alone also ended alone. Then the times
/// that the core is alone are too short even to show when a visit ends.
const SHARE_STAYED_MIN: f64 = 0.1;
/// A reading above this many times the floor was interrupted, and shows no visit.
const INTERRUPTED: f64 = 2.5;

/// What is read right before a batch.
pub(super) struct Begin {
    pub(super) usage: Usage,
    /// The gauge's reading.
    pub(super) reading: Option<Reading>,
}

/// The batches that began alone, and the visits that began during them.
#[derive(Debug, Default)]
pub(super) struct SeenVisits {
    /// How many batches began alone, how many of these also ended alone, and how long these lasted in nanoseconds.
    began: u32,
    stayed: u32,
    pub(super) stayed_ns: f64,
    /// When the current one was seen first, and how long the batch lasted in which it began.
    current: Option<(u64, f64)>,
    begun: u32,
    ended: u32,
    /// The sum over the visits of the chance that such a visit ends before the batch does in which
    /// it begins: it begins at any time of the batch.
    returned: f64,
}

impl SeenVisits {
    fn begin(&mut self, start: u64, batch_ns: f64) {
        self.begun += 1;
        self.current = Some((start, batch_ns));
    }

    fn end(&mut self, ns: f64, batch_ns: f64) {
        self.ended += 1;
        self.returned += (1.0 - ns / batch_ns).max(0.0);
    }

    /// Whether too many batches hide a visit that began and ended within them.
    pub(super) fn hide(&self) -> bool {
        // As if one more had not: a few short ones, which may be interruptions, prove nothing.
        let returned = self.returned / f64::from(self.ended + 1);
        // For each visit that is seen, because it lasted until the batch's end, so many are not.
        let unseen = f64::from(self.begun) * returned / (1.0 - returned);
        let [began, stayed] = [self.began, self.stayed].map(f64::from);
        unseen > HIDDEN_MAX * stayed || stayed < SHARE_STAYED_MIN * began
    }
}

impl Meter<'_> {
    /// Reads the gauge before a batch. If the core is not alone, waits until it is, or as long as a
    /// batch may wait. Meanwhile the operation goes on in short runs, where that uses nothing up.
    /// Once the core is alone, it runs for a batch that is not timed and fills the caches that a
    /// neighbour has emptied; then the core must still be alone. After a batch that was alone they
    /// are full.
    pub(super) fn begin(
        &mut self,
        batches: &mut Batches,
        operation: &mut Batched<'_>,
        spent: &Spent,
    ) -> Begin {
        let began = self.clock.end();
        let patience_ns = self.patience_ns(batches, spent);
        let mut waited_ns = 0.0;
        let is_long = batches.operations >= OPERATIONS_PER_SHORT_BATCH;
        let can_fill = self.gauge.is_some() && operation.settling_runs > 0 && is_long;
        // The warm-up ran right before the first batch.
        let mut is_filled = !can_fill || spent.count == 0 || batches.stays_alone(self.gauge);
        loop {
            let usage = usage::thread();
            let start = self.clock.end();
            let reading = self.gauge.map(|gauge| operation.work.read(gauge));
            let at = reading.map(|reading| reading.cycles_per_addition);
            let is_alone = (self.gauge.zip(at)).is_none_or(|(gauge, at)| gauge.is_alone(at));
            if is_alone && let Some((since, batch_ns)) = batches.visits.current.take() {
                let ns = self.clock.ns(start.saturating_sub(since));
                batches.visits.end(ns, batch_ns);
            }
            let is_over = waited_ns >= patience_ns;
            if (is_alone && is_filled) || (is_over && !is_alone) {
                self.record.core.waited_ns += waited_ns;
                return Begin { usage, reading };
            }
            is_filled = is_alone || !can_fill;
            let part = match is_alone {
                true => batches.operations,
                false => batches.operations / WAITING_PART,
            };
            if operation.settling_runs > 0 && part > 0 {
                self.timed(part, operation.work);
            }
            waited_ns = self.clock.ns(self.clock.end().saturating_sub(began));
        }
    }

    /// How long a batch may wait.
    fn patience_ns(&self, batches: &Batches, spent: &Spent) -> f64 {
        let is_over = spent.count >= BATCHES_MIN && spent.is_over(self.time_ns, true);
        if batches.operations < OPERATIONS_PER_SHORT_BATCH || is_over {
            return 0.0;
        }
        let last_ns = batches.samples.last().map_or(0.0, |(_, ns)| *ns);
        (PATIENCE_BATCHES * last_ns).min(PATIENCE_SHARE * self.time_ns)
    }

    /// Notes whether a batch that began alone also ended alone, or in a visit. `start` is when the
    /// visit was first read.
    pub(super) fn note_visit(
        &self,
        batches: &mut Batches,
        (before, after): (f64, f64),
        start: u64,
        batch_ns: f64,
    ) {
        let Some(gauge) = self.gauge else { return };
        let visits = &mut batches.visits;
        if !gauge.is_alone(before) {
            return;
        }
        visits.began += 1;
        if gauge.is_alone(after) {
            visits.stayed += 1;
            visits.stayed_ns += batch_ns;
        } else if !is_interrupted(gauge, after) {
            visits.begin(start, batch_ns);
        }
    }

    /// How many operations a batch has if its core is hardly ever alone for long: `operations` of
    /// them, which took `ns`, are too many.
    pub(super) fn shorter(&self, operations: u64, ns: f64) -> u64 {
        let short = (operations as f64 * self.short_batch_ns() / ns.max(1.0)).ceil() as u64;
        short.max(OPERATIONS_PER_SHORT_BATCH).next_multiple_of(self.batch_multiple).min(operations)
    }

    fn short_batch_ns(&self) -> f64 {
        SHORT_BATCH_NS
            .max(READS_PER_SHORT_BATCH * self.clock.read_ns())
            .max(READS_PER_SHORT_BATCH * self.clock.resolution_ns())
            .max(self.batch_least_ns)
    }

    /// Whether a batch that lasted `ns` is much shorter than shortened batches should be.
    pub(super) fn is_too_short(&self, ns: f64) -> bool {
        ns < self.short_batch_ns() / 2.0
    }
}

/// Whether a reading was interrupted: it says nothing of the core.
pub(super) fn is_interrupted(gauge: &Gauge, reading: f64) -> bool {
    !(BROKEN..INTERRUPTED).contains(&(reading / gauge.floor))
}

/// Whether batches with these readings of the gauge before and after them are too long for the
/// times that the core is alone.
pub(super) fn are_too_long(readings: &[bool]) -> bool {
    let began = readings.windows(2).filter(|pair| pair[0]).count();
    let stayed = readings.windows(2).filter(|pair| pair[0] && pair[1]).count();
    !readings.is_empty() && (stayed as f64) < STAYED_MIN * began.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a hundred batches of 10 µs that began alone, so many met a visit of such a length.
    fn hide(visits: u32, visit_ns: f64) -> bool {
        let stayed = 100 - visits;
        let mut seen = SeenVisits { began: 100, stayed, ..SeenVisits::default() };
        for _ in 0..visits {
            seen.begin(0, 10_000.0);
            seen.end(visit_ns, 10_000.0);
        }
        seen.hide()
    }

    #[test]
    fn what_visits_hide_follows_from_how_long_the_seen_ones_last() {
        assert!(!hide(0, 0.0));
        // A visit of three quarters of a batch is unseen once for three times that it is seen.
        assert!(hide(50, 7_500.0) && !hide(30, 7_500.0));
        // As long as a batch, none is unseen, unless hardly any batch stays alone.
        assert!(!hide(89, 10_000.0) && hide(91, 10_000.0));
        // Few short ones prove nothing, many do.
        assert!(!hide(3, 500.0) && hide(10, 500.0));
    }

    #[test]
    fn batches_are_too_long_if_the_core_is_hardly_ever_alone_from_one_end_to_the_other() {
        assert!(!are_too_long(&[]) && !are_too_long(&[true; 9]));
        assert!(are_too_long(&[false; 9]));
        let mut readings = [true; 17];
        readings[8] = false;
        assert!(!are_too_long(&readings));
        readings[4] = false;
        readings[12] = false;
        readings[14] = false;
        readings[10] = false;
        assert!(are_too_long(&readings));
    }
}

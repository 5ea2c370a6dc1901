//! Gaps in the clock: stretches in which a thread that only reads the clock could not read it.
//!
//! Source: Linux Documentation/trace/osnoise-tracer.rst, which looks for gaps in the same way from
//! inside the kernel; D. Riddoch, sysjitter, which does so from user space.

use crate::clock::Clock;

/// A gap is longer than this, as in Linux's osnoise (1 µs since Linux 6.11). Reading the clock
/// takes tens of nanoseconds, some hundreds with a cache miss; the shortest interrupt with its
/// handler takes about a microsecond.
pub const GAP_NS: f64 = 1000.0;

/// A gap also lasts at least this many readings: a clock in a device (hpet, acpi_pm) takes a
/// microsecond or more for each.
pub const READINGS_PER_GAP: f64 = 5.0;

/// Watches a clock, and yields the length of each gap in nanoseconds.
pub struct Watch<'c> {
    clock: &'c dyn Clock,
    began: u64,
    last: u64,
    for_ns: f64,
    longer_than_ns: f64,
}

impl<'c> Watch<'c> {
    /// Begins to watch `clock`, for `for_ns`.
    pub fn begin(clock: &'c dyn Clock, for_ns: f64) -> Watch<'c> {
        let began = clock.start();
        Watch {
            clock,
            began,
            last: began,
            for_ns,
            longer_than_ns: GAP_NS.max(READINGS_PER_GAP * clock.read_ns()),
        }
    }

    /// For how long it has watched, in nanoseconds.
    pub fn watched_ns(&self) -> f64 {
        self.clock.ns(self.last.saturating_sub(self.began))
    }
}

impl Iterator for Watch<'_> {
    type Item = f64;

    /// The next gap; `None` when the time is over. What the caller does between two calls does not
    /// count as a gap.
    fn next(&mut self) -> Option<f64> {
        self.last = self.clock.end();
        while self.watched_ns() < self.for_ns {
            let now = self.clock.end();
            let gap_ns = self.clock.ns(now.saturating_sub(self.last));
            self.last = now;
            if gap_ns > self.longer_than_ns {
                return Some(gap_ns);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::Computed;
    use std::cell::Cell;

    /// A clock that reads these nanoseconds one after the other, then stands still.
    fn clock(readings: Vec<u64>, read_ns: f64) -> impl Clock {
        let next = Cell::new(0);
        let now_ns = move || {
            let at = next.get();
            next.set((at + 1).min(readings.len() - 1));
            readings[at]
        };
        Computed { now_ns, read_ns }
    }

    #[test]
    fn only_what_is_longer_than_a_microsecond_and_not_the_callers_is_a_gap() {
        let readings = vec![
            // Begins; then a gap of 2 µs, and one of exactly the limit.
            100, 110, 120, 2_120, // The caller takes 5 µs.
            7_120, 8_120, 8_130, 9_131, // A gap that ends after the time is one too.
            9_140, 30_000, 30_010,
        ];
        let clock = clock(readings, 1.0);
        let mut watch = Watch::begin(&clock, 10_000.0);
        let gaps: Vec<f64> = watch.by_ref().collect();
        assert_eq!(gaps, [2_000.0, 1_001.0, 20_860.0]);
        assert_eq!(watch.watched_ns(), 29_910.0);
    }

    #[test]
    fn readings_of_a_slow_clock_are_no_gaps() {
        let readings = vec![0, 1_500, 3_000, 4_500, 14_500, 16_000, 30_000];
        let clock = clock(readings, 1_500.0);
        let gaps: Vec<f64> = Watch::begin(&clock, 15_000.0).collect();
        assert_eq!(gaps, [10_000.0]);
    }
}

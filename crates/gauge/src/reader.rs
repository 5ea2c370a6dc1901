//! A reading: how fast independent additions are, in core cycles.

use crate::chain::{MULTIPLY_CYCLES, multiply};
use crate::counter;
use crate::floor;
use crate::slots::independent_additions;

/// Each of the two loops lasts at least this many steps of the counter, which may advance by ten
/// nanoseconds at a time, and at least this many multiplications: a quarter of a microsecond at 3
/// GHz.
const STEPS_PER_LOOP: f64 = 50.0;
const MULTIPLICATIONS_MIN: u64 = 250;
/// Multiplications in a pass of their loop.
const PASS: u64 = 32;
/// As many additions as take about the time of one multiplication.
const ADDITIONS_PER_MULTIPLICATION: u64 = 10;
/// The fraction of a reading that runs before it and is discarded: right after the kernel ran, a
/// reading would be a few per cent too high.
const WARM_UP_PART: u64 = 8;
/// How many readings a calibration takes.
const CALIBRATION_READINGS: usize = 2_000;

/// Reads the core that the calling thread is on, without a judgement: [`Gauge`](crate::Gauge) adds
/// the floor that makes one.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    multiplications: u64,
}

/// What a reading shows.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Whether the core is shared: see [`state`](crate::state).
    pub cycles_per_addition: f64,
    /// The core's clock: how long a cycle was, in ticks of [`counter`]. A stretch that was timed in ticks
    /// has that many times fewer core cycles. It stays within 1 % while the clock does, which many
    /// cores change by steps of a few per cent, several times a second.
    ///
    /// On aarch64 a multiplication is taken to last 2 cycles; on Cortex-A72 and Apple cores it lasts 3, and
    /// cycles are then 1.5 times too many. Ratios hold.
    pub ticks_per_cycle: f64,
}

impl Reader {
    /// Finds once how long the loops of a reading must be for this machine's counter. It takes some
    /// 50 microseconds.
    #[expect(clippy::new_without_default, reason = "it measures: nothing that a default should do")]
    pub fn new() -> Reader {
        let step = (0..1000)
            .map(|_| counter::end().abs_diff(counter::end()))
            .filter(|ticks| *ticks > 0)
            .min()
            .unwrap_or(1) as f64;
        // The shortest of five: others may be interrupted.
        let each =
            (0..5).map(|_| ticks(|| multiply(10_000))).fold(f64::INFINITY, f64::min).max(1.0)
                / 10_000.0;
        let multiplications = (STEPS_PER_LOOP * step / each) as u64;
        Reader {
            // A remainder of a pass would be slow in unoptimised code.
            multiplications: multiplications.max(MULTIPLICATIONS_MIN).next_multiple_of(PASS),
        }
    }

    /// Core cycles per addition now: about two microseconds, in registers only. It makes no system
    /// call, touches no memory beyond its stack frame, and cannot fail.
    pub fn read(&self) -> f64 {
        self.read_with_clock().cycles_per_addition
    }

    /// The same reading, with the core's clock.
    pub fn read_with_clock(&self) -> Reading {
        let multiplications = self.multiplications;
        let additions = multiplications * ADDITIONS_PER_MULTIPLICATION;
        multiply(multiplications / WARM_UP_PART);
        independent_additions(additions / WARM_UP_PART);
        let cycle = ticks(|| multiply(multiplications)) / multiplications as f64 / MULTIPLY_CYCLES;
        let addition = ticks(|| independent_additions(additions)) / additions as f64;
        Reading { cycles_per_addition: addition / cycle, ticks_per_cycle: cycle }
    }

    /// The floor of the core that the calling thread is on: the [plateau](floor::plateau) of 2,000
    /// readings, some 4 milliseconds. If the floor of the core's `design` is known and contradicts
    /// it, the core was never alone, and the design's floor counts. `None` if there is neither.
    pub fn floor(&self, design: Option<f64>) -> Option<f64> {
        let mut readings = [0.0; CALIBRATION_READINGS];
        readings.fill_with(|| self.read());
        floor::choose(floor::plateau(&mut readings), design)
    }
}

fn ticks(work: impl FnOnce() -> u64) -> f64 {
    let start = counter::start();
    core::hint::black_box(work());
    counter::end().saturating_sub(start) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_core_has_a_reading() {
        let reader = Reader::new();
        let mut readings = [0.0; 201];
        readings.fill_with(|| reader.read());
        readings.sort_unstable_by(f64::total_cmp);
        let median = readings[100];
        assert!(median.is_finite() && median > 0.05 && median < 5.0, "{median}");
    }
}

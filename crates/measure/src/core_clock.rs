//! The core clock, from two dependent chains of instructions that must agree.

use crate::clock::Clock;
pub use costof_gauge::chain::{ROTATE_CYCLES, rotate};
use costof_gauge::chain::{multiply, multiply_cycles};
use costof_stats::median;

/// Steps of the chains in one repetition, and repetitions: about 0.2 ms together.
const STEPS: u64 = 20_000;
const REPETITIONS: usize = 9;

/// The result of the chains.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock {
    /// Core cycles per second.
    pub hz: f64,
    /// The latency of a multiplication in cycles: the time of its chain over the time of the other.
    /// It is near a whole number if the two chains agree.
    pub multiply_cycles: f64,
}

impl CoreClock {
    /// Measures the core clock. `None` if the two chains do not agree, because the clock changed
    /// between them or a neighbour took the core.
    pub fn measure(clock: &dyn Clock) -> Option<CoreClock> {
        let measured = CoreClock::from_chains(clock);
        multiply_cycles(measured.multiply_cycles).map(|_| measured)
    }

    fn from_chains(clock: &dyn Clock) -> CoreClock {
        let step_ns = |chain: fn(u64) -> u64| -> f64 {
            let steps: Vec<f64> = (0..REPETITIONS)
                .map(|_| {
                    let start = clock.start();
                    std::hint::black_box(chain(STEPS));
                    clock.ns(clock.end() - start) / STEPS as f64
                })
                .collect();
            median(&steps).unwrap_or(f64::NAN)
        };
        let rotate_ns = step_ns(rotate);
        CoreClock {
            hz: ROTATE_CYCLES / rotate_ns * 1e9,
            multiply_cycles: step_ns(multiply) / rotate_ns * ROTATE_CYCLES,
        }
    }
}

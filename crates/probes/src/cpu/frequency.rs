//! `cpu.frequency`: how fast the core really runs.

use crate::expect;
use crate::prelude::*;
use costof_measure::core_clock::CoreClock;

pub(crate) static PROBE: Probe = Probe::new::<Frequency>();

point! {
    /// How fast does the core run while it works?
    ///
    /// Two chains of dependent instructions whose latency in cycles is known: rotations (1 cycle)
    /// give the clock, multiplications (3 cycles on x86-64) must agree to a whole number within 2
    /// %, or there is no answer. Additions of constants are not used: newer cores can fold them.
    /// The chains run for the whole time of the point, and the median counts. Every launch of every
    /// probe does the same for half a millisecond before and after, which is where estimated core
    /// cycles come from.
    ///
    /// # Predicted from
    /// the advertised base and maximum frequency; where neither is told, the TSC's rate
    ///
    /// # Sources
    /// - A. Abel, J. Reineke, uops.info: Characterizing Latency, ASPLOS 2019
    /// - Agner Fog, Instruction tables
    /// - Arm software optimization guides of the Neoverse and Cortex cores
    pub(crate) struct Frequency of "cpu.frequency" {}
}

impl Measure for Frequency {
    const METRICS: &'static [Metric] = metrics! {
        /// core cycles per second
        frequency: Hertz Neither,
        /// the multiply chain's time over the rotate chain's: a whole number (3 on x86-64, 2 or 3
        /// on aarch64) where the two chains agree
        multiply_cycles: One Neither,
        /// core cycles per tick of the clock that costof measures by, the TSC where it is trusted
        per_counter_tick: One Neither,
    };
    const ROLES: &'static [StartRole] = &[|_| role::<Frequency>(run)];

    headlines! {
        "core clock": {},
    }

    fn predict(_: &At<Frequency>, facts: &Facts, _: &Known<'_>) -> Option<Prediction> {
        let base = facts.cpu.base.as_ref();
        let max = facts.cpu.max.as_ref();
        let tsc = facts.cpu.tsc.as_ref();
        let (low, high, because) = match (base, max) {
            (Some(base), Some(max)) => (
                base.hz as f64,
                max.hz as f64,
                format!("base by {}, maximum by {}", base.source, max.source),
            ),
            (Some(base), None) => (
                base.hz as f64,
                1.8 * base.hz as f64,
                format!("base by {}; turbo adds up to 80 %", base.source),
            ),
            (None, Some(max)) => (
                0.5 * max.hz as f64,
                max.hz as f64,
                format!(
                    "maximum by {}; few cores work at less than half of it",
                    max.source
                ),
            ),
            (None, None) => {
                // The TSC ticks at about the frequency that a processor is sold with.
                let tsc = tsc?;
                let low = 0.9 * tsc.hz as f64;
                let because = format!("the TSC's rate by {}; turbo doubles it at most", tsc.source);
                (low, 2.0 * tsc.hz as f64, because)
            }
        };
        expect::between("frequency", (low * 0.99, high * 1.01), because)
    }
}

fn run(_: &At<Frequency>, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let clock = meter.clock();
    let start = clock.start();
    let mut measured = Vec::new();
    while clock.ns(clock.end() - start) < meter.time_ns() {
        measured.extend(CoreClock::measure(clock));
    }
    if measured.is_empty() {
        fail!(
            "the two chains never agreed: the core clock changes all the time, or others use this \
             core (costof doctor tells)"
        );
    }
    let tick_ns = clock.ns(1 << 20) / f64::from(1 << 20);
    let middle = |of: fn(&CoreClock) -> f64| {
        let mut values: Vec<f64> = measured.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let hz = middle(|measured| measured.hz);
    meter.value("frequency", hz);
    meter.value(
        "multiply_cycles",
        middle(|measured| measured.multiply_cycles),
    );
    meter.value("per_counter_tick", hz * tick_ns / 1e9);
    Ok(())
}

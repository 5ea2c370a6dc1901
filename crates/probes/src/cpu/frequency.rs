//! `cpu.frequency`: the core's real clock.

use crate::prelude::*;
use costof_measure::core_clock::CoreClock;
use costof_model::facts::Advertised;

pub(crate) static PROBE: Probe = Probe::new::<Frequency>();

point! {
    /// How fast does the core run while it works?
    ///
    /// Two chains of dependent instructions, whose latency in cycles is known, are timed. Rotations
    /// (1 cycle) give the clock. Multiplications (3 cycles on x86-64) must take a whole number of
    /// rotations within 2 %, or there is no answer. Additions of constants are not used, because
    /// newer cores can fold them. The chains run for the whole time of the point, and the median
    /// counts. Every launch of every probe does the same for half a millisecond before and after its
    /// measurement; estimated core cycles are based on that.
    ///
    /// # Predicted from
    /// the advertised base and maximum frequency; where neither is known, the TSC's rate
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
        /// on aarch64) if the two chains agree
        multiply_cycles: One Neither,
        /// core cycles per tick of the clock that costof uses: the TSC where it is trusted
        per_counter_tick: One Neither,
    };
    const ROLES: &'static [StartRole] = &[|_| role::<Frequency>(run)];

    headlines! {
        "core clock": {},
    }

    fn predict(_: &At<Self>, facts: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        let stated = |claim: &Option<Advertised>| {
            let claim = claim.clone()?;
            Some((claim.hz as f64, claim.source))
        };
        let (low, high, because) = match (stated(&facts.cpu.base), stated(&facts.cpu.max)) {
            (Some((base, by)), Some((max, max_by))) => {
                (base, max, format!("base by {by}, maximum by {max_by}"))
            }
            (Some((base, by)), None) => {
                let because = format!("base by {by}; turbo adds up to 80 %");
                (base, 1.8 * base, because)
            }
            (None, Some((max, by))) => {
                let because = format!("maximum by {by}; few cores run at less than half of it");
                (0.5 * max, max, because)
            }
            // The TSC ticks at about the CPU's nominal frequency.
            (None, None) => {
                let (tsc, by) = stated(&facts.cpu.tsc)?;
                let because = format!("the TSC's rate by {by}; turbo doubles it at most");
                (0.9 * tsc, 2.0 * tsc, because)
            }
        };
        Some(Prediction { metric: "frequency".into(), low: low * 0.99, high: high * 1.01, because })
    }
}

fn run(_: &At<Frequency>, meter: &mut Meter<'_>) -> Result {
    let clock = meter.clock();
    let start = clock.start();
    let mut measured = Vec::new();
    while clock.ns(clock.end() - start) < meter.time_ns() {
        measured.extend(CoreClock::measure(clock));
    }
    ensure!(
        !measured.is_empty(),
        "the two chains never agreed: the core clock keeps changing, or something else uses this core \
         (see costof doctor)"
    );
    let tick_ns = clock.ns(1 << 20) / f64::from(1 << 20);
    // One of the measured values: of the two in the middle, the later one.
    let middle = |value: fn(&CoreClock) -> f64| {
        let mut values: Vec<f64> = measured.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let hz = middle(|measured| measured.hz);
    meter.value("frequency", hz);
    let multiply_cycles = middle(|measured| measured.multiply_cycles);
    meter.value("multiply_cycles", multiply_cycles);
    meter.value("per_counter_tick", hz * tick_ns / 1e9);
    Ok(())
}

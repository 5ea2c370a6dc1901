//! `harness.null`: what the harness itself adds to what it measures.

use crate::cpu::clock::{Clock, Source};
use crate::prelude::*;

pub(crate) static PROBE: Probe = Probe::new::<Null>();

point! {
    /// What does the harness itself add to each timed batch?
    ///
    /// An empty batch is timed as every batch is: a reading of the clock that the work waits for,
    /// an indirect call that does nothing, a reading that waits for the work. Many such empty
    /// batches are the operation of an outer batch. A batch of any probe lasts at least 1,000 times
    /// as long as a reading of the clock and holds many operations, so this cost stays below 0.2 %
    /// of what is printed. Nothing is subtracted.
    ///
    /// # Predicted from
    /// two fenced readings of the clock (cpu.clock)
    ///
    /// # Sources
    /// - G. Paoloni, How to Benchmark Code Execution Times on Intel IA-32 and IA-64, 2010: the
    ///   overhead of the two readings is measured before anything else
    pub(crate) struct Null of "harness.null" {}
}

impl Measure for Null {
    const METRICS: &'static [Metric] = metrics! {
        /// one empty batch: two readings of the clock and an indirect call
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.clock"];
    const ROLES: &'static [StartRole] = &[|_| role::<Null>(run)];

    fn aliases() -> Vec<Alias> {
        vec![Alias::new("null", "harness.null")]
    }

    headlines! {
        "empty batch (harness)": {},
    }

    /// The readings share a fence; a call of a few cycles partly hides behind them.
    fn predict(_: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let source = Source::TscFenced;
        let read = measured_cost(measured, &Clock { source }, "for a fenced reading of the clock")?;
        (read * (1.2, 2.2)).predict("cost")
    }
}

fn run(_: &At<Null>, meter: &mut Meter<'_>) -> Result {
    let clock = meter.clock();
    let mut nothing: Box<dyn FnMut(u64)> = Box::new(|_| {});
    meter.repeatable("cost", |n| {
        for _ in 0..n {
            let start = clock.start();
            black_box(&mut nothing)(1);
            black_box(clock.end() - start);
        }
    });
    Ok(())
}

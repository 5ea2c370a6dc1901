//! `null`: what the harness itself adds to what it measures.

use crate::expect::cost_ns;
use crate::literal::{cost, list, text};
use costof_measure::meter::Meter;
use costof_measure::probe::{Only, Probe, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use std::hint::black_box;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("null"),
        method: 1,
        question: text("What does the harness itself add to each timed batch?"),
        axes: list![],
        crossings: list![],
        metrics: list![cost(
            "one empty batch: two readings of the clock and an indirect call"
        )],
        how: text(
            "An empty batch is timed as every batch is: a reading of the clock that the work waits \
             for, an indirect call that does nothing, a reading that waits for the work. Many such \
             empty batches are the operation of an outer batch. A batch of any probe lasts at least \
             1,000 times what a reading of the clock costs and holds many operations, so this cost \
             stays below 0.2 % of what is printed. Nothing is subtracted.",
        ),
        sources: list![text(
            "G. Paoloni, How to Benchmark Code Execution Times on Intel IA-32 and IA-64, 2010: \
             the overhead of the two readings is measured before anything else",
        )],
        predicted_from: text("two fenced readings of the clock, which cpu.clock has measured"),
        after: list![text("cpu.clock")],
        needs: list![],
        roles: list![text("only")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines: |_| vec![Headline::new("empty batch (harness)", Axes::default())],
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Only(run)))],
    derive: the_only_report,
};

fn run(_: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
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

fn predict(_: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let read_ns = known.primary("cpu.clock", &[("source", "tsc_fenced")])?;
    cost_ns(
        1.2 * read_ns,
        2.2 * read_ns,
        format!(
            "two readings of {read_ns:.1} ns that share a fence, and a call of a few cycles that \
             partly hides behind them"
        ),
    )
}

//! `cpu.loop`: what one iteration of a loop costs.

use crate::expect::cost_cycles;
use crate::literal::{cost, list, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Only, Probe, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_os::loops;
use std::hint::black_box;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("cpu.loop"),
        method: 1,
        question: text("What does one iteration of a loop cost?"),
        axes: list![words(
            "body",
            "what the loop does besides counting",
            list![
                word("empty", "nothing: a subtraction and a branch"),
                word("nop", "one nop"),
                word(
                    "memory_counter",
                    "counts in memory, as an unoptimised build does: load, add, store, compare"
                ),
            ],
        )],
        crossings: list![],
        metrics: list![cost("one iteration")],
        how: text(
            "Loops in assembly, aligned to 64 bytes, so that no optimiser unrolls or removes them \
             and code placement does not move the number. The loop with a counter in memory is what \
             the course projects' unoptimised builds timed: cores that rename memory (Zen 2, Golden \
             Cove and later) do it in one cycle, older ones forward the store in 4 to 6.",
        ),
        sources: list![
            text("CSE 221 System Measurement Project, 2014: 6.5 cycles an iteration, unoptimised"),
            text("Agner Fog, The microarchitecture of Intel, AMD and VIA CPUs: store forwarding"),
            text(
                "T. Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009: code placement"
            ),
        ],
        predicted_from: text("the core clock and cycles per taken branch"),
        after: list![text("cpu.frequency")],
        needs: list![],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Only(run)))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("loop iteration", "empty"),
        ("loop iteration: counter in memory", "memory_counter"),
    ]
    .map(|(label, body)| Headline::new(label, Axes::default().with("body", body)))
    .into()
}

fn run(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    match point.axes.word("body") {
        "empty" => meter.repeatable("cost", loops::empty),
        "nop" => meter.repeatable("cost", loops::nop),
        "memory_counter" => meter.repeatable("cost", |n| {
            black_box(loops::memory_counter(n));
        }),
        other => return Err(Failure::error(format!("no loop body is called {other}"))),
    }
    Ok(())
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    match point.axes.word("body") {
        "memory_counter" => cost_cycles(
            known,
            1.0,
            6.5,
            "the counter goes through the store buffer, or is renamed",
        ),
        _ => cost_cycles(
            known,
            0.95,
            2.1,
            "a taken branch a cycle, two on small cores",
        ),
    }
}

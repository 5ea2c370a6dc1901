//! `cpu.clock`: what reading a clock costs, and what it can tell apart.

use crate::expect::{cost_cycles, cost_ns};
use crate::literal::{cost, list, metric, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Only, Probe, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::{Better, Unit};
use costof_os::clock::{ClockId, now_ns};
use costof_os::{clock_reads, tsc};
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("cpu.clock"),
        method: 1,
        question: text("What does reading the time cost, and how finely does each clock tell it?"),
        axes: list![words(
            "source",
            "which clock, by which call",
            list![
                word(
                    "tsc",
                    "the processor's counter, unordered: rdtsc; cntvct_el0 on aarch64"
                ),
                word(
                    "tsc_fenced",
                    "the same, ordered on both sides: lfence; rdtsc; lfence (isb on aarch64)"
                ),
                word("monotonic", "clock_gettime(CLOCK_MONOTONIC)"),
                word(
                    "monotonic_raw",
                    "clock_gettime(CLOCK_MONOTONIC_RAW), which NTP does not steer"
                ),
                word(
                    "monotonic_coarse",
                    "clock_gettime(CLOCK_MONOTONIC_COARSE), as of the last tick"
                ),
                word("realtime", "clock_gettime(CLOCK_REALTIME)"),
                word(
                    "thread_cpu",
                    "clock_gettime(CLOCK_THREAD_CPUTIME_ID), a system call"
                ),
                word("std_instant", "Rust's Instant::now()"),
            ],
        )],
        crossings: list![],
        metrics: list![
            cost("one reading"),
            metric(
                "resolution",
                Unit::Nanoseconds,
                Better::Lower,
                "the least step between two readings that differ; never below what a reading costs, \
                 except where readings overlap",
            ),
        ],
        how: text(
            "Readings in a loop, each result used, in batches: a throughput, so unordered readings \
             overlap and cost less than an ordered one. The resolution is the least positive \
             difference between successive readings, watched until the clock has moved at least \
             twice. The clock that costof itself measures by is the counter where it is invariant \
             and the kernel's own clock source, else CLOCK_MONOTONIC; every run says below its \
             table which one it was, and why.",
        ),
        sources: list![
            text("clock_gettime(2), vdso(7)"),
            text("Linux Documentation/timers/timekeeping.rst"),
            text("Intel SDM vol. 2, RDTSC; uops.info for its latency"),
            text(
                "G. Paoloni, How to Benchmark Code Execution Times on Intel IA-32 and IA-64, 2010"
            ),
        ],
        predicted_from: text(
            "the core clock and the latency of rdtsc; for the kernel's clocks, whether the vDSO can \
             answer with this clock source or a system call is needed",
        ),
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
        ("clock read: counter", "tsc"),
        ("clock read: counter, ordered", "tsc_fenced"),
        ("clock read: clock_gettime", "monotonic"),
        ("clock read: coarse", "monotonic_coarse"),
        ("clock read: thread CPU time", "thread_cpu"),
        ("clock read: Rust's Instant", "std_instant"),
    ]
    .map(|(label, source)| Headline::new(label, Axes::default().with("source", source)))
    .into()
}

/// The kernel's clock that a source reads by clock_gettime.
fn kernel_clock(source: &str) -> Option<ClockId> {
    Some(match source {
        "monotonic" => ClockId::Monotonic,
        "monotonic_raw" => ClockId::MonotonicRaw,
        "monotonic_coarse" => ClockId::MonotonicCoarse,
        "realtime" => ClockId::Realtime,
        "thread_cpu" => ClockId::ThreadCpu,
        _ => return None,
    })
}

fn run(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let source = point.axes.word("source");
    let resolution_ns = match source {
        "tsc" => least_step(tsc::now) * tick_ns(),
        "tsc_fenced" => least_step(tsc::start) * tick_ns(),
        "std_instant" => {
            let start = Instant::now();
            least_step(|| start.elapsed().as_nanos() as u64)
        }
        other => kernel_clock(other).map_or(f64::NAN, |clock| least_step(|| now_ns(clock))),
    };
    meter.value("resolution", resolution_ns);
    match source {
        "tsc" => meter.repeatable("cost", clock_reads::tsc),
        "tsc_fenced" => meter.repeatable("cost", clock_reads::tsc_fenced),
        "std_instant" => meter.repeatable("cost", clock_reads::std_instant),
        other => match kernel_clock(other) {
            Some(clock) => meter.repeatable("cost", |n| clock_reads::clock_gettime(clock, n)),
            None => return Err(Failure::error(format!("no clock is called {other}"))),
        },
    }
    Ok(())
}

/// The least positive difference between successive readings, in the clock's
/// own unit: over a thousand steps, or as many as there are in 20 ms (a coarse
/// clock moves once a tick).
fn least_step(read: impl Fn() -> u64) -> f64 {
    let began = Instant::now();
    let (mut least, mut steps) = (u64::MAX, 0);
    let mut last = read();
    // The first step may be a part of one, so at least two are awaited.
    while steps < 2 || (steps < 1000 && began.elapsed().as_millis() < 20) {
        let now = read();
        if now > last {
            least = least.min(now - last);
            steps += 1;
        }
        last = now;
    }
    least as f64
}

/// Nanoseconds per tick of the counter, to three digits: a millisecond's look.
fn tick_ns() -> f64 {
    let (ns, ticks) = (now_ns(ClockId::MonotonicRaw), tsc::start());
    while now_ns(ClockId::MonotonicRaw) < ns + 1_000_000 {}
    (now_ns(ClockId::MonotonicRaw) - ns) as f64 / (tsc::end() - ticks) as f64
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let vdso = facts.clock_source.current.as_deref().is_some_and(|source| {
        matches!(
            source,
            "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page"
        )
    });
    match point.axes.word("source") {
        "tsc" => cost_cycles(known, 18.0, 60.0, "rdtsc is microcoded"),
        "tsc_fenced" => cost_cycles(
            known,
            30.0,
            120.0,
            "rdtsc and two fences that drain the core",
        ),
        "monotonic_coarse" => cost_cycles(known, 5.0, 30.0, "the vDSO reads memory only"),
        "thread_cpu" => cost_ns(
            80.0,
            800.0,
            "a system call that takes the run queue's lock and updates the thread's accounting",
        ),
        _ if vdso => cost_cycles(
            known,
            35.0,
            160.0,
            "the vDSO reads the counter and scales it",
        ),
        _ => cost_ns(
            60.0,
            2000.0,
            "the vDSO cannot answer with this clock source, so each reading is a system call",
        ),
    }
}

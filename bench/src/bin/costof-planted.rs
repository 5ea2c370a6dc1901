//! A whole costof with one probe, whose work can be made longer by a known share: what `costof-bench
//! compare planted` holds against itself. It is no user's program.
//!
//! `COSTOF_PLANTED_PERCENT` says by how much, from 0 to 100; each worker reads it for itself.

use costof_measure::meter::Meter;
use costof_measure::probe::{Only, Probe, the_only_report};
use costof_model::axis::{Axis, Choice, Domain};
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::{Better, Unit};
use costof_model::{List, Text};
use costof_os::syscalls;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::LazyLock;

fn main() -> ExitCode {
    costof::main(TABLE)
}

static TABLE: &[&Probe] = &[&PLANTED];

/// The parts of an operation without anything planted: one in a hundred is a percent.
const PARTS: u64 = 100;
/// What the chase goes through: what the second cache holds of most processors. Beyond it neighbours take
/// part, and no count of launches tells 5 % from them.
const CHASED_WORDS: usize = (256 << 10) / size_of::<usize>();

const OF: &[Choice] = &[
    choice("core", "multiplications that wait for each other"),
    choice("kernel", "system calls"),
    choice("memory", "loads that wait for each other, through 256 KiB"),
];
const AXES: &[Axis] = &[Axis {
    name: text("of"),
    about: text("what the operation is made of"),
    domain: Domain::Choice(List::Borrowed(OF)),
}];
const METRICS: &[MetricInfo] = &[MetricInfo {
    name: text("cost"),
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    about: text("one operation of a hundred parts, and those that are planted"),
}];
const SOURCES: &[Text] = &[text("bench/README.md")];
const ROLES: &[Text] = &[text("only")];

static PLANTED: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("bench.planted"),
        method: 1,
        question: text("Is a known slow-down found?"),
        axes: List::Borrowed(AXES),
        crossings: List::Borrowed(&[]),
        metrics: List::Borrowed(METRICS),
        how: text(
            "An operation is a hundred parts, and one more for each percent that is planted.",
        ),
        sources: List::Borrowed(SOURCES),
        predicted_from: text("nothing"),
        after: List::Borrowed(&[]),
        needs: List::Borrowed(&[]),
        roles: List::Borrowed(ROLES),
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |_| 1,
    headlines: |_| Vec::new(),
    more_points: |_| Vec::new(),
    budget: None,
    predict: |_, _, _| None,
    roles: &[|_| Ok(Box::new(Only(run)))],
    derive: the_only_report,
};

const fn text(text: &'static str) -> Text {
    Text::Borrowed(text)
}

const fn choice(value: &'static str, about: &'static str) -> Choice {
    Choice {
        value: text(value),
        about: text(about),
    }
}

fn run(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let parts = PARTS + planted_percent().map_err(Failure::error)?;
    match point.axes.word("of") {
        "core" => meter.repeatable("cost", |n| {
            let mut value = black_box(1_u64);
            for _ in 0..n * parts * 8 {
                value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            black_box(value);
        }),
        "kernel" => meter.repeatable("cost", |n| syscalls::getppid(n * parts)),
        _ => {
            let next = cycle();
            meter.repeatable("cost", |n| {
                let mut at = black_box(0);
                for _ in 0..n * parts {
                    at = next[at];
                }
                black_box(at);
            });
        }
    }
    Ok(())
}

fn planted_percent() -> Result<u64, String> {
    let said = std::env::var("COSTOF_PLANTED_PERCENT").unwrap_or_default();
    let percent = said.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| {
        format!("COSTOF_PLANTED_PERCENT is `{said}`, where it must be a number from 0 to 100")
    })
}

/// One random cycle through all words (S. Sattolo, 1986).
fn cycle() -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut next: Vec<usize> = (0..CHASED_WORDS).collect();
    for last in (1..next.len()).rev() {
        next.swap(last, random.usize(..last));
    }
    next
}

//! A whole costof with one probe, whose work can be made longer by a known share: what `costof-bench
//! compare planted` holds against itself. It is no user's program.
//!
//! `COSTOF_PLANTED_PERCENT` says by how much, from 0 to 100; each worker reads it for itself.

use costof_measure::meter::Meter;
use costof_measure::metrics;
use costof_measure::probe::{Measure, Metric, Probe, StartRole, role};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::prediction::{MeasuredRows, Prediction};
use costof_model::typed::{At, words};
use costof_model::{point, words};
use costof_os::process::syscalls;
use std::hint::black_box;
use std::process::ExitCode;

fn main() -> ExitCode {
    costof::main(TABLE)
}

static TABLE: &[&Probe] = &[&PLANTED];
static PLANTED: Probe = Probe::new::<Planted>();

/// The parts of an operation without anything planted: one in a hundred is a percent.
const PARTS: u64 = 100;
/// What the chase goes through: what the second cache holds of most processors. Beyond it neighbours take
/// part, and no count of launches tells 5 % from them.
const CHASED_WORDS: usize = (256 << 10) / size_of::<usize>();

words! {
    /// What the operation is made of.
    enum Of {
        /// multiplications that wait for each other
        Core = "core",
        /// system calls
        Kernel = "kernel",
        /// loads that wait for each other, through 256 KiB
        Memory = "memory",
    }
}

point! {
    /// Is a known slow-down found?
    ///
    /// An operation is a hundred parts, and one more for each percent that is planted.
    ///
    /// # Predicted from
    /// nothing
    ///
    /// # Sources
    /// - bench/README.md
    struct Planted of "bench.planted" {
        /// what the operation is made of
        of: Of = words(),
    }
}

impl Measure for Planted {
    const METRICS: &'static [Metric] = metrics! {
        /// one operation of a hundred parts, and those that are planted
        cost: Nanoseconds Lower,
    };
    const ROLES: &'static [StartRole] = &[|_| role::<Planted>(run)];

    fn predict(_: &At<Planted>, _: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        None
    }
}

fn run(point: &At<Planted>, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let parts = PARTS + planted_percent().map_err(Failure::error)?;
    match point.of {
        Of::Core => meter.repeatable("cost", |n| {
            let mut value = black_box(1_u64);
            for _ in 0..n * parts * 8 {
                value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
            black_box(value);
        }),
        Of::Kernel => meter.repeatable("cost", |n| syscalls::getppid(n * parts)),
        Of::Memory => {
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
    let value = std::env::var("COSTOF_PLANTED_PERCENT").unwrap_or_default();
    let percent = value.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| {
        format!("COSTOF_PLANTED_PERCENT is `{value}`, where it must be a number from 0 to 100")
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

//! Benchmarks of your own functions, for `cargo bench`, which know when something else used the core.
//!
//! On shared machines a function takes a third longer while a neighbour uses the other half of its core. Averages over
//! minutes, wider thresholds and reruns hide that; this crate sees it. Each benchmark runs in fresh processes of your program;
//! each batch of calls is timed with a reading of the core's gauge before and after it, and batches that had the core to
//! themselves make the number. Batches of n and of 2n calls take turns, which shows when the compiler removed the work. Two
//! builds can take turns, launch by launch, on the same CPU.
//!
//! # A template
//!
//! In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! costof-harness = "0.2"
//!
//! [[bench]]
//! name = "template"
//! harness = false
//! ```
//!
//! In `benches/template.rs`:
//!
//! ```
#![doc = include_str!("../benches/template.rs")]
//! ```
//!
//! Then:
//!
//! ```text
//! cargo bench                        # each benchmark, and what changed since the last run
//! cargo bench -- sort                # those whose names contain `sort`
//! cargo bench -- --budget 1s         # faster
//! cargo bench -- --save main         # keeps the result; --baseline main compares with it
//! cargo bench -- --against OLD       # takes turns with another build of this program
//! cargo bench -- --against OLD --threshold 2%  # a check: exit code 1 if one is more than 2 % slower, 3 if undecided
//! cargo test --benches               # calls each function once
//! ```
//!
//! # What is printed
//!
//! ```text
//! sort/1000  8.53 µs (8.52–8.55 µs)  B  117 Melements/s  +0.3 % (-0.4 to +1.0)
//! ```
//!
//! The median cost of a call over all launches and its 95 % interval; how far it can be trusted (A: nothing was recorded that
//! could have changed it; D: what was recorded may decide it); a rate, if the group has a [`Throughput`]; and the change
//! since the last run with its 95 % interval, at equal clocks where core cycles are known. What is doubtful follows, with what to do about it. At the end stands what
//! changed if all benchmarks are considered together: of twenty runs in which nothing changed, one raises a false alarm.
//!
//! # Two builds
//!
//! Two runs at different times differ by what the machine did then. Builds that take turns meet the same conditions:
//!
//! ```text
//! cargo bench --no-run                             # prints the path of the program
//! cp target/release/deps/template-0123456789abcdef old
//! # … change the code …
//! cargo bench -- --against $PWD/old
//! ```
//!
//! # From criterion
//!
//! | criterion | here |
//! |---|---|
//! | `use criterion::{Criterion, …}` | `use costof_harness::{Costof as Criterion, …}` |
//! | `criterion_group!(benches, a, b); criterion_main!(benches);` | `costof_harness::main!(a, b);` |
//! | `bench_function`, `bench_with_input`, `benchmark_group`, `throughput`, `finish` | the same |
//! | `BenchmarkId`, `Throughput`, `BatchSize`, `black_box` | the same |
//! | `iter`, `iter_batched`, `iter_batched_ref`, `iter_with_large_drop` | the same |
//! | `sample_size`, `measurement_time`, `warm_up_time` | none: `--budget` |
//! | `--save-baseline NAME`, `--baseline NAME` | `--save NAME`, `--baseline NAME` |
//!
//! # Where code runs
//!
//! The functions given to [`main!`] run in every process: once to list the benchmarks, and once in each worker, which measures
//! one. So they must add the same benchmarks each time. What one benchmark alone needs belongs into its own closure, which
//! runs only in its workers. A benchmark that panics loses its launch, and no other one its number.
//!
//! # Files
//!
//! Each run is a run file of costof in cargo's target folder, `target/costof/PROFILE/PACKAGE-BENCH/`; the last 20 are kept. Every command of
//! `costof` reads them: `costof show`, `compare`, `report`, `history`.
//!
//! # Stability
//!
//! This crate follows semantic versioning: what is public here changes only with a new major version (before 1.0, a new minor
//! one). The other crates of costof on which it depends do not promise that. It works on Linux, on x86-64 and aarch64.

mod bencher;
mod benches;
mod controller;
mod options;
mod program;
mod record;
mod text;
mod worker;

pub use bencher::{BatchSize, Bencher};
pub use benches::{BenchmarkId, Costof, Group, Throughput};
pub use program::run;
pub use std::hint::black_box;

/// A function that adds benchmarks.
pub type Register = for<'a, 'b> fn(&'a mut Costof<'b>);

/// All that a program of benchmarks needs: `use costof_harness::prelude::*;`.
pub mod prelude {
    pub use crate::{BatchSize, Bencher, BenchmarkId, Costof, Throughput, black_box};
}

/// Makes the program of benchmarks: its `main` function, from functions that add them.
///
/// ```
/// use costof_harness::prelude::*;
///
/// fn benchmarks(c: &mut Costof) {
///     c.bench_function("parse", |b| b.iter(|| black_box("1234").parse::<u64>()));
/// }
///
/// costof_harness::main!(benchmarks);
/// ```
#[macro_export]
macro_rules! main {
    ($($function:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            const FUNCTIONS: &[$crate::Register] = &[$($function),+];
            $crate::run(concat!(env!("CARGO_PKG_NAME"), "-", env!("CARGO_CRATE_NAME")), FUNCTIONS)
        }
    };
}

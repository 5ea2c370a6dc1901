use rust_contest::{Calls, FUNCTIONS};
use tango_bench::{IntoBenchmarks, benchmark_fn, tango_benchmarks};

fn benchmarks() -> impl IntoBenchmarks {
    FUNCTIONS.map(|(name, steps)| {
        benchmark_fn(name, move |b| {
            let mut calls = Calls::new(steps);
            b.iter(move || calls.call())
        })
    })
}

tango_benchmarks!(benchmarks());

use costof_harness::prelude::*;
use rust_contest::{Calls, FUNCTIONS};

fn benchmarks(c: &mut Costof<'_>) {
    for (name, steps) in FUNCTIONS {
        c.bench_function(name, |b| {
            let mut calls = Calls::new(steps);
            b.iter(|| calls.call());
        });
    }
}

costof_harness::main!(benchmarks);

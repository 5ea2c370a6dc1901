use criterion::{Criterion, criterion_group, criterion_main};
use rust_contest::{Calls, FUNCTIONS};

fn benchmarks(c: &mut Criterion) {
    for (name, steps) in FUNCTIONS {
        c.bench_function(name, |b| {
            let mut calls = Calls::new(steps);
            b.iter(|| calls.call());
        });
    }
}

criterion_group!(all, benchmarks);
criterion_main!(all);

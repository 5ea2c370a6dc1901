//! What can go wrong with a benchmark.

use costof_harness::prelude::*;
use std::thread;

fn troubles(c: &mut Costof<'_>) {
    c.bench_function("fine", |b| b.iter(|| (0..black_box(50_u64)).map(|i| i ^ 3).sum::<u64>()));
    c.bench_function("panics", |b| b.iter(|| -> u64 { panic!("no such file") }));
    c.bench_function("exits", |b| b.iter(|| -> u64 { std::process::exit(3) }));
    c.bench_function("measures nothing", |_| {});
    c.bench_function("measures twice", |b| {
        b.iter(|| 1);
        b.iter(|| 2);
    });
    c.bench_function("prints", |b| b.iter(|| println!("rubbish")));
    c.bench_function("threads", |b| {
        b.iter(|| {
            thread::scope(|scope| {
                scope.spawn(|| (0..black_box(50_000_u64)).fold(0, |sum, i| sum ^ (i * i)));
            });
        });
    });
    // Each call after the first returns at once, so that twice the calls take as long.
    let mut is_done = false;
    c.bench_function("works once", |b| {
        b.iter(|| {
            if !std::mem::replace(&mut is_done, true) {
                black_box((0..black_box(1000_u64)).sum::<u64>());
            }
        });
    });
    if std::env::var_os("TWICE").is_some() {
        c.bench_function("fine", |b| b.iter(|| 1));
    }
}

costof_harness::main!(troubles);

//! cargo bench
use costof_harness::prelude::*;

fn sums(c: &mut Costof<'_>) {
    c.bench_function("sum of a hundred", |b| b.iter(|| (0..black_box(100_u64)).sum::<u64>()));

    let mut group = c.benchmark_group("sort");
    for length in [100, 1000] {
        let numbers: Vec<u32> = (0..length).map(|i| i * 7919 % 1009).collect();
        group.throughput(Throughput::Elements(length.into()));
        group.bench_with_input(BenchmarkId::from_parameter(length), &numbers, |b, numbers| {
            let sort = |mut numbers: Vec<u32>| {
                numbers.sort_unstable();
                numbers
            };
            b.iter_batched(|| numbers.clone(), sort, BatchSize::SmallInput);
        });
    }
}

costof_harness::main!(sums);

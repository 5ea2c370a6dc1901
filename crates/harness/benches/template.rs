//! cargo bench
use costof_harness::prelude::*;

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(17, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(31))
}

fn benchmarks(c: &mut Costof<'_>) {
    c.bench_function("hash", |b| b.iter(|| hash(black_box(b"what does this cost here?"))));

    let mut group = c.benchmark_group("sort");
    for length in [100, 1000] {
        let numbers: Vec<u32> = (0..length).map(|i| i * 7919 % 1009).collect();
        group.throughput(Throughput::Elements(length.into()));
        group.bench_with_input(BenchmarkId::from_parameter(length), &numbers, |b, numbers| {
            b.iter_batched_ref(|| numbers.clone(), |n| n.sort_unstable(), BatchSize::SmallInput);
        });
    }
}

costof_harness::main!(benchmarks);

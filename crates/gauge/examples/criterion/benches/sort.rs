//! taskset -c 0 cargo bench

use criterion::{Criterion, criterion_group};
use criterion_alone::{Stamped, iter_alone, print_stamps};

fn sort(criterion: &mut Criterion<Stamped>) {
    criterion.bench_function("sort", |bencher| {
        iter_alone(bencher, 20, || {
            let mut numbers: [u32; 256] = std::array::from_fn(|i| (i as u32 * 19) % 256);
            numbers.sort_unstable();
            numbers
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Stamped::calibrated());
    targets = sort
}

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    print_stamps();
}

use rust_contest::{Calls, FUNCTIONS};

#[divan::bench(args = [0, 1, 2])]
fn function(bencher: divan::Bencher<'_, '_>, at: usize) {
    let mut calls = Calls::new(FUNCTIONS[at].1);
    bencher.bench_local(|| calls.call());
}

fn main() {
    divan::main();
}

//! Criterion with the gauge of the core: a [`Measurement`] in core cycles that stamps each batch.
//!
//! [`iter_alone`] takes the place of `Bencher::iter`. It splits a sample into batches between two
//! readings, and the sample is what the batches cost during which the core was alone. The gauge
//! decides before the time is looked at. Core cycles do not change when the core's clock does.

use costof_gauge::{Gauge, Reading, State, counter};
use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Bencher, Throughput};
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The lowest floor of a third of a second: a neighbour is rarely there all the time.
static GAUGE: LazyLock<Gauge> = LazyLock::new(|| {
    let gauges = (0..80).filter_map(|_| Gauge::calibrate());
    gauges
        .min_by(|a, b| a.floor().total_cmp(&b.floor()))
        .expect("readings of this core agree on a floor")
});
/// Batches while the core was alone, shared, mixed; and samples without any batch alone.
static STAMPS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
const NEVER_ALONE: usize = 3;
/// A sample is prolonged to so many batches until one is alone.
const MAX_BATCHES: usize = 2_000;

/// What a batch cost, in core cycles, and whether the core was alone.
fn batch(work: impl FnOnce()) -> (f64, State) {
    let started = Stamped(()).start();
    work();
    stamped(started)
}

fn stamped((before, start): (Reading, u64)) -> (f64, State) {
    let ticks = counter::end() - start;
    let after = GAUGE.read_with_clock();
    let state = GAUGE.state(before.cycles_per_addition, after.cycles_per_addition);
    STAMPS[state as usize].fetch_add(1, Relaxed);
    let ticks_per_cycle = (before.ticks_per_cycle + after.ticks_per_cycle) / 2.0;
    (ticks as f64 / ticks_per_cycle, state)
}

/// As `bencher.iter(routine)`: a sample is the median of batches of so many calls during which the
/// core was alone, since a batch may be preempted. A batch should take 10 to 200 microseconds. A
/// sample without such a batch is made of all, and counted.
pub fn iter_alone<T>(
    bencher: &mut Bencher<'_, Stamped>,
    calls: u64,
    mut routine: impl FnMut() -> T,
) {
    let calls = calls.max(1);
    bencher.iter_custom(|iterations| {
        let (mut alone, mut all) = (Vec::new(), Vec::new());
        let mut left = iterations;
        while left > 0 || (alone.is_empty() && all.len() < MAX_BATCHES) {
            let n = calls.min(if left > 0 { left } else { iterations });
            left = left.saturating_sub(n);
            let (cycles, state) = batch(|| (0..n).for_each(|_| drop(black_box(routine()))));
            all.push(cycles / n as f64);
            if state == State::Alone {
                alone.push(cycles / n as f64);
            }
        }
        if alone.is_empty() {
            STAMPS[NEVER_ALONE].fetch_add(1, Relaxed);
            alone = all;
        }
        alone.sort_unstable_by(f64::total_cmp);
        alone[alone.len() / 2] * iterations as f64
    });
}

/// Prints what the stamps were.
pub fn print_stamps() {
    let [alone, shared, mixed, never] = STAMPS.each_ref().map(|stamp| stamp.load(Relaxed));
    println!(
        "batches: {alone} alone, {shared} shared, {mixed} mixed; samples never alone: {never}"
    );
}

/// Core cycles. `Bencher::iter` makes one batch of a whole sample, whose stamp is mixed where a
/// neighbour came or went meanwhile: use [`iter_alone`].
pub struct Stamped(());

impl Stamped {
    /// Calibrates the gauge, so that no sample has to.
    pub fn calibrated() -> Stamped {
        LazyLock::force(&GAUGE);
        Stamped(())
    }
}

impl Measurement for Stamped {
    type Intermediate = (Reading, u64);
    type Value = f64;

    fn start(&self) -> (Reading, u64) {
        let before = GAUGE.read_with_clock();
        (before, counter::start())
    }

    fn end(&self, started: (Reading, u64)) -> f64 {
        stamped(started).0
    }

    fn add(&self, left: &f64, right: &f64) -> f64 {
        left + right
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, cycles: &f64) -> f64 {
        *cycles
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Cycles
    }
}

struct Cycles;

impl ValueFormatter for Cycles {
    fn scale_values(&self, _: f64, _: &mut [f64]) -> &'static str {
        "cycles"
    }

    fn scale_throughputs(&self, _: f64, each: &Throughput, values: &mut [f64]) -> &'static str {
        let (n, unit) = match each {
            Throughput::Elements(n) => (*n, "elements/cycle"),
            Throughput::Bytes(n) | Throughput::BytesDecimal(n) => (*n, "bytes/cycle"),
            _ => (1, "/cycle"),
        };
        values.iter_mut().for_each(|cycles| *cycles = n as f64 / *cycles);
        unit
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "cycles"
    }
}

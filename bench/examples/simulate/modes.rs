//! How many modes are found where there are one, two and three.

use costof_stats::{launch_modes, modes};
use fastrand::Rng;

use crate::machine::BATCHES;
use crate::{SEED, lognormal, normal, print_head};

/// Draws value `i` of `n`, in µs or so.
type Draw = fn(&mut Rng, usize, usize) -> f64;
type Distributions = &'static [(&'static str, Draw)];
type IsCounted = fn(usize) -> bool;

const ONE_MODE: [(&str, Draw); 13] = [
    ("normal, 5 %", |random, _, _| 20.0 + normal(random)),
    ("uniform", |random, _, _| 10.0 + random.f64()),
    ("lognormal, sigma 0.2", |random, _, _| lognormal(random, 0.2)),
    ("lognormal, sigma 0.5", |random, _, _| lognormal(random, 0.5)),
    ("exponential", |random, _, _| 1.0 - (1.0 - random.f64()).ln()),
    ("Pareto, exponent 1.5", |random, _, _| (1.0 - random.f64()).powf(-1.0 / 1.5)),
    ("Pareto, exponent 1", |random, _, _| (1.0 - random.f64()).recip()),
    ("normal, 20 ticks wide", |random, _, _| (20.0 * (20.0 + normal(random)) / 4.0).round()),
    ("normal, 4 ticks wide", |random, _, _| (100.0 + normal(random)).round()),
    ("lognormal 0.5 by ticks of 10 %", |random, _, _| (10.0 * lognormal(random, 0.5)).round()),
    ("lognormal 0.3 in 41.67 ns ticks cut to ns", |random, _, _| {
        ((4.0 * lognormal(random, 0.3)).round() * 41.67).floor()
    }),
    ("1 %, drifting by 3.5 %", |random, i, n| {
        lognormal(random, 0.01) * (1.0 + 0.035 * i as f64 / n as f64)
    }),
    ("normal 2 %, 4 % of values 1 to 10 × slower", |random, _, _| {
        let slow = if random.f64() < 0.04 { 9.0 * random.f64() } else { 0.0 };
        1.0 + slow + 0.02 * normal(random)
    }),
];

fn rtt(random: &mut Rng, slow: f64) -> f64 {
    if random.f64() < slow { 55.0 + 8.0 * random.f64() } else { 13.0 + 3.0 * random.f64() }
}

fn skewed_rtt(random: &mut Rng, slow: f64) -> f64 {
    let mode = if random.f64() < slow { 58.0 } else { 14.0 };
    let late = if random.f64() < 0.01 { 200.0 * random.f64() } else { 0.0 };
    mode * lognormal(random, 0.06) + late
}

const TWO_MODES: [(&str, Draw); 10] = [
    ("13-16 and 55-63 µs, exactly 20 / 80 %", |random, i, _| rtt(random, f64::from(i % 5 > 0))),
    ("exactly 80 / 20 %", |random, i, _| rtt(random, f64::from(i % 5 == 0))),
    ("13-16 and 55-63 µs, at random 20 / 80 %", |random, _, _| rtt(random, 0.8)),
    ("at random 50 / 50 %", |random, _, _| rtt(random, 0.5)),
    ("at random 80 / 20 %", |random, _, _| rtt(random, 0.2)),
    ("at random 90 / 10 %", |random, _, _| rtt(random, 0.1)),
    ("14 and 58 µs, skewed, 1 % late, 50 / 50 %", |random, _, _| skewed_rtt(random, 0.5)),
    ("14 and 58 µs, skewed, 1 % late, 80 / 20 %", |random, _, _| skewed_rtt(random, 0.2)),
    ("normal, 7 standard deviations apart, 50 / 50 %", |random, _, _| {
        f64::from(random.u8(0..2)) * 7.0 + 30.0 + normal(random)
    }),
    ("4 standard deviations apart: not told apart", |random, _, _| {
        f64::from(random.u8(0..2)) * 4.0 + 30.0 + normal(random)
    }),
];

const THREE_MODES: [(&str, Draw); 2] = [
    ("5, 15 and 60 µs, each ± 5 %", |random, i, _| {
        [5.0, 15.0, 60.0][i % 3] * lognormal(random, 0.05)
    }),
    ("normal, at 20, 30 and 40", |random, i, _| [20.0, 30.0, 40.0][i % 3] + normal(random)),
];

/// What is asked, of which distributions, and which number of modes is counted.
const MODE_QUESTIONS: [(&str, Distributions, IsCounted); 3] = [
    ("One mode: samples called two or three, %", &ONE_MODE, |found| found > 1),
    ("Two modes: samples called two, %", &TWO_MODES, |found| found == 2),
    ("Three modes: samples called three, %", &THREE_MODES, |found| found == 3),
];

const SIZES: [usize; 6] = [12, 30, 60, 100, 1000, 10_000];

pub(crate) fn print_modes() {
    let sizes: Vec<String> = SIZES.iter().map(usize::to_string).collect();
    for (title, cases, wanted) in MODE_QUESTIONS {
        println!("### {title}\n");
        println!("| distribution, n = | {} |", sizes.join(" | "));
        println!("|---|{}", "---|".repeat(SIZES.len()));
        for (name, draw) in cases {
            let share = |size| 100.0 * share_of_samples(*draw, size, wanted);
            let shares = SIZES.map(|size| format!("{:.1}", share(size)));
            println!("| {name} | {} |", shares.join(" | "));
        }
        println!();
    }
}

fn share_of_samples(draw: Draw, size: usize, wanted: IsCounted) -> f64 {
    let mut random = Rng::with_seed(SEED);
    let samples = (400_000 / size).clamp(60, 5000);
    let found = (0..samples).filter(|_| {
        let values: Vec<f64> = (0..size).map(|i| draw(&mut random, i, size)).collect();
        wanted(modes(&values).len())
    });
    found.count() as f64 / samples as f64
}

pub(crate) fn print_launch_modes() {
    print_head(
        "Launches that differ: called two or three modes, %",
        "20 batches a launch. In brackets: had the launches been pooled without regard to which value came from which.",
        &["launches differ by, batches by", "3", "6", "9", "15"],
    );
    for (between, within) in
        [(0.02, 0.001), (0.05, 0.001), (0.05, 0.005), (0.05, 0.02), (0.1, 0.005)]
    {
        print!("| {} %, {} % |", 100.0 * between, 100.0 * within);
        for count in [3, 6, 9, 15] {
            let (told, pooled) = launch_mode_alarms(count, between, within);
            print!(" {told:.1} ({pooled:.1}) |");
        }
        println!();
    }
    println!();
}

/// Percent of samples with several modes, as [`launch_modes`] and as [`modes`] tell them.
fn launch_mode_alarms(count: usize, between: f64, within: f64) -> (f64, f64) {
    const SAMPLES: usize = 1000;
    let mut random = Rng::with_seed(SEED);
    let (mut told, mut pooled) = (0, 0);
    for _ in 0..SAMPLES {
        let launches: Vec<Vec<f64>> = (0..count)
            .map(|_| {
                let median = lognormal(&mut random, between);
                (0..BATCHES).map(|_| median * lognormal(&mut random, within)).collect()
            })
            .collect();
        told += usize::from(launch_modes(&launches).len() > 1);
        pooled += usize::from(modes(&launches.concat()).len() > 1);
    }
    let percent = |count: usize| 100.0 * count as f64 / SAMPLES as f64;
    (percent(told), percent(pooled))
}

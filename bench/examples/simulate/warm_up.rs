//! How long warm-ups last, and what they leave.

use costof_stats::drift::{MAX_WARM_UP_BATCHES, has_settled};
use costof_stats::{median, quantile};
use fastrand::Rng;

use crate::{SEED, lognormal, print_head};

pub(crate) fn print_warm_up() {
    print_head(
        "Warm-up: batches until it is called settled, and what is left of it then",
        "",
        &["batch costs", "median batches", "95 % under", "mean bias left, % of the cost"],
    );
    let cases: [(&str, f64, f64, f64); 6] = [
        ("steady, 0.3 % scatter", 0.0, 1.0, 0.003),
        ("steady, 5 % scatter", 0.0, 1.0, 0.05),
        ("first batch twice as slow", 1.0, 0.3, 0.01),
        ("20 % slower, falling over 5 batches, 0.3 % scatter", 0.2, 5.0, 0.003),
        ("20 % slower, falling over 5 batches, 2 % scatter", 0.2, 5.0, 0.02),
        ("50 % slower, falling over 15 batches, 2 % scatter", 0.5, 15.0, 0.02),
    ];
    for (name, excess, over, scatter) in cases {
        let mut random = Rng::with_seed(SEED);
        let settled: Vec<f64> =
            (0..2000).map(|_| batches_until_settled(&mut random, excess, over, scatter)).collect();
        let left: Vec<f64> =
            settled.iter().map(|batches| 100.0 * excess * (-batches / over).exp()).collect();
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} |",
            median(&settled).unwrap_or(f64::NAN),
            quantile(&settled, 0.95).unwrap_or(f64::NAN),
            left.iter().sum::<f64>() / left.len() as f64
        );
    }
}

fn batches_until_settled(random: &mut Rng, excess: f64, over: f64, scatter: f64) -> f64 {
    let mut costs = Vec::new();
    while !has_settled(&costs) && costs.len() < MAX_WARM_UP_BATCHES {
        let warm_up = excess * (-(costs.len() as f64) / over).exp();
        costs.push((1.0 + warm_up) * lognormal(random, scatter));
    }
    costs.len() as f64
}

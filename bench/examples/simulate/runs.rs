//! What whole runs cost, and cover.

use costof_measure::schedule::{LAUNCH_COUNTS, Precision};
use costof_stats::{median, median_interval, quantile};
use fastrand::Rng;

use crate::machine::{
    Launches, Run, all_blocks, drift, headline_blocks, measure, run, twice_as_long,
};
use crate::{SEED, print_head};

pub(crate) fn print_run_times() {
    print_head(
        "Seconds per run",
        "",
        &[
            "run",
            "blocks, points",
            "launches asked",
            "median s",
            "95 % of runs under s",
            "longest",
            "launches: blocks that got so many, mean",
        ],
    );
    let cases = [
        ("`--quick`", headline_blocks(), Precision::Quick),
        ("`costof run`", headline_blocks(), Precision::Default),
        (
            "`costof run`, where launches take twice as long",
            twice_as_long(headline_blocks()),
            Precision::Default,
        ),
        ("`--full`, headline points", headline_blocks(), Precision::Full),
        ("`--full`, everything local", all_blocks(), Precision::Full),
    ];
    for (name, blocks, precision) in cases {
        let runs: Vec<Run> = (0..1000).map(|seed| run(seed, &blocks, precision)).collect();
        let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        let points: usize = blocks.iter().map(|block| block.rows.len()).sum();
        println!(
            "| {name} | {}, {points} | {} | {:.1} | {:.1} | {:.1} | {} |",
            blocks.len(),
            precision.launches(),
            quantile(&seconds, 0.5).unwrap_or(f64::NAN),
            quantile(&seconds, 0.95).unwrap_or(f64::NAN),
            quantile(&seconds, 1.0).unwrap_or(f64::NAN),
            counts_of(&runs)
        );
    }
    println!();
}

const WHOLE_RUNS: u64 = 1000;

pub(crate) fn print_whole_runs() {
    print_head(
        "Whole runs of forty rows, with the launches that the scheduler gave",
        "",
        &[
            "precision",
            "rows whose interval holds the true median",
            "median width, %",
            "rows narrower than 5 %",
        ],
    );
    let blocks = headline_blocks();
    let rows = blocks.iter().flat_map(|block| &block.rows);
    let truths: Vec<f64> = rows.map(|row| row.cost_ns * row.launches.true_median()).collect();
    for (name, precision) in PRECISIONS {
        let mut random = Rng::with_seed(SEED);
        let (mut covered, mut widths) = (0, Vec::new());
        for seed in 0..WHOLE_RUNS {
            let run = run(seed, &blocks, precision);
            let clock = drift(run.seconds / 2.0);
            let measured = measure(&mut random, &blocks, &run);
            for (launches, truth) in measured.iter().zip(&truths) {
                let Some(interval) = median_interval(launches) else {
                    continue;
                };
                covered += u32::from(interval.contains(truth * clock));
                widths.push(100.0 * interval.width() / truth);
            }
        }
        let narrow = widths.iter().filter(|&&width| width < 5.0).count();
        println!(
            "| {name} | {:.1} of 40 ({:.1} %) | {:.1} | {:.1} |",
            f64::from(covered) / WHOLE_RUNS as f64,
            100.0 * f64::from(covered) / widths.len() as f64,
            median(&widths).unwrap_or(f64::NAN),
            narrow as f64 / WHOLE_RUNS as f64
        );
    }
    println!();
}

const PRECISIONS: [(&str, Precision); 3] =
    [("quick", Precision::Quick), ("default", Precision::Default), ("full", Precision::Full)];

/// "9: 14.8, …": how many blocks got how many launches, mean over runs.
fn counts_of(runs: &[Run]) -> String {
    let parts = LAUNCH_COUNTS.iter().rev().filter_map(|&count| {
        let blocks = runs.iter().flat_map(|run| &run.counts);
        let with = blocks.filter(|&&of_block| of_block == count).count();
        (with * 20 >= runs.len())
            .then(|| format!("{count}: {:.1}", with as f64 / runs.len() as f64))
    });
    parts.collect::<Vec<_>>().join(", ")
}

const EXPERIMENTS: usize = 4000;

pub(crate) fn print_coverage() {
    println!("### Coverage of the 95 % interval, and its median width\n");
    println!(
        "Share of {EXPERIMENTS} experiments whose interval holds the true median of the launch distribution; in brackets the interval's median width in % of it. 20 batches a launch with skew and disturbances.\n"
    );
    let counts: Vec<String> = LAUNCH_COUNTS.iter().map(u32::to_string).collect();
    println!("| launches differ by | {} |", counts.join(" | "));
    println!("|---|{}", "---|".repeat(counts.len()));
    let kinds = [
        ("0.5 %", Launches::alike(0.005)),
        ("1 %", Launches::alike(0.01)),
        ("2 %", Launches::alike(0.02)),
        ("5 %", Launches::alike(0.05)),
        ("3 %, 20 % of launches 4 × slower", Launches::some_slow(0.2)),
        ("3 %, 40 % of launches 4 × slower", Launches::some_slow(0.4)),
        ("3 %, 25 % of batches 4 × slower", Launches::with_slow_batches(0.25)),
        ("3 %, 40 % of batches 4 × slower", Launches::with_slow_batches(0.4)),
    ];
    for (name, launches) in kinds {
        let truth = launches.true_median();
        print_coverage_row(name, truth, |random, _| launches.launch_median(random));
    }
    let launches = Launches::alike(0.005);
    let (run_s, middle) = (840.0, launches.true_median() * drift(420.0));
    print_coverage_row("0.5 %, and 2 % of drift over the run", middle, |random, part| {
        launches.launch_median(random) * drift(run_s * part)
    });
    println!();
}

/// `draw` makes a launch median at a part (0 to 1) of the run.
fn print_coverage_row(name: &str, truth: f64, draw: impl Fn(&mut Rng, f64) -> f64) {
    let mut random = Rng::with_seed(SEED);
    print!("| {name} |");
    for count in LAUNCH_COUNTS {
        let intervals: Vec<_> = (0..EXPERIMENTS)
            .filter_map(|_| {
                let launches: Vec<f64> = (0..count)
                    .map(|launch| {
                        let part = (f64::from(launch) + random.f64()) / f64::from(count);
                        draw(&mut random, part)
                    })
                    .collect();
                median_interval(&launches)
            })
            .collect();
        let covered = intervals.iter().filter(|interval| interval.contains(truth)).count();
        let widths: Vec<f64> =
            intervals.iter().map(|interval| 100.0 * interval.width() / truth).collect();
        print!(
            " {:.1} ({:.1}) |",
            100.0 * covered as f64 / EXPERIMENTS as f64,
            median(&widths).unwrap_or(f64::NAN)
        );
    }
    println!();
}

//! The scheduler and the statistics of costof, tried on a made-up machine under a made-up clock.
//!
//! Forty rows in fifteen blocks with the costs of a small virtual machine, launches that differ, two
//! modes and a drifting core clock; the code that decides and estimates is the real one. Prints a
//! Markdown section for docs/METHOD.md. Run: `cargo run --release -p costof-measure --example simulate`.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::time::Duration;

use costof_measure::schedule::{
    Counted, LAUNCH_COUNTS, LEAST_LAUNCHES, Precision, launch_counts, order, round_order,
};
use costof_stats::drift::{MOST_WARM_UP_BATCHES, has_settled};
use costof_stats::{launch_modes, median, median_interval, modes, quantile, ratio_interval};
use fastrand::Rng;

const SEED: u64 = 20_261_121;

fn main() {
    println!("Simulated with seed {SEED} by `crates/measure/examples/simulate.rs`.\n");
    print_run_times();
    print_whole_runs();
    print_coverage();
    print_comparisons();
    print_modes();
    print_launch_modes();
    print_warm_up();
}

// The machine.

/// A standard normal value (Box and Muller, 1958).
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn lognormal(random: &mut Rng, sigma: f64) -> f64 {
    (sigma * normal(random)).exp()
}

/// How a row's launches differ, as factors on its cost.
#[derive(Clone, Copy, PartialEq)]
enum Launches {
    /// Lognormal with this standard deviation.
    Alike { sigma: f64 },
    /// So, and this share of launches four times as slow (the other core had to be woken).
    TwoModes { sigma: f64, slow: f64 },
    /// Each batch on its own in the slow mode, with a share around this that differs by launch.
    TwoModesInside { sigma: f64, slow: f64 },
}

const SLOW: f64 = 4.0;
const BATCHES: usize = 20;

impl Launches {
    /// The median of one launch's batches, relative to the row's cost.
    fn launch_median(self, random: &mut Rng) -> f64 {
        let (sigma, slow_launch, slow_batches) = match self {
            Self::Alike { sigma } => (sigma, 0.0, 0.0),
            Self::TwoModes { sigma, slow } => (sigma, slow, 0.0),
            Self::TwoModesInside { sigma, slow } => (sigma, 0.0, slow + 0.08 * normal(random)),
        };
        let mode = if random.f64() < slow_launch {
            SLOW
        } else {
            1.0
        };
        let launch = mode * lognormal(random, sigma);
        let batches: Vec<f64> = (0..BATCHES)
            .map(|_| launch * batch_factor(random, slow_batches))
            .collect();
        median(&batches).unwrap_or(f64::NAN)
    }

    /// The true median of the launch distribution, from many launches.
    fn true_median(self) -> f64 {
        let mut random = Rng::with_seed(SEED);
        let launches: Vec<f64> = (0..100_000)
            .map(|_| self.launch_median(&mut random))
            .collect();
        median(&launches).unwrap_or(f64::NAN)
    }
}

/// Skew within a launch: a lognormal body, and one batch in twenty disturbed.
fn batch_factor(random: &mut Rng, slow: f64) -> f64 {
    let mode = if random.f64() < slow { SLOW } else { 1.0 };
    let disturbance = if random.f64() < 0.05 {
        2.0 * random.f64()
    } else {
        0.0
    };
    mode * (lognormal(random, 0.03) + disturbance)
}

/// The core clock's factor on every cost, `seconds` after the start: 3.5 % in 25 minutes.
fn drift(seconds: f64) -> f64 {
    1.0 + 0.035 * seconds / 1500.0
}

#[derive(Clone, Copy)]
struct Row {
    cost_ns: f64,
    launches: Launches,
    /// Time that belongs to measuring but is not measured (preparing what is used up) ÷ time measured.
    untimed: f64,
}

#[derive(Clone)]
struct Block {
    /// Median time to set it up, and its lognormal spread.
    set_up_s: f64,
    set_up_sigma: f64,
    rows: Vec<Row>,
}

fn block(
    set_up_s: f64,
    set_up_sigma: f64,
    untimed: f64,
    launches: Launches,
    costs: &[f64],
) -> Block {
    let rows = costs.iter().map(|&cost_ns| Row {
        cost_ns,
        launches,
        untimed,
    });
    Block {
        set_up_s,
        set_up_sigma,
        rows: rows.collect(),
    }
}

/// What `costof run` measures alone: forty rows in fifteen blocks.
fn headline_blocks() -> Vec<Block> {
    let alike = |sigma| Launches::Alike { sigma };
    let woken = |slow| Launches::TwoModes { sigma: 0.03, slow };
    let mixed = Launches::TwoModesInside {
        sigma: 0.03,
        slow: 0.25,
    };
    vec![
        block(0.002, 0.1, 0.0, alike(0.005), &[1.0, 1.5, 4.0, 8.0, 20.0]), // loops, calls, clocks
        block(0.002, 0.1, 0.0, alike(0.01), &[5.0, 12.0]),                 // atomics, mutex
        block(0.005, 0.1, 0.0, alike(0.01), &[100.0, 180.0, 900.0]),       // system calls
        block(0.9, 0.5, 0.0, alike(0.02), &[1.2, 3.5, 15.0, 140.0]), // memory latency, one arena
        block(0.3, 0.3, 0.0, alike(0.02), &[4e4, 8e4, 1e5]),         // memory bandwidth, 1 MB
        block(0.05, 0.3, 2.0, alike(0.03), &[250.0, 600.0, 1e5]),    // page faults
        block(0.01, 0.2, 0.3, alike(0.05), &[17e3, 24e3, 122e3, 526e3]), // threads, processes
        block(0.01, 0.2, 0.0, alike(0.03), &[1200.0, 2400.0]),       // context switches
        block(0.02, 0.2, 0.0, woken(0.2), &[15e3, 15e3, 15e3]),      // pipe, unix, futex
        block(0.03, 0.2, 0.0, mixed, &[15e3, 16e3]),                 // round trips
        block(0.03, 0.2, 0.5, alike(0.05), &[30e3, 8e3]),            // connect, close
        block(0.10, 0.2, 0.0, alike(0.05), &[2e4]),                  // TCP throughput
        block(0.25, 0.2, 0.0, alike(0.03), &[10e3, 10e3, 6.6e3]),    // two, one, no copy
        block(0.30, 0.4, 0.2, alike(0.05), &[500.0, 8e4]),           // file reads, cached, direct
        block(0.02, 0.2, 0.0, alike(0.01), &[3e3]),                  // compression
    ]
}

/// A stand-in for everything local: sixty blocks with 400 points, where each headline block comes
/// four times with two and a half times the points.
fn all_blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for copy in 0..4 {
        for block in headline_blocks() {
            let points = block.rows.len() * 5 / 2 + (block.rows.len() % 2) * (copy % 2);
            let rows = block.rows.iter().copied().cycle().take(points).collect();
            blocks.push(Block { rows, ..block });
        }
    }
    blocks
}

/// The same on a slow or busy machine: every set-up and all that is not measured takes twice as long,
/// and finding a batch size as long as measuring.
fn twice_as_long(mut blocks: Vec<Block>) -> Vec<Block> {
    for block in &mut blocks {
        block.set_up_s = 2.0 * block.set_up_s + LAUNCH_S;
        for row in &mut block.rows {
            row.untimed = 1.0 + WARM_UP + 2.0 * row.untimed;
        }
    }
    blocks
}

/// Starting the workers, verifying the clock, reading facts and the noise ledger.
const LAUNCH_S: f64 = 0.025;
/// Once a run: facts, clock calibration, the first description of the worker.
const RUN_S: f64 = 0.6;
/// Warm-up and finding the batch size, ÷ time measured.
const WARM_UP: f64 = 0.35;

impl Block {
    fn launch_s(&self, random: &mut Rng, precision: Precision) -> f64 {
        let measured_s = precision.batch_time_per_point().as_secs_f64();
        let rows_s: f64 = (self.rows.iter())
            .map(|row| {
                let least_s = 30.0 * row.cost_ns * 1e-9;
                (1.0 + WARM_UP + row.untimed) * measured_s.max(least_s)
            })
            .sum();
        LAUNCH_S + self.set_up_s * lognormal(random, self.set_up_sigma) + rows_s
    }
}

/// One run: when each launch of each block happened, and how long it all took.
struct Run {
    seconds: f64,
    counts: Vec<u32>,
    launch_times: Vec<Vec<f64>>,
}

fn run(seed: u64, blocks: &[Block], precision: Precision) -> Run {
    let mut random = Rng::with_seed(seed);
    let mut now = RUN_S;
    let mut spent = vec![0.0; blocks.len()];
    let mut launch_times = vec![Vec::new(); blocks.len()];
    for launch in 0..LEAST_LAUNCHES {
        for block in round_order(seed, launch, blocks.len()) {
            let seconds = blocks[block].launch_s(&mut random, precision);
            spent[block] += seconds;
            launch_times[block].push(now);
            now += seconds;
        }
    }
    let left = precision
        .budget()
        .saturating_sub(Duration::from_secs_f64(now));
    let counted = spent.into_iter().map(|seconds| Counted {
        launch: Duration::from_secs_f64(seconds / f64::from(LEAST_LAUNCHES)),
        points: 1,
        done: LEAST_LAUNCHES,
    });
    let counts = launch_counts(&counted.collect::<Vec<_>>(), left, precision);
    for (block, launch) in order(seed, &counts, LEAST_LAUNCHES) {
        if launch >= LEAST_LAUNCHES {
            launch_times[block].push(now);
            now += blocks[block].launch_s(&mut random, precision);
        }
    }
    Run {
        seconds: now,
        counts,
        launch_times,
    }
}

/// Each row's launch medians in a run that starts `start` seconds into the drift, in ns.
fn measure(random: &mut Rng, blocks: &[Block], run: &Run, start: f64) -> Vec<Vec<f64>> {
    let rows = blocks.iter().zip(&run.launch_times);
    rows.flat_map(|(block, times)| block.rows.iter().map(move |row| (row, times)))
        .map(|(row, times)| {
            let launches = times.iter();
            launches
                .map(|time| row.cost_ns * row.launches.launch_median(random) * drift(start + time))
                .collect()
        })
        .collect()
}

// What is asked of it.

fn print_run_times() {
    println!("### Seconds per run\n");
    println!(
        "| run | blocks, points | launches asked | median s | 95 % of runs under s | longest | launches: blocks that got so many, mean |"
    );
    println!("|---|---|---|---|---|---|---|");
    let cases = [
        ("`--quick`", headline_blocks(), Precision::Quick),
        ("`costof run`", headline_blocks(), Precision::Default),
        (
            "`costof run`, where launches take twice as long",
            twice_as_long(headline_blocks()),
            Precision::Default,
        ),
        (
            "`--full`, headline points",
            headline_blocks(),
            Precision::Full,
        ),
        ("`--full`, everything local", all_blocks(), Precision::Full),
    ];
    for (name, blocks, precision) in cases {
        let runs: Vec<Run> = (0..1000)
            .map(|seed| run(seed, &blocks, precision))
            .collect();
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

fn print_whole_runs() {
    println!("### Whole runs of forty rows, with the launches that the scheduler gave\n");
    println!(
        "| precision | rows whose interval holds the true median | median width, % | rows narrower than 5 % |"
    );
    println!("|---|---|---|---|");
    let blocks = headline_blocks();
    let rows = blocks.iter().flat_map(|block| &block.rows);
    let truths: Vec<f64> = rows
        .map(|row| row.cost_ns * row.launches.true_median())
        .collect();
    for (name, precision) in PRECISIONS {
        let mut random = Rng::with_seed(SEED);
        let (mut covered, mut widths) = (0, Vec::new());
        for seed in 0..WHOLE_RUNS {
            let run = run(seed, &blocks, precision);
            let clock = drift(run.seconds / 2.0);
            let measured = measure(&mut random, &blocks, &run, 0.0);
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

const PRECISIONS: [(&str, Precision); 3] = [
    ("quick", Precision::Quick),
    ("default", Precision::Default),
    ("full", Precision::Full),
];

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

fn print_coverage() {
    println!("### Coverage of the 95 % interval, and its median width\n");
    println!(
        "Share of {EXPERIMENTS} experiments whose interval holds the true median of the launch distribution; in brackets the interval's median width in % of it. 20 batches a launch with skew and disturbances.\n"
    );
    let counts: Vec<String> = LAUNCH_COUNTS.iter().map(u32::to_string).collect();
    println!("| launches differ by | {} |", counts.join(" | "));
    println!("|---|{}", "---|".repeat(counts.len()));
    let kinds = [
        ("0.5 %", Launches::Alike { sigma: 0.005 }),
        ("1 %", Launches::Alike { sigma: 0.01 }),
        ("2 %", Launches::Alike { sigma: 0.02 }),
        ("5 %", Launches::Alike { sigma: 0.05 }),
        (
            "3 %, 20 % of launches 4 × slower",
            Launches::TwoModes {
                sigma: 0.03,
                slow: 0.2,
            },
        ),
        (
            "3 %, 40 % of launches 4 × slower",
            Launches::TwoModes {
                sigma: 0.03,
                slow: 0.4,
            },
        ),
        (
            "3 %, 25 % of batches 4 × slower",
            Launches::TwoModesInside {
                sigma: 0.03,
                slow: 0.25,
            },
        ),
        (
            "3 %, 40 % of batches 4 × slower",
            Launches::TwoModesInside {
                sigma: 0.03,
                slow: 0.4,
            },
        ),
    ];
    for (name, launches) in kinds {
        let truth = launches.true_median();
        print_coverage_row(name, truth, |random, _| launches.launch_median(random));
    }
    let launches = Launches::Alike { sigma: 0.005 };
    let (run_s, middle) = (840.0, launches.true_median() * drift(420.0));
    print_coverage_row(
        "0.5 %, and 2 % of drift over the run",
        middle,
        |random, part| launches.launch_median(random) * drift(run_s * part),
    );
    println!();
}

/// `draw` makes a launch median at a part (0 to 1) of the run.
fn print_coverage_row(name: &str, truth: f64, draw: impl Fn(&mut Rng, f64) -> f64) {
    let mut random = Rng::with_seed(SEED);
    print!("| {name} |");
    for count in LAUNCH_COUNTS {
        let intervals = (0..EXPERIMENTS).filter_map(|_| {
            let launches: Vec<f64> = (0..count)
                .map(|launch| {
                    let part = (f64::from(launch) + random.f64()) / f64::from(count);
                    draw(&mut random, part)
                })
                .collect();
            median_interval(&launches)
        });
        let intervals: Vec<_> = intervals.collect();
        let covered = intervals
            .iter()
            .filter(|interval| interval.contains(truth))
            .count();
        let widths: Vec<f64> = intervals
            .iter()
            .map(|interval| 100.0 * interval.width() / truth)
            .collect();
        print!(
            " {:.1} ({:.1}) |",
            100.0 * covered as f64 / EXPERIMENTS as f64,
            median(&widths).unwrap_or(f64::NAN)
        );
    }
    println!();
}

const COMPARISONS: usize = 1000;

fn print_comparisons() {
    println!("### Two runs of one machine: false alarms\n");
    println!(
        "Rows of 40 called different, mean of {COMPARISONS} pairs of runs: the interval of the ratio (launch i over launch i) lies wholly outside 1 ± threshold. In brackets: pairs of runs with any such row. \"Found\": rows found of 40 that are all 10 % slower in the second run.\n"
    );
    println!(
        "| precision | second run | 0 % | 2 % | 5 % | 10 % | found at 0 % | at 2 % | at 5 % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let blocks = headline_blocks();
    for (name, precision) in PRECISIONS {
        for (when, apart_s) in [("at once", 60.0), ("25 minutes later", 1500.0)] {
            print!("| {name} | {when} |");
            let same = compare_runs(&blocks, precision, apart_s, 1.0);
            for threshold in [0.0, 0.02, 0.05, 0.10] {
                let (rows, any) = alarms(&same, threshold);
                print!(" {rows:.2} ({:.0} %) |", 100.0 * any);
            }
            let slower = compare_runs(&blocks, precision, apart_s, 1.1);
            for threshold in [0.0, 0.02, 0.05] {
                print!(" {:.1} |", alarms(&slower, threshold).0);
            }
            println!();
        }
    }
    println!();
}

/// For each pair of runs and each row, how far the ratio's interval stays away from 1.
fn compare_runs(
    blocks: &[Block],
    precision: Precision,
    apart_s: f64,
    slower: f64,
) -> Vec<Vec<f64>> {
    let mut random = Rng::with_seed(SEED);
    (0..COMPARISONS as u64)
        .map(|pair| {
            let base = run(2 * pair, blocks, precision);
            let new = run(2 * pair + 1, blocks, precision);
            let base = measure(&mut random, blocks, &base, 0.0);
            let new = measure(&mut random, blocks, &new, apart_s);
            base.iter()
                .zip(&new)
                .map(|(base, new)| distance_from_one(base, new, slower))
                .collect()
        })
        .collect()
}

fn distance_from_one(base: &[f64], new: &[f64], slower: f64) -> f64 {
    let both = base.len().min(new.len());
    ratio_interval(&new[..both], &base[..both]).map_or(0.0, |ratio| {
        (slower * ratio.low - 1.0)
            .max(1.0 - slower * ratio.high)
            .max(0.0)
    })
}

/// Mean number of rows beyond the threshold, and share of pairs with any.
fn alarms(pairs: &[Vec<f64>], threshold: f64) -> (f64, f64) {
    let beyond = |rows: &Vec<f64>| {
        rows.iter()
            .filter(|&&distance| distance > threshold)
            .count()
    };
    let rows: usize = pairs.iter().map(beyond).sum();
    let any = pairs.iter().filter(|rows| beyond(rows) > 0).count();
    (
        rows as f64 / pairs.len() as f64,
        any as f64 / pairs.len() as f64,
    )
}

/// Draws value `i` of `n`, in µs or so.
type Draw = fn(&mut Rng, usize, usize) -> f64;
type Distributions = &'static [(&'static str, Draw)];
type IsCounted = fn(usize) -> bool;

const ONE_MODE: [(&str, Draw); 13] = [
    ("normal, 5 %", |random, _, _| 20.0 + normal(random)),
    ("uniform", |random, _, _| 10.0 + random.f64()),
    ("lognormal, sigma 0.2", |random, _, _| {
        lognormal(random, 0.2)
    }),
    ("lognormal, sigma 0.5", |random, _, _| {
        lognormal(random, 0.5)
    }),
    ("exponential", |random, _, _| {
        1.0 - (1.0 - random.f64()).ln()
    }),
    ("Pareto, exponent 1.5", |random, _, _| {
        (1.0 - random.f64()).powf(-1.0 / 1.5)
    }),
    ("Pareto, exponent 1", |random, _, _| {
        (1.0 - random.f64()).recip()
    }),
    ("normal, 20 ticks wide", |random, _, _| {
        (20.0 * (20.0 + normal(random)) / 4.0).round()
    }),
    ("normal, 4 ticks wide", |random, _, _| {
        (100.0 + normal(random)).round()
    }),
    ("lognormal 0.5 by ticks of 10 %", |random, _, _| {
        (10.0 * lognormal(random, 0.5)).round()
    }),
    (
        "lognormal 0.3 in 41.67 ns ticks cut to ns",
        |random, _, _| ((4.0 * lognormal(random, 0.3)).round() * 41.67).floor(),
    ),
    ("1 %, drifting by 3.5 %", |random, i, n| {
        lognormal(random, 0.01) * (1.0 + 0.035 * i as f64 / n as f64)
    }),
    (
        "normal 2 %, 4 % of values 1 to 10 × slower",
        |random, _, _| {
            let slow = if random.f64() < 0.04 {
                9.0 * random.f64()
            } else {
                0.0
            };
            1.0 + slow + 0.02 * normal(random)
        },
    ),
];

fn rtt(random: &mut Rng, slow: f64) -> f64 {
    if random.f64() < slow {
        55.0 + 8.0 * random.f64()
    } else {
        13.0 + 3.0 * random.f64()
    }
}

fn skewed_rtt(random: &mut Rng, slow: f64) -> f64 {
    let mode = if random.f64() < slow { 58.0 } else { 14.0 };
    let late = if random.f64() < 0.01 {
        200.0 * random.f64()
    } else {
        0.0
    };
    mode * lognormal(random, 0.06) + late
}

const TWO_MODES: [(&str, Draw); 10] = [
    ("13-16 and 55-63 µs, exactly 20 / 80 %", |random, i, _| {
        rtt(random, f64::from(i % 5 > 0))
    }),
    ("exactly 80 / 20 %", |random, i, _| {
        rtt(random, f64::from(i % 5 == 0))
    }),
    (
        "13-16 and 55-63 µs, at random 20 / 80 %",
        |random, _, _| rtt(random, 0.8),
    ),
    ("at random 50 / 50 %", |random, _, _| rtt(random, 0.5)),
    ("at random 80 / 20 %", |random, _, _| rtt(random, 0.2)),
    ("at random 90 / 10 %", |random, _, _| rtt(random, 0.1)),
    (
        "14 and 58 µs, skewed, 1 % late, 50 / 50 %",
        |random, _, _| skewed_rtt(random, 0.5),
    ),
    (
        "14 and 58 µs, skewed, 1 % late, 80 / 20 %",
        |random, _, _| skewed_rtt(random, 0.2),
    ),
    (
        "normal, 7 standard deviations apart, 50 / 50 %",
        |random, _, _| f64::from(random.u8(0..2)) * 7.0 + 30.0 + normal(random),
    ),
    (
        "4 standard deviations apart: not told apart",
        |random, _, _| f64::from(random.u8(0..2)) * 4.0 + 30.0 + normal(random),
    ),
];

const THREE_MODES: [(&str, Draw); 2] = [
    ("5, 15 and 60 µs, each ± 5 %", |random, i, _| {
        [5.0, 15.0, 60.0][i % 3] * lognormal(random, 0.05)
    }),
    ("normal, at 20, 30 and 40", |random, i, _| {
        [20.0, 30.0, 40.0][i % 3] + normal(random)
    }),
];

/// What is asked, of which distributions, and which number of modes is counted.
const MODE_QUESTIONS: [(&str, Distributions, IsCounted); 3] = [
    (
        "One mode: samples called two or three, %",
        &ONE_MODE,
        |found| found > 1,
    ),
    ("Two modes: samples called two, %", &TWO_MODES, |found| {
        found == 2
    }),
    (
        "Three modes: samples called three, %",
        &THREE_MODES,
        |found| found == 3,
    ),
];

const SIZES: [usize; 6] = [12, 30, 60, 100, 1000, 10_000];

fn print_modes() {
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

fn print_launch_modes() {
    println!("### Launches that differ: called two or three modes, %\n");
    println!(
        "20 batches a launch. In brackets: had the launches been pooled without regard to which value came from which.\n"
    );
    println!("| launches differ by, batches by | 3 | 6 | 9 | 15 |");
    println!("|---|---|---|---|---|");
    for (between, within) in [
        (0.02, 0.001),
        (0.05, 0.001),
        (0.05, 0.005),
        (0.05, 0.02),
        (0.1, 0.005),
    ] {
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
                (0..BATCHES)
                    .map(|_| median * lognormal(&mut random, within))
                    .collect()
            })
            .collect();
        told += usize::from(launch_modes(&launches).len() > 1);
        pooled += usize::from(modes(&launches.concat()).len() > 1);
    }
    let percent = |count: usize| 100.0 * count as f64 / SAMPLES as f64;
    (percent(told), percent(pooled))
}

fn print_warm_up() {
    println!("### Warm-up: batches until it is called settled, and what is left of it then\n");
    println!("| batch costs | median batches | 95 % under | mean bias left, % of the cost |");
    println!("|---|---|---|---|");
    let cases: [(&str, f64, f64, f64); 6] = [
        ("steady, 0.3 % scatter", 0.0, 1.0, 0.003),
        ("steady, 5 % scatter", 0.0, 1.0, 0.05),
        ("first batch twice as slow", 1.0, 0.3, 0.01),
        (
            "20 % slower, falling over 5 batches, 0.3 % scatter",
            0.2,
            5.0,
            0.003,
        ),
        (
            "20 % slower, falling over 5 batches, 2 % scatter",
            0.2,
            5.0,
            0.02,
        ),
        (
            "50 % slower, falling over 15 batches, 2 % scatter",
            0.5,
            15.0,
            0.02,
        ),
    ];
    for (name, excess, over, scatter) in cases {
        let mut random = Rng::with_seed(SEED);
        let settled: Vec<f64> = (0..2000)
            .map(|_| batches_until_settled(&mut random, excess, over, scatter))
            .collect();
        let left: Vec<f64> = settled
            .iter()
            .map(|batches| 100.0 * excess * (-batches / over).exp())
            .collect();
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
    while !has_settled(&costs) && costs.len() < MOST_WARM_UP_BATCHES {
        let warm_up = excess * (-(costs.len() as f64) / over).exp();
        costs.push((1.0 + warm_up) * lognormal(random, scatter));
    }
    costs.len() as f64
}

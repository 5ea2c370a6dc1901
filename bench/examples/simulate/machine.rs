//! The machine: blocks of rows, and runs of them.

use std::time::Duration;

use costof_measure::schedule::{
    Counted, MIN_LAUNCHES, Precision, launch_counts, order, round_order,
};
use costof_stats::median;
use fastrand::Rng;

use crate::{SEED, lognormal, normal};

/// How a row's launches differ, as factors on its cost: lognormal, and some four times as slow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Launches {
    /// The standard deviation.
    sigma: f64,
    /// This share of launches is slow (the other core had to be woken).
    slow_launches: f64,
    /// This share of batches is, each by itself, with a share around it that differs by launch.
    slow_batches: Option<f64>,
}

const SLOW: f64 = 4.0;
pub(crate) const BATCHES: usize = 20;

impl Launches {
    pub(crate) fn alike(sigma: f64) -> Launches {
        Launches { sigma, ..Launches::default() }
    }

    pub(crate) fn some_slow(slow_launches: f64) -> Launches {
        Launches { slow_launches, ..Launches::alike(0.03) }
    }

    pub(crate) fn with_slow_batches(share: f64) -> Launches {
        Launches { slow_batches: Some(share), ..Launches::alike(0.03) }
    }

    /// The median of one launch's batches, relative to the row's cost.
    pub(crate) fn launch_median(self, random: &mut Rng) -> f64 {
        let slow_batches = self.slow_batches.map_or(0.0, |slow| slow + 0.08 * normal(random));
        let mode = if random.f64() < self.slow_launches { SLOW } else { 1.0 };
        let launch = mode * lognormal(random, self.sigma);
        let batches: Vec<f64> =
            (0..BATCHES).map(|_| launch * batch_factor(random, slow_batches)).collect();
        median(&batches).unwrap_or(f64::NAN)
    }

    /// The true median of the launch distribution, from many launches.
    pub(crate) fn true_median(self) -> f64 {
        let mut random = Rng::with_seed(SEED);
        let launches: Vec<f64> = (0..100_000).map(|_| self.launch_median(&mut random)).collect();
        median(&launches).unwrap_or(f64::NAN)
    }
}

/// Skew within a launch: a lognormal body, and one batch in twenty disturbed.
fn batch_factor(random: &mut Rng, slow: f64) -> f64 {
    let mode = if random.f64() < slow { SLOW } else { 1.0 };
    let disturbance = if random.f64() < 0.05 { 2.0 * random.f64() } else { 0.0 };
    mode * (lognormal(random, 0.03) + disturbance)
}

/// The core clock's factor on every cost, `seconds` after the start: 3.5 % in 25 minutes.
pub(crate) fn drift(seconds: f64) -> f64 {
    1.0 + 0.035 * seconds / 1500.0
}

#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) cost_ns: f64,
    pub(crate) launches: Launches,
    /// Time that belongs to measuring but is not measured (preparing what is used up) ÷ time measured.
    untimed: f64,
}

#[derive(Clone)]
pub(crate) struct Block {
    /// Median time to set it up, and its lognormal spread.
    set_up_s: f64,
    set_up_sigma: f64,
    pub(crate) rows: Vec<Row>,
}

fn block(
    set_up_s: f64,
    set_up_sigma: f64,
    untimed: f64,
    launches: Launches,
    costs: &[f64],
) -> Block {
    let rows = costs.iter().map(|&cost_ns| Row { cost_ns, launches, untimed });
    Block { set_up_s, set_up_sigma, rows: rows.collect() }
}

/// What `costof run` measures alone: forty rows in fifteen blocks.
pub(crate) fn headline_blocks() -> Vec<Block> {
    let (alike, woken) = (Launches::alike, Launches::some_slow);
    let mixed = Launches::with_slow_batches(0.25);
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
pub(crate) fn all_blocks() -> Vec<Block> {
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
pub(crate) fn twice_as_long(mut blocks: Vec<Block>) -> Vec<Block> {
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
pub(crate) struct Run {
    pub(crate) seconds: f64,
    pub(crate) counts: Vec<u32>,
    launch_times: Vec<Vec<f64>>,
}

pub(crate) fn run(seed: u64, blocks: &[Block], precision: Precision) -> Run {
    let mut random = Rng::with_seed(seed);
    let mut now = RUN_S;
    let mut spent = vec![0.0; blocks.len()];
    let mut launch_times = vec![Vec::new(); blocks.len()];
    for launch in 0..MIN_LAUNCHES {
        for block in round_order(seed, launch, blocks.len()) {
            let seconds = blocks[block].launch_s(&mut random, precision);
            spent[block] += seconds;
            launch_times[block].push(now);
            now += seconds;
        }
    }
    let left = precision.budget().saturating_sub(Duration::from_secs_f64(now));
    let counted = spent.into_iter().map(|seconds| Counted {
        launch: Duration::from_secs_f64(seconds / f64::from(MIN_LAUNCHES)),
        points: 1,
        done: MIN_LAUNCHES,
    });
    let counts = launch_counts(&counted.collect::<Vec<_>>(), left, precision);
    for (block, launch) in order(seed, &counts, MIN_LAUNCHES) {
        if launch >= MIN_LAUNCHES {
            launch_times[block].push(now);
            now += blocks[block].launch_s(&mut random, precision);
        }
    }
    Run { seconds: now, counts, launch_times }
}

/// Each row's launch medians in a run, in ns.
pub(crate) fn measure(random: &mut Rng, blocks: &[Block], run: &Run) -> Vec<Vec<f64>> {
    let rows = blocks.iter().zip(&run.launch_times);
    rows.flat_map(|(block, times)| block.rows.iter().map(move |row| (row, times)))
        .map(|(row, times)| {
            let launches = times.iter();
            launches
                .map(|time| row.cost_ns * row.launches.launch_median(random) * drift(*time))
                .collect()
        })
        .collect()
}

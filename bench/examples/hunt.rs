//! What the meter finds on a core that is hardly ever alone, in virtual time: beside a neighbour that
//! comes and goes by a seed, and where gauges of real cores are replayed. The meter and the estimate
//! are the real ones. Prints a table, and exits with 1 if a row that is
//! said to be alone is further off than it may be. A number after `--` multiplies the experiments.
//!
//! `-- record CPU SECONDS` records such a gauge instead: each line is for how many nanoseconds it
//! read how many times its floor. All of it up to 1.05 times is one line, as is all above.
//!
//! Run: `bench/hunt`.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

#[path = "../../crates/measure/tests/virtual_time/neighbour/simulation.rs"]
#[allow(dead_code, reason = "what it compares is for the tests and the other example")]
mod simulation;

use costof_measure::clock;
use costof_measure::gauge::Gauge;
use costof_model::metric::Selection;
use costof_os::sched::affinity;
use costof_stats::median;
use fastrand::Rng;
use simulation::{ALONE_LEVEL, COST_NS, Core, Neighbour, Setting, TRACES, Trace, point_of};
use std::process::ExitCode;

const SEED: u64 = 20_261_128;
/// How far the median of a row that is said to be alone may be off, in per cent.
const BIAS_MAX: f64 = 0.5;
/// The shares of the time that the core is alone, in per cent.
const SHARES: [f64; 7] = [1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0];
/// How long it is alone at once in the mean, in microseconds, and whether a fifth of these times is
/// sixteen times as long as the others.
const WINDOWS: [(f64, bool); 6] =
    [(3.0, false), (8.0, false), (20.0, false), (100.0, false), (8.0, true), (30.0, true)];
/// How many times as long the operation takes while the core is shared, and after that until its
/// caches are filled again, for how many nanoseconds of work.
const OPERATIONS: [(f64, f64); 3] = [(1.3, 0.0), (1.9, 0.0), (5.0, 4_000.0)];
/// Nine launches of what `--quick` measures in each.
const SETTING: Setting = Setting { launches: 9, time_ns: 10e6, spread: 0.0 };
/// A reading that took so many times the shortest was interrupted, and is left out.
const INTERRUPTED: f64 = 4.0;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, cpu, seconds] = words.as_slice()
        && word == "record"
    {
        record(
            cpu.parse().expect("the number of a CPU"),
            seconds.parse().expect("a number of seconds"),
        );
        return ExitCode::SUCCESS;
    }
    let times = words.first().and_then(|word| word.parse().ok());
    let tries = 10 * times.unwrap_or(1);
    println!("Simulated with seed {SEED} by `bench/examples/hunt.rs`, {tries} rows each.\n");
    let operations = OPERATIONS.map(|(times, _)| format!("{times} times |"));
    println!("| alone for | of the time | {}", operations.join(" "));
    println!("|---|---|---|---|---|");
    let mut farthest = 0.0_f64;
    for (window_us, is_uneven) in WINDOWS {
        for share in SHARES {
            let switch = Neighbour::switch(share / 100.0, 1e3 * window_us, is_uneven);
            let uneven = if is_uneven { ", uneven" } else { "" };
            let name = format!("{window_us} µs{uneven} | {share} %");
            let core = |seed| Core::beside(switch, seed);
            farthest = farthest.max(print(&name, tries, core));
        }
    }
    for (share, text) in TRACES {
        let trace = simulation::trace(text);
        let name = format!("recorded | {share} %");
        let core = |seed| Core::replaying(Trace::clone(&trace), seed);
        farthest = farthest.max(print(&name, tries, core));
    }
    println!("\nfarthest median of the rows alone: {farthest:.2} %, at most {BIAS_MAX} %");
    ExitCode::from(u8::from(farthest > BIAS_MAX))
}

/// Prints a line of the table, and returns how far the median of its rows alone is off.
fn print(name: &str, tries: u64, core: impl Fn(u64) -> Core) -> f64 {
    let mut farthest = 0.0_f64;
    let cells = OPERATIONS.map(|(times, refill_ns)| {
        let mut random = Rng::with_seed(SEED);
        let mut biases = Vec::new();
        for seed in 0..tries {
            let core = core(SEED + seed).refilling_for(refill_ns);
            let row = point_of(&SETTING.launches(&mut random, &core, times));
            // If twice the work did not take twice the time, there is no number.
            let Ok(row) = row else { continue };
            let cost = row.primary().expect("it has its cost");
            let core = cost.core.expect("a gauge was read");
            if core.selection == Selection::Alone {
                biases.push(100.0 * (cost.median / COST_NS - 1.0));
            }
        }
        let Some(bias) = median(&biases) else {
            return "-".to_owned();
        };
        let most = biases.iter().copied().fold(0.0, f64::max);
        farthest = farthest.max(bias.abs());
        let alone = 100 * biases.len() as u64 / tries;
        format!("{alone} %: {bias:+.2}, {most:+.2}")
    });
    println!("| {name} | {} |", cells.join(" | "));
    farthest
}

fn record(cpu: usize, seconds: f64) {
    affinity::pin(&[cpu]).expect("it may run there");
    let clock = clock::kernel();
    let gauge = Gauge::for_this_core(None).expect("the gauge has a plateau");
    let mut readings: Vec<(f64, f64)> = Vec::new();
    let began = clock.end();
    let mut last = began;
    while clock.ns(last - began) < 1e9 * seconds {
        let times = gauge.read() / gauge.floor;
        let now = clock.end();
        readings.push((clock.ns(now - last), times));
        last = now;
    }
    let shortest = readings.iter().map(|(ns, _)| *ns).fold(f64::MAX, f64::min);
    readings.retain(|(ns, _)| *ns < INTERRUPTED * shortest);
    let is_alone = |(_, times): &(f64, f64)| *times <= ALONE_LEVEL;
    for stay in readings.chunk_by(|one, next| is_alone(one) == is_alone(next)) {
        let ns: f64 = stay.iter().map(|(ns, _)| ns).sum();
        let times: f64 = stay.iter().map(|(ns, times)| ns * times).sum();
        println!("{ns:.0} {:.2}", times / ns);
    }
}

//! Comparisons of two sides that take turns, on a made-up machine: how often there is a false alarm, how
//! often 5 % are found, and by which statistics.
//!
//! Launches differ, lognormally; the core clock wanders, and goes 3.5 % up in 25 minutes; whoever comes
//! second in a pair pays for it. Prints tables for docs/compare.md. Run:
//! `cargo run --release -p costof-bench --example take_turns`.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use costof_measure::schedule::{Precision, paired as in_fours, turns};
use costof_stats::{Difference, mean};
use fastrand::Rng;

const SEED: u64 = 20_261_122;
/// Rows that are looked at together.
const ROWS: usize = 17;
const TRIES: usize = 1000;
/// What a launch of all rows takes, in seconds.
const LAUNCH_S: f64 = 0.6;
/// A ratio nearer to one is none.
const MIN: f64 = 1.01;

/// What happens to a cost, as logarithms.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    /// By how much launches differ.
    launch: f64,
    /// How far the clock wanders in a second.
    wander: f64,
    /// What whoever is second pays.
    second: f64,
}

const MACHINES: [Machine; 5] = [
    machine("launches differ by 0.5 %", 0.005, 0.0, 0.0),
    machine("by 1 %", 0.01, 0.0, 0.0),
    machine("by 2 %", 0.02, 0.0, 0.0),
    machine("by 1 %, the clock wanders by 1 % a second", 0.01, 0.01, 0.0),
    machine("by 1 %, who is second pays 2 %", 0.01, 0.0, 0.02),
];

const fn machine(name: &'static str, launch: f64, wander: f64, second: f64) -> Machine {
    Machine { name, launch, wander, second }
}

/// How the launches of a row become a difference.
type Statistics = fn(&[f64], &[f64]) -> Option<Difference>;

const STATISTICS: [(&str, Statistics); 3] =
    [("pairs", Difference::paired), ("blocks of four", by_fours), ("Welch", Difference::welch)];

/// Each block of four as one difference.
fn by_fours(first: &[f64], second: &[f64]) -> Option<Difference> {
    let fours = |values: &[f64]| values.chunks(2).filter_map(mean).collect::<Vec<_>>();
    Difference::paired(&fours(first), &fours(second))
}

fn main() {
    println!(
        "Simulated with seed {SEED} by `bench/examples/take_turns.rs`: {ROWS} rows, {TRIES} tries.\n"
    );
    println!("| machine | launches of each | {} |", heads());
    println!("|---|---|{}", "---|".repeat(2 * STATISTICS.len()));
    // As many of each side as `--quick`, the default and `--full` make.
    let launches = [Precision::Quick, Precision::Default, Precision::Full]
        .map(|precision| in_fours(precision.launches(), precision.launches()));
    for machine in MACHINES {
        for launches in launches {
            let shares = STATISTICS.map(|(_, statistics)| shares(machine, launches, statistics));
            let cells: String = shares
                .iter()
                .map(|(alarms, found)| {
                    format!(" {:.1} % | {:.1} % |", 100.0 * alarms, 100.0 * found)
                })
                .collect();
            println!("| {} | {launches} |{cells}", machine.name);
        }
    }
}

fn heads() -> String {
    STATISTICS.map(|(name, _)| format!("{name}: false alarms | 5 % found")).join(" | ")
}

/// The share of tries in which any row of what is the same differs, and of those in which one row that
/// takes 5 % longer does, among others that do not.
fn shares(machine: Machine, launches: u32, statistics: Statistics) -> (f64, f64) {
    let mut random = Rng::with_seed(SEED);
    let (mut alarms, mut found) = (0, 0);
    for _ in 0..TRIES {
        let sides = machine.measure(&mut random, launches);
        let p = |row: usize, more: f64| {
            let slower: Vec<f64> = sides[1][row].iter().map(|log| log + more).collect();
            let p = statistics(&sides[0][row], &slower).map(|found| found.p(MIN.ln()));
            p.unwrap_or(1.0)
        };
        // The first that Holm's procedure looks at has to be as rare.
        let rare = 0.05 / ROWS as f64;
        alarms += usize::from((0..ROWS).any(|row| p(row, 0.0) < rare));
        found += usize::from(p(0, 1.05_f64.ln()) < rare);
    }
    (alarms as f64 / TRIES as f64, found as f64 / TRIES as f64)
}

impl Machine {
    /// The logarithms of what both sides' launches cost, by side and row.
    fn measure(self, random: &mut Rng, launches: u32) -> [[Vec<f64>; ROWS]; 2] {
        let mut sides = [(); 2].map(|()| [(); ROWS].map(|()| Vec::new()));
        let seed = random.u64(..);
        let mut clock = 0.0;
        for launch in 0..launches {
            for (place, side) in turns(seed, 0, launch).into_iter().enumerate() {
                clock += 0.035 / 1500.0 * LAUNCH_S + self.wander * LAUNCH_S.sqrt() * normal(random);
                let second = if place == 1 { self.second } else { 0.0 };
                for row in &mut sides[side] {
                    row.push(clock + second + self.launch * normal(random));
                }
            }
        }
        sides
    }
}

/// A standard normal value (Box and Muller, 1958).
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

//! The scheduler and the statistics of costof, tried on a simulated machine under a simulated clock.
//!
//! Forty rows in fifteen blocks with the costs of a small virtual machine, launches that differ, two
//! modes and a drifting core clock; the code that decides and estimates is the real one. Prints a
//! Markdown section for docs/METHOD.md. Run: `cargo run --release -p costof-bench --example simulate`.
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

mod machine;
mod modes;
mod runs;
mod warm_up;

use fastrand::Rng;

const SEED: u64 = 20_261_121;

fn main() {
    println!("Simulated with seed {SEED} by `bench/examples/simulate`.\n");
    runs::print_run_times();
    runs::print_whole_runs();
    runs::print_coverage();
    modes::print_modes();
    modes::print_launch_modes();
    warm_up::print_warm_up();
}

/// The head of a section with a table.
fn print_head(title: &str, about: &str, columns: &[&str]) {
    println!("### {title}\n");
    if !about.is_empty() {
        println!("{about}\n");
    }
    println!("| {} |", columns.join(" | "));
    println!("|{}", "---|".repeat(columns.len()));
}

/// A standard normal value (Box and Muller, 1958).
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn lognormal(random: &mut Rng, sigma: f64) -> f64 {
    (sigma * normal(random)).exp()
}

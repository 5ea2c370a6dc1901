//! Whole connections over a network that damages what it carries, in virtual time and by seed.
//!
//! `RUDP_SEED=n` runs seed n, `RUDP_SEEDS=n` runs n seeds.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it measured")]

mod counters;
mod echoes;
mod goodput;
mod lasting;
mod network;
mod scenario;
mod strangers;
mod world;

use network::Faults;
use scenario::{Scenario, Totals};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64) -> Result<(Totals, Faults), String> {
    let result = Scenario::new(seed).run();
    result.map_err(|error| format!("RUDP_SEED={seed}: {error}"))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_message_arrives_once_unchanged_and_in_order_where_it_was_asked_for() {
    if let Some(seed) = number("RUDP_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let seeds = number("RUDP_SEEDS").unwrap_or(5_000);
    let half = |first: u64| {
        let mut sums = (Totals::default(), Faults::default());
        for seed in (first..seeds).step_by(2) {
            let (totals, faults) = run(seed)?;
            sums.0 += totals;
            sums.1 += faults;
        }
        Ok::<_, String>(sums)
    };
    let (totals, faults) = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1).unwrap());
        let (mut totals, mut faults) = half(0).unwrap();
        let others = other.join().expect("its panics are caught");
        totals += others.0;
        faults += others.1;
        (totals, faults)
    });
    println!("{totals:#?} {faults:#?}");
    for (name, count) in totals.all().into_iter().chain(faults.all()) {
        assert!(count > 0, "the simulation simulates no `{name}`");
    }
}

//! Whole connections over a network that damages what it carries, in virtual time
//! and by seed.
//!
//! `RUDP_SEED=n` runs one seed, `RUDP_SEEDS=n` so many.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it measured")]

mod echoes;
mod goodput;
mod lasting;
mod network;
mod scenario;
mod strangers;
mod world;

use scenario::{Scenario, Totals};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run(seed: u64) -> Result<Totals, String> {
    match catch_unwind(AssertUnwindSafe(|| Scenario::new(seed).run())) {
        Ok(result) => result,
        Err(_) => Err("panicked, see above".to_owned()),
    }
    .map_err(|error| format!("RUDP_SEED={seed}: {error}"))
}

#[test]
fn every_message_arrives_once_unchanged_and_in_order_where_it_was_asked_for() {
    if let Some(seed) = number("RUDP_SEED") {
        println!("{:#?}", run(seed).unwrap());
        return;
    }
    let seeds = number("RUDP_SEEDS").unwrap_or(5_000);
    let half = |first: u64| {
        let mut totals = Totals::default();
        for seed in (first..seeds).step_by(2) {
            totals += run(seed)?;
        }
        Ok::<Totals, String>(totals)
    };
    let mut totals = Totals::default();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let results = [half(0), other.join().expect("its panics are caught")];
        for result in results {
            totals += result.unwrap_or_else(|error| panic!("{error}"));
        }
    });
    println!("{totals:#?}");
    let faults = totals.faults;
    for (what, count) in [
        ("lost", faults.lost),
        ("duplicated", faults.duplicated),
        ("reordered", faults.reordered),
        ("corrupted", faults.corrupted),
        ("truncated", faults.truncated),
        ("overflowed", faults.overflowed),
        ("marked", faults.marked),
        ("cleared of its mark", faults.cleared),
        ("dropped for its mark", faults.dropped_for_marks),
        ("known to be marked", totals.marked),
        ("aborted", totals.aborted),
        ("reported as undeliverable", totals.undeliverable),
        ("rejected", totals.rejected),
        ("recognised as a duplicate", totals.duplicates),
        ("taken for lost", totals.taken_for_lost),
        ("taken for lost too early", totals.spurious),
        ("probed for", totals.timeouts),
    ] {
        assert!(
            count > 0,
            "nothing was {what}: the simulation does not simulate it"
        );
    }
}

//! A soak of faults: signals, stopped processes, full and failing disks, limits, steps of the clock and lost networks,
//! at random moments of all commands. After each: no finished launch is lost, the file reads and goes on, nothing is
//! left, nothing hangs, and errors say what failed. `bench/soak` does the same for longer.

mod case;
mod fault;
mod trial;

use case::{CASES, Case};
use fastrand::Rng;
use fault::{FAULTS, Fault};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trial::Trial;

/// What became of an injection.
struct Injected {
    number: u64,
    fault: Fault,
    case: &'static Case,
    /// What was done, and to what.
    what: String,
    /// Why it is not possible here, or what was found.
    found: Result<Vec<String>, String>,
    took: Duration,
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn whatever_happens_no_launch_is_lost_and_nothing_is_left() {
    let seed = number("COSTOF_SOAK_SEED").unwrap_or(1);
    let only = number("COSTOF_SOAK_ONLY");
    let (first, end) = match only {
        Some(only) => (only, only + 1),
        None => (0, number("COSTOF_SOAK").unwrap_or(39)),
    };
    let next = AtomicU64::new(first);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..number("COSTOF_SOAK_JOBS").unwrap_or(4) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return;
                    }
                    let injected = inject(seed, number);
                    eprintln!("{}", injected.line());
                    all.lock().unwrap().push(injected);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    eprintln!("{}", summary(&all));
    let found: String = all
        .iter()
        .filter(|injected| injected.is_fault())
        .map(|injected| {
            format!("bench/soak --seed {seed} --only {}: {}\n", injected.number, injected.line())
        })
        .collect();
    assert!(found.is_empty(), "{found}");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// The fault of this number, which the seed decides, in a command that it fits.
fn inject(seed: u64, number: u64) -> Injected {
    let mut random = Rng::with_seed((seed << 32) | number);
    let fault = FAULTS[number as usize % FAULTS.len()];
    let fitting: Vec<&Case> = CASES.iter().filter(|case| fault.fits(case)).collect();
    let case = fitting[random.usize(..fitting.len())];
    let began = Instant::now();
    let mut trial = match Trial::new(case, fault, random, number) {
        Ok(trial) => trial,
        Err(why) => {
            return Injected {
                number,
                fault,
                case,
                what: String::new(),
                found: Err(why),
                took: Duration::ZERO,
            };
        }
    };
    let found = trial.run();
    Injected {
        number,
        fault,
        case,
        what: std::mem::take(&mut trial.what),
        found,
        took: began.elapsed(),
    }
}

impl Injected {
    fn is_fault(&self) -> bool {
        self.found.as_ref().is_ok_and(|found| !found.is_empty())
    }

    fn line(&self) -> String {
        let found = match &self.found {
            Ok(found) if found.is_empty() => "ok".to_owned(),
            Ok(found) => format!("FOUND {}", found.join("; ")),
            Err(why) => format!("not possible here: {why}"),
        };
        format!(
            "{} {:?} in {}, {:.1} s: {}: {found}",
            self.number,
            self.fault,
            self.case.name,
            self.took.as_secs_f64(),
            self.what,
        )
    }
}

/// Injections by kind: how many, how many found a fault, and how long the longest took.
fn summary(all: &[Injected]) -> String {
    let mut kinds: BTreeMap<String, Vec<&Injected>> = BTreeMap::new();
    for injected in all {
        kinds.entry(format!("{:?}", injected.fault)).or_default().push(injected);
    }
    let mut text = String::from(
        "| fault | injections | not possible here | found | longest |\n|---|---|---|---|---|\n",
    );
    for (kind, all) in kinds {
        let missing = all.iter().filter(|injected| injected.found.is_err()).count();
        let found = all.iter().filter(|injected| injected.is_fault()).count();
        let longest = all.iter().map(|injected| injected.took).max().unwrap_or_default();
        writeln!(
            text,
            "| {kind} | {} | {missing} | {found} | {:.0} s |",
            all.len() - missing,
            longest.as_secs_f64()
        )
        .unwrap();
    }
    text
}

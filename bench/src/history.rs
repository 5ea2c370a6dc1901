//! `costof history` beside Apache Otava and cargo-bench-history, on series that are made of real runs: the runs as
//! they came, the same in any order, and with steps or spikes planted in one row. A change that any of them reports
//! is right if it is in the row of the step and within a few runs of it; any other is a false alarm.

mod peers;
mod series;
mod tally;

use crate::bench::Bench;
use crate::error::{Error, OrCannot, Result, failed};
use crate::share::Share;
use crate::verdict::Verdict;
use costof_model::run_file::{self, Run};
use fastrand::Rng;
use peers::Peer;
use series::{Kind, SHORT, Series};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use tally::Tally;

const SEED: u64 = 20_261_126;
const STEPS: [f64; 4] = [0.03, 0.05, 0.1, 0.2];
/// One false alarm in this many runs.
const FALSE_ALARM_RUNS: u32 = 1000;
/// Series of each kind with a step, for each of all runs.
const SHORT_SERIES: usize = 5;
const ROUNDS: usize = 20;

/// A program beside costof: how it is asked, or why it is left out, and what it made of all steps.
struct Beside {
    name: &'static str,
    peer: std::result::Result<Peer, String>,
    steps: Tally,
}

pub(crate) fn compare(bench: &Bench, files: &[PathBuf]) -> Result<Vec<Verdict>> {
    bench.introduce("history: lasting changes by costof, Apache Otava and cargo-bench-history");
    let runs = files.iter().map(|file| read(file)).collect::<Result<Vec<Run>>>()?;
    if runs.len() < 2 * SHORT {
        return Err(failed(format!("name {} runs of the same or more", 2 * SHORT)));
    }
    let mut others = [
        Beside::new("Otava", Ok(Peer::otava()))?,
        Beside::new("cargo-bench-history", Peer::cargo_bench_history(bench))?,
    ];
    let rounds = bench.rounds(ROUNDS);
    let mut random = Rng::with_seed(SEED);
    println!("Seed {SEED}, {} runs, {rounds} rounds.\n", runs.len());
    println!(
        "| series | by | false alarms per 1,000 runs | found | delay, runs | precision | recall | F1 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let short = SHORT_SERIES * rounds;
    let kinds = [
        (Kind::AsMeasured, 1),
        (Kind::AnyOrder(runs.len()), rounds),
        (Kind::AnyOrder(SHORT), short),
        (Kind::Spikes, short),
    ];
    let steps = STEPS.map(|share| (Kind::Step(share), short));
    let (mut alarms, mut own_steps) = (Share::default(), Tally::default());
    for (kind, count) in kinds.into_iter().chain(steps) {
        let series: Vec<Series> =
            (0..count).map(|_| Series::new(&runs, kind, &mut random)).collect();
        let mut own = Tally::default();
        series.iter().for_each(|one| own.add(one, &one.costof));
        print_line(&kind.name(), "costof", &own);
        match kind {
            Kind::AsMeasured => {}
            Kind::Step(_) => own_steps = own_steps.and(&own),
            _ => alarms = alarms.and(own.alarms),
        }
        for other in &mut others {
            other.follow(bench, kind, &series)?;
        }
    }
    print_line("all with a step", "costof", &own_steps);
    let there = others.iter().filter(|other| other.peer.is_ok());
    there.for_each(|other| print_line("all with a step", other.name, &other.steps));
    println!();
    let most = crate::verdict::at_most(1.0 / f64::from(FALSE_ALARM_RUNS));
    let rate =
        alarms.judge(most).report(&format!("false alarms among runs in any order: {alarms}"));
    let f1 = own_steps.f1().0;
    Ok(std::iter::once(rate).chain(others.iter().map(|other| other.judge(f1))).collect())
}

fn print_line(series: &str, by: &str, tally: &Tally) {
    println!("| {series} | {by} | {} |", tally.cells());
}

impl Beside {
    /// Errors: the user interrupted.
    fn new(name: &'static str, peer: Result<Peer>) -> Result<Beside> {
        Ok(Beside { name, peer: or_left_out(name, peer)?, steps: Tally::default() })
    }

    /// Prints what it makes of these series, if it is there.
    fn follow(&mut self, bench: &Bench, kind: Kind, series: &[Series]) -> Result<()> {
        let Ok(peer) = &self.peer else {
            return Ok(());
        };
        match or_left_out(self.name, peer.ask(bench, series))? {
            Ok(found) => {
                let mut tally = Tally::default();
                series.iter().zip(&found).for_each(|(one, found)| tally.add(one, found));
                print_line(&kind.name(), self.name, &tally);
                if matches!(kind, Kind::Step(_)) {
                    self.steps = std::mem::take(&mut self.steps).and(&tally);
                }
            }
            Err(why) => self.peer = Err(why),
        }
        Ok(())
    }

    /// Whether costof's F1 over all steps is at least as good.
    fn judge(&self, own: f64) -> Verdict {
        let verdict = match &self.peer {
            Ok(_) => Verdict::from(own >= self.steps.f1().0),
            Err(why) => Verdict::Undecided(why.clone()),
        };
        verdict.report(&format!("F1 over all steps, at least {}'s", self.name))
    }
}

/// What a peer gave, or why it is left out, which is printed.
///
/// Errors: the user interrupted.
fn or_left_out<T>(name: &str, given: Result<T>) -> Result<std::result::Result<T, String>> {
    match given {
        Ok(given) => Ok(Ok(given)),
        Err(Error::Failed(why)) => {
            println!("{name} is left out: {why}");
            Ok(Err(why))
        }
        Err(Error::Interrupted) => Err(Error::Interrupted),
    }
}

/// The run in a file, without its launches.
fn read(file: &Path) -> Result<Run> {
    let open = File::open(file).or_cannot(format_args!("open {}", file.display()))?;
    let mut run =
        run_file::read(BufReader::new(open)).or_cannot(format_args!("read {}", file.display()))?;
    run.launches.clear();
    run.probes.clear();
    Ok(run)
}

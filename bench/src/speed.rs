//! What costof itself costs: seconds and memory of `costof run` alone,
//! milliseconds of `costof list`.

use crate::bench::Bench;
use crate::costof::failures;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::Verdict;
use costof_model::run_file::Run;
use costof_model::unit::parse_bytes;
use costof_stats::quantile;
use std::time::{Duration, Instant};

const RUNS: usize = 3;
const WALL_BOUND: Duration = Duration::from_secs(60);
const FULL_BOUND: Duration = Duration::from_secs(15 * 60);
/// Rows with an interval.
const ROWS_BOUND: usize = 25;
const MEMORY_BOUND_BYTES: u64 = 100_000_000;
/// How often `costof list` is started.
const LISTS: usize = 200;
const LIST_BOUND_MS: f64 = 20.0;
const DRY_RUNS: usize = 50;

/// The most memory that was resident, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    controller: u64,
    /// Of the largest worker: one runs at a time.
    worker: u64,
}

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce("costof run alone, costof list, costof run --dry-run");
    let watch = Watch::start();
    let mut verdicts = run_alone(bench)?;
    let list_ms = start_often(bench, LISTS, "list")?;
    let p95_ms = quantile(&list_ms, 0.95).unwrap_or(f64::NAN);
    let verdict = Verdict::from(p95_ms < LIST_BOUND_MS);
    println!("costof list: {}; p95 under {LIST_BOUND_MS} ms: {verdict}", milliseconds(&list_ms));
    verdicts.push(verdict);
    let dry_ms = start_often(bench, DRY_RUNS, "run --dry-run")?;
    println!("costof run --dry-run: {}\n", milliseconds(&dry_ms));
    machine::was_quiet(&watch);
    Ok(verdicts)
}

fn run_alone(bench: &Bench) -> Result<Vec<Verdict>> {
    let asked = asked_bytes(bench)?;
    let mut wall = Duration::ZERO;
    let mut rows = usize::MAX;
    let mut peak = Peak::default();
    for number in 1..=bench.rounds(RUNS) {
        let name = format!("alone-{number}.jsonl");
        let mut of_this = Peak::default();
        let (run, finished) = bench.run_watched(&name, "", &mut |id| of_this.read(id))?;
        println!(
            "costof run {number}: {:.1} s, {} rows of which {} have an interval, at most {} MB in \
             the controller and {} MB in a worker{}",
            finished.wall.as_secs_f64(),
            run.points.len(),
            with_interval(&run),
            of_this.controller / 1_000_000,
            of_this.worker / 1_000_000,
            failures(&run)
        );
        wall = wall.max(finished.wall);
        rows = rows.min(with_interval(&run));
        peak.controller = peak.controller.max(of_this.controller);
        peak.worker = peak.worker.max(of_this.worker);
    }
    let fast = Verdict::from(wall < WALL_BOUND && rows >= ROWS_BOUND);
    println!(
        "slowest {:.1} s, at least {rows} rows with an interval; under {} s with at least \
         {ROWS_BOUND}: {fast}",
        wall.as_secs_f64(),
        WALL_BOUND.as_secs()
    );
    let small = peak.judge(asked);
    println!(
        "{:.0} MB resident at most, of which probes ask for up to {:.0} MB; below {} MB beside \
         that: {small}\n",
        megabytes(peak.controller + peak.worker),
        megabytes(asked),
        MEMORY_BOUND_BYTES / 1_000_000
    );
    Ok(vec![fast, small])
}

/// How many rows have a number with an interval.
fn with_interval(run: &Run) -> usize {
    let rows = run.points.iter();
    rows.filter(|row| row.primary().is_some_and(|number| number.ci95.is_some())).count()
}

/// `costof run --full`: everything that this machine can measure by itself.
pub(crate) fn full(bench: &Bench) -> Result<Vec<Verdict>> {
    bench.introduce("costof run --full");
    let watch = Watch::start();
    let limit = 2 * FULL_BOUND;
    let mut verdicts = Vec::new();
    for number in 1..=bench.rounds(1) {
        let start = Instant::now();
        let run = bench.run_within(&format!("full-{number}.jsonl"), "--full", limit)?;
        let wall = start.elapsed();
        let verdict = Verdict::from(wall < FULL_BOUND);
        println!(
            "costof run --full {number}: {:.1} min, {} points of which {} have an interval{}; \
             under {} min: {verdict}\n",
            wall.as_secs_f64() / 60.0,
            run.points.len(),
            with_interval(&run),
            failures(&run),
            FULL_BOUND.as_secs() / 60
        );
        verdicts.push(verdict);
    }
    machine::was_quiet(&watch);
    Ok(verdicts)
}

impl Peak {
    /// Reads the high-water marks, which only miss a worker's last moments, of the controller `id` and of its workers.
    fn read(&mut self, id: u32) {
        self.controller = self.controller.max(high_water_bytes(id));
        for child in machine::children(id) {
            self.worker = self.worker.max(high_water_bytes(child));
        }
    }

    /// Both, less what probes ask for.
    fn judge(self, asked: u64) -> Verdict {
        if self.controller == 0 || self.worker == 0 {
            return Verdict::Undecided(machine::NO_CHILDREN.to_owned());
        }
        let own = (self.controller + self.worker).saturating_sub(asked);
        Verdict::from(own < MEMORY_BOUND_BYTES)
    }
}

/// The most that was resident in a process so far; 0 where it has ended.
fn high_water_bytes(id: u32) -> u64 {
    machine::peak_bytes(id).unwrap_or(0)
}

/// What the probes of a run ask for at most, as `--dry-run` prints it.
fn asked_bytes(bench: &Bench) -> Result<u64> {
    let finished = bench.costof("run --dry-run")?;
    parse_asked_bytes(&finished.output).ok_or_else(|| {
        failed("`costof run --dry-run` does not say `up to … of memory` any more: teach bench/src/speed.rs its new words")
    })
}

fn parse_asked_bytes(dry_run: &str) -> Option<u64> {
    let before = dry_run.rsplit_once(" of memory")?.0;
    parse_bytes(before.rsplit_once("up to ")?.1)
}

/// The wall times of a command that is started again and again, in milliseconds.
fn start_often(bench: &Bench, times: usize, arguments: &str) -> Result<Vec<f64>> {
    (0..times).map(|_| Ok(bench.costof(arguments)?.wall.as_secs_f64() * 1e3)).collect()
}

fn milliseconds(values: &[f64]) -> String {
    let at = |p| quantile(values, p).unwrap_or(f64::NAN);
    format!("median {:.2} ms, p95 {:.2} ms of {} starts", at(0.5), at(0.95), values.len())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_probes_ask_for_is_read_from_the_dry_run() {
        let text = "memory.latency size=128MiB\n\n21 points, up to 9 launches of each, about 12 s \
                    (the budget is 45 s), up to 128MiB of memory beside the worker's own, about \
                    500KiB of disk\n";
        assert_eq!(parse_asked_bytes(text), Some(128 << 20));
        assert_eq!(parse_asked_bytes("21 points, about 12 s"), None);
    }

    #[test]
    fn memory_holds_does_not_hold_or_cannot_be_told() {
        let peak = |controller, worker| Peak { controller, worker };
        assert_eq!(peak(20 << 20, 150 << 20).judge(128 << 20), Verdict::Holds);
        assert_eq!(peak(20 << 20, 250 << 20).judge(128 << 20), Verdict::DoesNotHold);
        assert!(matches!(peak(20 << 20, 0).judge(0), Verdict::Undecided(_)));
    }
}

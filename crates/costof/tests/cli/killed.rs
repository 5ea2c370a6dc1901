//! Killed with SIGKILL at random moments, again and again: the file reads as
//! far as it got, nothing that it held is lost or doubled, and it can be
//! completed. `bench/kill-longer` does the same with more kills.

use crate::common::{Place, ended, expect_complete, read, run, signal, spawn, wait_for};
use costof_model::run_file::{self, RunFileError};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Cheap, and of two levels.
const RUN: &str = "run --only null cpu.clock --set source=tsc_fenced --quick --out run.jsonl";

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_that_is_killed_at_any_moment_is_resumed_without_loss() {
    let (kills, seed) = (number("COSTOF_KILLS", 50), number("COSTOF_KILLS_SEED", 1));
    eprintln!("{kills} kills, drawn by seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let usual_time = time_of_a_whole_run();
    let mut place = Place::new();
    let (mut kept, mut into_launches) = (Vec::new(), 0);
    for kill in 0..kills {
        let file = place.path("run.jsonl");
        let starts_late = random.u8(..3) > 0;
        let delay = usual_time.mul_f64(random.f64());
        let controller = spawn(&mut next(&place));
        if starts_late {
            // Much of the time goes by before anything is written.
            let length = || fs::metadata(&file).map_or(0, |data| data.len());
            let before = length();
            wait_for("the file to grow", || length() > before || place.running().is_empty());
            std::thread::sleep(delay / 2);
        } else {
            std::thread::sleep(delay);
        }
        signal(&controller, Signal::KILL);
        let was_killed = ended(controller).code.is_none();
        place.expect_nothing_runs();
        let launches_before = launches(&kept);
        kept = check(&file, &kept, kill);
        into_launches += u64::from(was_killed && launches(&kept) > launches_before);
        let is_complete = !kept.is_empty() && read(&file).end.is_some();
        let why = "it ended by itself before the end";
        assert!(was_killed || is_complete, "kill {kill}: {why}");
        if is_complete {
            expect_complete(&read(&file));
            (place, kept) = (Place::new(), Vec::new());
        }
    }
    eprintln!("{into_launches} of them while launches were written");
    assert!(into_launches > kills / 10, "too few kills");
    run(&mut next(&place)).expect_code(0);
    check(&place.path("run.jsonl"), &kept, kills);
    expect_complete(&place.run_file());
}

fn launches(whole_lines: &[u8]) -> usize {
    let text = String::from_utf8_lossy(whole_lines);
    text.lines().filter(|line| line.starts_with("{\"type\":\"launch\"")).count()
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn time_of_a_whole_run() -> Duration {
    let place = Place::new();
    let began = Instant::now();
    run(&mut next(&place)).expect_code(0);
    began.elapsed()
}

/// The command that goes on: with the file where it holds a run, else anew.
fn next(place: &Place) -> Command {
    let file = place.path("run.jsonl");
    if holds_a_run(&file) {
        return place.costof("run --resume run.jsonl");
    }
    // Killed before its first line was whole; nothing was measured.
    let _ = fs::remove_file(&file);
    place.costof(RUN)
}

fn holds_a_run(file: &Path) -> bool {
    match fs::read(file).map(|bytes| run_file::read(&bytes[..])) {
        Err(_) | Ok(Err(RunFileError::Empty | RunFileError::Unfinished)) => false,
        Ok(Err(error)) => panic!("{error}"),
        Ok(Ok(_)) => true,
    }
}

/// The whole lines of the file, which go on where they stood before, and in
/// which no launch comes twice.
fn check(file: &Path, before: &[u8], kill: u64) -> Vec<u8> {
    if !holds_a_run(file) {
        assert!(before.is_empty(), "kill {kill}: the run is gone");
        return Vec::new();
    }
    let run = read(file);
    let mut bytes = fs::read(file).unwrap();
    bytes.truncate(run.whole_bytes as usize);
    let has_changed = !bytes.starts_with(before);
    assert!(!has_changed, "kill {kill}: what was written has changed");
    let launches: BTreeSet<_> = run.launches.iter().map(|row| (row.block, row.launch)).collect();
    assert_eq!(launches.len(), run.launches.len(), "kill {kill}: one twice");
    let points: BTreeSet<_> = run.points.iter().map(|row| &row.point).collect();
    assert_eq!(points.len(), run.points.len(), "kill {kill}: one twice");
    assert!(run.failures.is_empty(), "kill {kill}: {:?}", run.failures);
    bytes
}

//! costof beside programs that stand for the tools: what is compared, absent, failed, interrupted.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, ended, interrupt, run, signal, spawn,
    wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command};

/// `costof verify` of system calls with these options, where nothing is on the path but what it takes
/// to start a tool, and `perf` where there is a script for it.
fn verify(place: &Place, perf: Option<&str>, options: &str) -> Command {
    let bin = place.path("bin");
    for folder in [&bin, &place.path("temporary")] {
        fs::create_dir_all(folder).unwrap();
    }
    for program in ["sh", "rm", "sleep", "taskset", "setpriv"] {
        let from = ["/usr/bin", "/bin"].map(|folder| format!("{folder}/{program}"));
        let from = from.iter().find(|file| fs::exists(file).unwrap()).unwrap();
        let _ = symlink(from, bin.join(program));
    }
    if let Some(script) = perf {
        let path = bin.join("perf");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = place.costof(&format!("verify --rounds 3 {options}"));
    command.env("PATH", &bin);
    command.env("TMPDIR", place.path("temporary"));
    command
}

/// The row of the tool among lines of JSON.
fn row(ended: &Ended, tool: &str) -> Value {
    let mut rows = ended.out.lines().map(|line| serde_json::from_str(line).unwrap());
    rows.find(|row: &Value| row["tool"] == tool).unwrap()
}

/// Nothing is left but what the test itself has put there.
fn expect_nothing_written(place: &Place) {
    let temporary = fs::read_dir(place.path("temporary")).unwrap();
    assert_eq!(temporary.count(), 0);
    assert!(!place.path("state").exists());
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_tool_is_compared_and_nothing_else_is_written() {
    let place = Place::new();
    let script = "echo '   0.100000 usecs/op'";
    let done = run(&mut verify(&place, Some(script), "os.syscall --json")).expect_code(0);
    let perf = row(&done, "perf");
    assert_eq!(perf["state"], "compared", "{done:?}");
    assert_eq!(perf["probe"], "os.syscall");
    assert_eq!(perf["statistic"], "mean");
    assert_eq!(perf["other"], serde_json::json!([100.0, 100.0, 100.0]));
    let own = perf["costof"].as_array().unwrap();
    let mut ratios: Vec<f64> = own.iter().map(|ns| ns.as_f64().unwrap() / 100.0).collect();
    ratios.sort_by(f64::total_cmp);
    assert_eq!(ratios.len(), 3);
    assert!((perf["ratio"].as_f64().unwrap() - ratios[1]).abs() < 1e-9);
    assert!(perf["ci95"][0].as_f64() < perf["ci95"][1].as_f64());
    expect_nothing_written(&place);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_ratio_far_from_what_is_expected_is_an_exit_code_only_if_asked_for() {
    let place = Place::new();
    // So far that it is so however busy this machine is.
    let script = "echo '   100000000.0 usecs/op'";
    let threshold = "os.syscall --threshold 5";
    let done = run(&mut verify(&place, Some(script), threshold)).expect_code(1);
    assert_contains_all(&done.out, &["not as expected", "why they may differ"]);
    run(&mut verify(&place, Some(script), "os.syscall")).expect_code(0);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_cannot_be_read_or_fails_is_a_row_of_its_own() {
    for (script, why) in
        [("echo rubbish", "no number"), ("echo 'not permitted' >&2; exit 3", "not permitted")]
    {
        let place = Place::new();
        let done = run(&mut verify(&place, Some(script), "perf --json")).expect_code(3);
        let perf = row(&done, "perf");
        assert_eq!(perf["state"], "failed");
        assert_contains(perf["reason"].as_str().unwrap(), why);
        assert_contains(&done.err, "nothing could be compared");
    }
}

#[test]
fn what_is_not_installed_is_named_with_its_package() {
    let place = Place::new();
    let done = run(&mut verify(&place, None, "mbw")).expect_code(3);
    assert_contains(&done.out, "install mbw");
}

/// `costof verify` while its tool runs, which does not end by itself.
fn running(place: &Place) -> Child {
    let child = spawn(&mut verify(place, Some("exec sleep 600"), "os.syscall"));
    wait_for("the tool to run", || {
        let mut all = place.running().into_iter();
        all.any(|process| process.command.contains("sleep 600"))
    });
    child
}

#[test]
fn an_interrupt_ends_the_tool_too() {
    let place = Place::new();
    interrupt(running(&place));
    place.expect_nothing_runs();
    expect_nothing_written(&place);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_tool_ends_with_a_costof_that_was_killed() {
    let place = Place::new();
    let child = running(&place);
    signal(&child, Signal::KILL);
    ended(child);
    place.expect_nothing_runs();
}

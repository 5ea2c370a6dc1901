//! One machine is measured by one costof at a time.

use crate::common::{
    Place, assert_contains, assert_contains_all, ended, expect_complete, read, run, signal, spawn,
    wait_for,
};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};

/// A run that holds the machine until it is interrupted.
const HANGS: [&str; 4] = ["run", "test.hang", "--set", "how=sleep"];

#[test]
fn who_does_not_wait_is_told_whose_turn_it_is() {
    let place = Place::new();
    let first = spawn(&mut place.misbehaving(&HANGS));
    wait_for("the probe to hang", || place.path("hanging").exists());
    let second = ["run", "null", "--quick", "--no-wait", "--out", "run.jsonl"];
    // A folder of its own for temporary files is no machine of its own.
    let mut second = place.costof(&second);
    let told = run(second.env("TMPDIR", "/nowhere")).expect_code(3);
    assert_contains_all(
        &told.err,
        &[
            "this machine is being measured by process",
            "test.hang",
            &format!("the lock {}/costof-", place.path("").display()).replace("//", "/"),
            "--no-wait",
        ],
    );
    assert!(!place.path("run.jsonl").exists());
    signal(&first, Signal::INT);
    ended(first).expect_code(130);
}

#[test]
fn who_waits_is_told_for_whom_and_goes_on_when_that_was_killed() {
    let place = Place::new();
    let first = spawn(&mut place.misbehaving(&HANGS));
    wait_for("the probe to hang", || place.path("hanging").exists());
    let mut second = spawn(&mut place.costof("run null --quick --out run.jsonl"));
    let mut line = String::new();
    BufReader::new(second.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_contains(&line, "waiting: this machine is being measured by process");
    assert!(!place.path("run.jsonl").exists());
    signal(&first, Signal::KILL);
    ended(first);
    ended(second).expect_code(0);
    expect_complete(&read(&place.path("run.jsonl")));
    place.expect_nothing_runs();
}

#[test]
fn who_waits_can_be_interrupted() {
    let place = Place::new();
    let first = spawn(&mut place.misbehaving(&HANGS));
    wait_for("the probe to hang", || place.path("hanging").exists());
    let mut second = spawn(&mut place.costof("run null --quick --out run.jsonl"));
    let mut line = String::new();
    BufReader::new(second.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    signal(&second, Signal::INT);
    ended(second).expect_code(130);
    signal(&first, Signal::INT);
    ended(first).expect_code(130);
    place.expect_nothing_runs();
}

#[test]
fn hosts_that_are_one_machine_take_turns_and_have_a_file_each() {
    let place = Place::new();
    let costof = place.misbehaving(&[]);
    let other = format!("exec:{} worker", Place::program(&costof));
    // It lasts longer than the end of another run's worker is waited for.
    let words = "run test.slow --no-wait --out runs --on local --on";
    let words: Vec<&str> = words.split(' ').chain([&*other]).collect();
    let told = run(&mut place.misbehaving(&words)).expect_code(0);
    place.expect_nothing_runs();
    // They did not even wait for each other's lock.
    assert!(!told.err.contains("waiting"), "{}", told.err);
    let files = std::fs::read_dir(place.path("runs")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let [exec, local] = files.as_slice() else {
        panic!("{files:?}");
    };
    assert!(local.ends_with("local.jsonl"));
    let (local, exec) = (read(local), read(exec));
    expect_complete(&local);
    expect_complete(&exec);
    assert_eq!(local.run.plan.hosts.on.as_deref(), Some("local"));
    assert_eq!(exec.run.plan.hosts.on.as_ref(), Some(&other));
    assert_contains_all(&told.out, &["local:", "exec:"]);
}

#[test]
fn a_worker_of_the_same_command_that_is_slow_to_end_is_waited_for() {
    let place = Place::new();
    let costof = place.costof(&[]);
    let worker = format!("{} worker", Place::program(&costof));
    // Its input closes late, as behind a network, and nothing else ends it.
    // It is late by far less than it is waited for, since a busy machine adds to it.
    let late = |seconds| format!("exec:setsid sh -c 'cat; sleep {seconds}' | setsid {worker}");
    let words = "run null --quick --no-wait --out runs --on";
    let mut costof = place.costof(words);
    costof.args([&late("0.2"), "--on", &late("0.3")]);
    let told = run(&mut costof).expect_code(0);
    assert!(!told.err.contains("waiting"), "{}", told.err);
    assert_eq!(std::fs::read_dir(place.path("runs")).unwrap().count(), 2);
    place.expect_nothing_runs();
}

#[test]
fn a_host_that_is_not_there_costs_its_own_run_only() {
    let place = Place::new();
    let words = "run null --quick --out runs --on exec:false --on local";
    let told = run(&mut place.costof(words)).expect_code(3);
    assert_contains(&told.err, "exec:false");
    expect_complete(&read(&place.path("runs/local.jsonl")));
}

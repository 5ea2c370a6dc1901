//! One machine is measured by one costof at a time.

use crate::common::{
    COSTOF, Place, assert_contains, assert_contains_all, ended, expect_complete,
    expect_every_launch, interrupt, misbehaving, point, run, signal, spawn, wait_for,
};
use rustix::process::{Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

/// A run that holds the machine until it is interrupted.
fn holding(place: &Place) -> Child {
    place.hanging(&mut place.misbehaving("run test.hang --set how=sleep"))
}

/// Another run, and what it says first, but for a machine that is slow to describe itself.
fn waiting(place: &Place) -> (Child, String) {
    let mut second = spawn(&mut place.costof("run --only harness.null --quick --out run.jsonl"));
    let err = second.stderr.as_mut().unwrap();
    let line = BufReader::new(err)
        .lines()
        .map(Result::unwrap)
        .find(|line| !line.contains("to describe its machine"));
    (second, line.unwrap_or_default())
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn who_does_not_wait_is_told_whose_turn_it_is() {
    let place = Place::new();
    let first = holding(&place);
    // A folder of its own for temporary files is no machine of its own.
    let mut second = place.costof("run --only null --quick --no-wait --out run.jsonl");
    let second = run(second.env("TMPDIR", "/nowhere")).expect_code(3);
    assert_contains_all(
        &second.err,
        &[
            "being measured by process",
            "test.hang",
            &format!("the lock {}/costof-", place.path("").display()).replace("//", "/"),
            "--no-wait",
        ],
    );
    assert!(!place.path("run.jsonl").exists());
    interrupt(first);
}

#[test]
fn an_empty_name_of_the_locks_folder_is_none() {
    let place = Place::new();
    let mut command = place.costof("run --only null --quick --no-wait --out run.jsonl");
    run(command.env("COSTOF_LOCK_FOLDER", ""));
    let files = std::fs::read_dir(place.path("")).unwrap().flatten();
    let mut names = files.map(|file| file.file_name().into_string().unwrap());
    assert_eq!(names.find(|name| name.starts_with("costof-")), None);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn who_waits_is_told_for_whom_and_goes_on_when_that_was_killed() {
    let place = Place::new();
    let first = holding(&place);
    let (second, line) = waiting(&place);
    assert_contains_all(&line, &["waiting: ", "being measured by process"]);
    assert!(!place.path("run.jsonl").exists());
    signal(&first, Signal::KILL);
    ended(first);
    ended(second).expect_code(0);
    expect_complete(&place.run_file());
    place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_whose_hold_on_the_machine_is_killed_says_so_and_can_be_resumed() {
    loses_its_hold(|place| {
        // The oldest worker has described the machine, and holds it.
        let workers = place.running().into_iter();
        let workers = workers.filter(|process| process.command.split(' ').nth(1) == Some("worker"));
        let holder = workers.min_by_key(|worker| worker.started).unwrap();
        kill_process(holder.pid, Signal::KILL).unwrap();
    });
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_whose_lock_is_removed_says_so_and_can_be_resumed() {
    let removed: [fn(&Path); 3] = [
        |lock| std::fs::remove_file(lock).unwrap(),
        |lock| std::fs::rename(lock, lock.with_extension("away")).unwrap(),
        |lock| {
            std::fs::hard_link(lock, lock.with_extension("away")).unwrap();
            std::fs::remove_file(lock).unwrap();
        },
    ];
    for how in removed {
        loses_its_hold(|place| {
            let mut files =
                std::fs::read_dir(place.path("")).unwrap().flatten().map(|file| file.path());
            let lock = files.find(|file| file.extension().is_some_and(|it| it == "lock"));
            how(&lock.unwrap());
        });
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_lock_that_is_held_and_has_another_name_too_is_not_to_be_removed() {
    let place = Place::new();
    let first = holding(&place);
    let mut files = std::fs::read_dir(place.path("")).unwrap().flatten().map(|file| file.path());
    let lock = files.find(|file| file.extension().is_some_and(|it| it == "lock")).unwrap();
    std::fs::hard_link(&lock, lock.with_extension("too")).unwrap();
    let second = place.run("run --only null --quick --no-wait --out run.jsonl").expect_code(3);
    assert_contains(&second.err, "being measured by process");
    interrupt(first);
}

fn loses_its_hold(how: impl FnOnce(&Place)) {
    let place = Place::new();
    let line = "run test.slow test.planted --launches 30 --out run.jsonl";
    let controller = spawn(&mut place.misbehaving(line));
    let launches = || {
        let text = std::fs::read_to_string(place.path("run.jsonl")).unwrap_or_default();
        text.matches("\"type\":\"launch\"").count()
    };
    wait_for("a launch", || launches() > 0);
    how(&place);
    let stopped = ended(controller).expect_code(3);
    assert_contains_all(&stopped.err, &["kept other costofs off", "run --resume run.jsonl"]);
    assert!(place.run_file().end.is_none() && launches() < 30);
    place.run_misbehaving("run --resume run.jsonl").expect_code(0);
    expect_complete(&place.run_file());
    place.expect_nothing_runs();
}

#[test]
fn a_lock_that_cannot_be_had_is_an_error_with_a_way_out() {
    let place = Place::new();
    let mut costof = place.costof("run --only null --quick");
    let ended = run(costof.env("COSTOF_LOCK_FOLDER", "/nowhere")).expect_code(3);
    assert_contains_all(&ended.err, &["/nowhere/costof-", "COSTOF_LOCK_FOLDER"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn who_waits_can_be_interrupted() {
    let place = Place::new();
    let first = holding(&place);
    let (second, _) = waiting(&place);
    interrupt(second);
    interrupt(first);
    place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn hosts_that_are_one_machine_take_turns_and_have_a_file_each() {
    let place = Place::new();
    let other = format!("exec:{} worker", misbehaving());
    // It lasts longer than the end of another run's worker is waited for.
    let line = format!("run test.good test.slow --no-wait --out runs --on local --on '{other}'");
    let done = place.run_misbehaving(&line).expect_code(0);
    place.expect_nothing_runs();
    // They did not even wait for each other's lock.
    assert!(!done.err.contains("is being measured"), "{}", done.err);
    let mut files: Vec<_> =
        std::fs::read_dir(place.path("runs")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let [exec, local] = files.as_slice() else {
        panic!("{files:?}");
    };
    assert!(local.ends_with("local.jsonl"));
    let [local, exec] = [local, exec].map(|file| place.read(file.to_str().unwrap()));
    for run in [&local, &exec] {
        expect_every_launch(run);
        point(run, "test.good");
    }
    assert_eq!(local.run.plan.hosts.on.as_deref(), Some("local"));
    assert_eq!(exec.run.plan.hosts.on.as_ref(), Some(&other));
    assert_contains_all(&done.out, &["local:", "exec:"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_of_the_same_command_that_is_slow_to_end_is_waited_for() {
    let place = Place::new();
    // Its input closes late, as behind a network, and nothing else ends it.
    // It is late by far less than it is waited for, since a busy machine adds to it.
    let late =
        |seconds| format!("exec:setsid sh -c 'cat; sleep {seconds}' | setsid {COSTOF} worker");
    let mut costof = place.costof("run --only null --quick --no-wait --out runs --on");
    costof.args([&late("0.2"), "--on", &late("0.3")]);
    let done = run(&mut costof).expect_code(0);
    assert!(!done.err.contains("is being measured"), "{}", done.err);
    assert_eq!(std::fs::read_dir(place.path("runs")).unwrap().count(), 2);
    place.expect_nothing_runs();
}

#[test]
fn a_host_that_is_not_there_costs_its_own_run_only() {
    let place = Place::new();
    let line = "run --only null --quick --out runs --on exec:false --on local";
    let ended = place.run(line).expect_code(3);
    assert_contains(&ended.err, "exec:false");
    expect_complete(&place.read("runs/local.jsonl"));
}

//! A run that is interrupted keeps what it measured and says how to go on; a
//! controller that is killed leaves nothing running.

use crate::common::{
    Place, assert_contains, ended, expect_complete, point, read, run, signal, spawn, wait_for,
};
use costof_model::run_file::Run;
use rustix::process::Signal;
use std::process::Child;

/// A run of the good probe and one that hangs after it.
fn hanging(place: &Place, probe: &str, set: &str) -> Child {
    let usual = "run test.good --quick --seed 1 --timeout 600 --out run.jsonl --set";
    let mut all: Vec<&str> = usual.split(' ').collect();
    all.extend([set, probe]);
    let controller = spawn(&mut place.misbehaving(&all));
    wait_for("the probe to hang", || place.path("hanging").exists());
    controller
}

/// How many launches of a probe a file holds.
fn launches_of(run: &Run, probe: &str) -> usize {
    let launches = run.launches.iter();
    launches
        .filter(|launch| launch.points.iter().any(|given| given.point.probe == probe))
        .count()
}

#[test]
fn what_was_measured_is_kept_and_shown_and_the_way_on_is_told() {
    for interrupt in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let controller = hanging(&place, "test.hang", "how=once");
        signal(&controller, interrupt);
        let ended = ended(controller).expect_code(130);
        place.expect_nothing_runs();
        assert_contains(&ended.out, "test.good");
        assert_contains(&ended.err, "costof run --resume run.jsonl");

        let kept = read(&place.path("run.jsonl"));
        assert!(launches_of(&kept, "test.good") >= 3);
        assert!(kept.end.is_none() && kept.failures.is_empty());
        // Whoever reads it later is told too.
        let csv = "report run.jsonl --markdown";
        let shown = run(&mut place.misbehaving(csv)).expect_code(0);
        assert_contains(&shown.out, "test.good");

        run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(0);
        let whole = read(&place.path("run.jsonl"));
        expect_complete(&whole);
        assert_eq!(whole.attempts.len(), 2);
        assert_eq!(point(&whole, "test.good").launches, 6);
        assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
    }
}

#[test]
fn an_interrupt_before_anything_is_measured_is_one_too() {
    let place = Place::new();
    let controller = spawn(&mut place.misbehaving("run test.slow --out run.jsonl"));
    // The first worker, which describes the machine.
    wait_for("a worker", || {
        place
            .running()
            .iter()
            .any(|process| process.command.contains(" worker"))
    });
    signal(&controller, Signal::INT);
    let ended = ended(controller).expect_code(130);
    assert_contains(&ended.err, "interrupted");
    place.expect_nothing_runs();
}

#[test]
fn a_killed_controller_leaves_nothing_running() {
    for (probe, set) in [
        ("test.hang", "how=sleep"),
        ("test.hang", "how=spin"),
        // A stopped process hears no signal but the kernel's own.
        ("test.hang", "how=stop"),
        ("test.leaves_child", "end=hang"),
    ] {
        let place = Place::new();
        let controller = hanging(&place, probe, set);
        // With the reader of the worker's commands.
        assert!(place.running().len() >= 3, "{:?}", place.running());
        signal(&controller, Signal::KILL);
        assert_eq!(ended(controller).code, None);
        place.expect_nothing_runs();
        // The good probe was measured before.
        assert!(launches_of(&read(&place.path("run.jsonl")), "test.good") >= 3);
    }
}

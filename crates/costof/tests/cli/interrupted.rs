//! A run that is interrupted keeps what it measured and says how to go on; a
//! controller that is killed leaves nothing running.

use crate::common::{
    Place, assert_contains, ended, expect_complete, interrupt, launches_of, or_skip,
    planned_launches, signal, spawn, wait_for, within,
};
use crate::limits::{ControlGroup, Limit};
use rustix::process::Signal;
use std::fs;
use std::io::{PipeReader, Write};
use std::process::{Child, Command, Stdio};

/// A run of the good probe and one that hangs after it.
fn hanging(place: &Place, probe: &str) -> Child {
    let line = format!("run test.good {probe} --quick --seed 1 --timeout 600 --out run.jsonl");
    place.hanging(&mut place.misbehaving(&line))
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_was_measured_is_kept_and_shown_and_the_way_on_is_told() {
    for interrupt in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let controller = hanging(&place, "test.hang --set how=once");
        signal(&controller, interrupt);
        let ended = ended(controller).expect_code(130);
        place.expect_nothing_runs();
        assert_contains(&ended.out, "test.good");
        assert_contains(&ended.err, "costof run --resume run.jsonl");

        let kept = place.run_file();
        assert!(launches_of(&kept, "test.good") >= 3);
        assert!(kept.end.is_none() && kept.failures.is_empty());
        // Whoever reads it later is told too.
        let shown = place.run_misbehaving("report run.jsonl --markdown");
        assert_contains(&shown.expect_code(0).out, "test.good");

        place.run_misbehaving("run --resume run.jsonl").expect_code(0);
        let whole = place.run_file();
        expect_complete(&whole);
        assert_eq!(whole.attempts.len(), 2);
        assert!(launches_of(&whole, "test.good") >= planned_launches(&whole, "test.good"));
        assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
    }
}

/// A control group whose processes do not even end when they are killed, as one that waits for a device.
struct Frozen(ControlGroup);

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.write("freezer.state", "THAWED");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_the_holder_of_a_link_that_cannot_end() {
    let limit = Limit {
        controller: "freezer",
        v1: ("freezer.state", "THAWED"),
        // Its frozen processes can be killed.
        v2: ("", ""),
    };
    for interrupt in [Signal::INT, Signal::TERM] {
        let frozen = Frozen(or_skip!(ControlGroup::new("frozen", &limit)));
        let place = Place::new();
        let line =
            "run --only net.rtt --set size=56B --link veth --launches 500 --seed 1 --out run.jsonl";
        let controller = spawn(&mut place.costof(line));
        let holder = || {
            let mut running = place.running().into_iter();
            running.find(|process| process.command.contains(" hold veth"))
        };
        wait_for("the holder of the link", || holder().is_some());
        let pid = holder().unwrap().pid.as_raw_nonzero();
        frozen.0.write("tasks", &pid.to_string());
        frozen.0.write("freezer.state", "FROZEN");
        signal(&controller, interrupt);
        ended(controller).expect_code(130);
        assert!(std::fs::exists(format!("/proc/{pid}/stat")).unwrap());
    }
}

#[test]
fn an_interrupt_before_anything_is_measured_is_one_too() {
    let place = Place::new();
    let controller = spawn(&mut place.misbehaving("run test.slow --out run.jsonl"));
    // The first worker, which describes the machine.
    wait_for("a worker", || {
        let mut running = place.running().into_iter();
        running.any(|process| process.command.contains(" worker"))
    });
    assert_contains(&interrupt(controller).err, "interrupted");
    place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_killed_controller_leaves_nothing_running() {
    for probe in [
        "test.hang --set how=sleep",
        "test.hang --set how=spin",
        // A stopped process hears no signal but the kernel's own.
        "test.hang --set how=stop",
        "test.leaves_child --set end=hang",
    ] {
        let place = Place::new();
        let controller = hanging(&place, probe);
        // With the reader of the worker's commands.
        assert!(place.running().len() >= 3, "{:?}", place.running());
        signal(&controller, Signal::KILL);
        assert_eq!(ended(controller).code, None);
        place.expect_nothing_runs();
        // The good probe was measured before.
        assert!(launches_of(&place.run_file(), "test.good") >= 3);
    }
}

/// The end of a pipe that takes nothing more, as a stopped pager leaves it, and its reader, which must last.
fn full_pipe() -> (PipeReader, Stdio) {
    /// pipe(7).
    const CAPACITY: usize = 1 << 16;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&vec![b'\n'; CAPACITY]).unwrap();
    (reader, writer.into())
}

/// The exit code of a child, whose output nobody reads.
fn code(mut child: Child) -> Option<i32> {
    let mut status = None;
    wait_for("costof to end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn who_does_not_read_the_output_keeps_neither_the_machine_nor_the_signals() {
    for sent in [Signal::INT, Signal::TERM, Signal::HUP] {
        for is_stdout in [true, false] {
            let place = Place::new();
            let (_reader, blocked) = full_pipe();
            let mut command = place.misbehaving("run test.good --quick --out run.jsonl");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let controller = if is_stdout {
                command.stdout(blocked).spawn()
            } else {
                command.stderr(blocked).spawn()
            };
            drop(command);
            let controller = controller.unwrap();
            let text = || fs::read_to_string(place.path("run.jsonl")).unwrap_or_default();
            wait_for("the run's end", || text().contains("\"type\":\"end\""));
            // The machine is free, and costof waits for nothing but its reader.
            wait_for("the workers to end", || place.running().len() == 1);
            let other = "run test.good --quick --no-wait --out other.jsonl";
            place.run_misbehaving(other).expect_code(0);
            signal(&controller, sent);
            assert_eq!(code(controller), Some(130), "{sent:?} {is_stdout}");
        }
    }
}

#[test]
fn under_nohup_a_run_outlasts_its_terminal() {
    let place = Place::new();
    let line = "run test.good --quick --launches 3 --out run.jsonl";
    let controller = spawn(&mut within(&["nohup"], &place.misbehaving(line)));
    wait_for("the run to begin", || place.path("run.jsonl").exists());
    signal(&controller, Signal::HUP);
    ended(controller).expect_code(0);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_second_signal_ends_a_run_that_shows_what_it_has_to_nobody() {
    let place = Place::new();
    let (_reader, blocked) = full_pipe();
    let line = "run test.good test.hang --set how=sleep --quick --timeout 600 --out run.jsonl";
    let mut command: Command = place.misbehaving(line);
    let controller =
        command.stdin(Stdio::null()).stdout(blocked).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    wait_for("the probe to hang", || place.path("hanging").exists());
    signal(&controller, Signal::TERM);
    wait_for("the workers to end", || place.running().len() == 1);
    signal(&controller, Signal::TERM);
    assert_eq!(code(controller), Some(130));
    assert!(launches_of(&place.run_file(), "test.good") >= 3);
}

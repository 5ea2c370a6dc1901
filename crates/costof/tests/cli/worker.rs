//! A worker as its controller meets it: through its input and output.

use crate::common::{Place, READER, status_of, wait_for};
use costof_model::protocol::{Answer, Command, CpuLook, Launch, Look, Offers};
use costof_os::sched::affinity;
use rustix::process::{Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A worker that was started by hand.
struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(place: &Place, line: &str) -> Worker {
        let mut command = place.costof(line);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        let mut worker = Worker {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        assert!(matches!(worker.answer(), Answer::Hello { .. }));
        worker
    }

    fn send(&mut self, command: &Command) {
        let line = serde_json::to_string(command).unwrap();
        writeln!(self.input, "{line}").unwrap();
    }

    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, command: &Command) -> Answer {
        self.send(command);
        self.answer()
    }

    /// Begins a launch of one point at its defaults.
    fn open(&mut self, probe: &str) {
        let Answer::Description(description) = self.ask(&Command::Describe) else {
            panic!("no description");
        };
        let launch = serde_json::json!({
            "role": "only",
            "points": [{ "probe": probe, "axes": {}, "link": "none" }],
            "cpus": [],
            "seed": 1,
            "point_time_ns": 1_000_000,
            "rounds": 1,
            "clock": description.clock,
        });
        let launch: Launch = serde_json::from_value(launch).unwrap();
        assert_eq!(self.ask(&Command::Open(Box::new(launch))), Answer::Opened);
    }
}

#[test]
fn a_worker_says_what_others_use() {
    let place = Place::new();
    let answer = Worker::start(&place, "worker").ask(&Command::Watch);
    let Answer::Watched { contention: Some(seen) } = answer else {
        panic!("{answer:?}");
    };
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    assert!(seen.cpus > 0 && is_share(seen.others) && is_share(seen.steal), "{seen:?}");
}

#[test]
fn a_worker_says_which_cpus_are_alone() {
    let place = Place::new();
    let cpus = affinity::allowed().unwrap();
    let look = Command::Look(Look { cpus: cpus.clone(), enough: cpus.len(), floor: 0.25 });
    let Answer::Looked { cpus: looks } = Worker::start(&place, "worker").ask(&look) else {
        panic!("no looks");
    };
    assert_eq!(looks.iter().map(|look| look.cpu).collect::<Vec<_>>(), cpus);
    assert!(looks.iter().all(CpuLook::is_possible), "{looks:?}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_measures_with_one_thread() {
    for line in ["worker --end-with-parent", "worker"] {
        let place = Place::new();
        let mut worker = Worker::start(&place, line);
        worker.open("harness.null");
        let expect_one = |when: &str| {
            let mut measuring = place.running();
            measuring.retain(|process| process.command.ends_with("--end-with-parent "));
            let [measuring] = &measuring[..] else {
                panic!("{when}: {measuring:?}");
            };
            assert_eq!(status_of(measuring.id(), "Threads"), Some(1), "{when}");
        };
        expect_one("when it is open");
        let prepare = Command::Prepare { point: 0, offers: Offers::new() };
        assert!(matches!(worker.ask(&prepare), Answer::Prepared { .. }));
        assert_eq!(worker.ask(&Command::Run), Answer::Ran);
        expect_one("when it has measured");
        assert!(matches!(worker.ask(&Command::Close), Answer::Closed { .. }));
        worker.process.wait().unwrap();
        place.expect_nothing_runs();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_without_its_reader_ends_and_so_does_one_without_input() {
    for closes in [false, true] {
        let place = Place::new();
        let mut worker = Worker::start(&place, "worker");
        worker.open("harness.null");
        let mut readers = place.running();
        readers.retain(|process| process.command == READER);
        assert_eq!(readers.len(), 1, "{readers:?}");
        if closes {
            drop(worker.input);
        } else {
            kill_process(readers[0].pid, Signal::KILL).unwrap();
        }
        wait_for("the worker to end", || worker.process.try_wait().unwrap().is_some());
        place.expect_nothing_runs();
    }
}

#[test]
fn a_stop_is_no_command_to_answer_and_long_lines_arrive_whole() {
    let place = Place::new();
    let mut worker = Worker::start(&place, "worker");
    worker.send(&Command::Stop);
    let long = "x".repeat(1 << 20);
    writeln!(worker.input, r#"{{"do":"none","x":"{long}"}}"#).unwrap();
    assert!(matches!(worker.answer(), Answer::Failed(failure)
        if failure.reason.contains("unknown variant `none`")));
    worker.open("harness.null");
    drop(worker.input);
    worker.process.wait().unwrap();
    place.expect_nothing_runs();
}

//! A whole costof with probes that misbehave: what the tests in `tests/cli` run.
//! It is no user's program. `COSTOF_TEST_FOLDER` names a folder for what a
//! probe must remember from one launch to the next.

use costof_measure::meter::Meter;
use costof_measure::probe::{Info, Probe, Role, StartRole};
use costof_model::alias::Alias;
use costof_model::axis::{Axis, Choice, Domain};
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_model::{List, Text};
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::LazyLock;
use std::time::Duration;

fn main() -> ExitCode {
    costof::main(TABLE)
}

/// The table, of probes by their ids, axes, what comes before them, roles, and the names that they had.
macro_rules! table {
    ($($id:expr, $axes:expr, $after:expr, $roles:expr $(, $aliases:expr)?;)*) => {
        static TABLE: &[&Probe] = &[$({
            const STARTS_HERE: &[StartRole] = $roles;
            static PROBE: Probe = Probe {
            info: Info::Lazy(LazyLock::new(|| ProbeInfo {
                id: Text::Borrowed($id),
                method: 1,
                question: Text::Borrowed("What becomes of a run when a probe does this?"),
                axes: List::Borrowed($axes),
                crossings: List::Borrowed(&[]),
                metrics: List::Borrowed(COST),
                how: Text::Borrowed("By misbehaving."),
                sources: List::Borrowed(&[Text::Borrowed("DESIGN.md, section 3")]),
                predicted_from: Text::Borrowed("nothing"),
                after: List::Borrowed($after),
                needs: List::Borrowed(&[]),
                relations: List::Borrowed(&[]),
                roles: List::Borrowed(ROLES.split_at(STARTS_HERE.len()).0),
                aliases: List::Borrowed([&[] as &[Alias], $($aliases)?].concat().leak()),
            })),
            rounds: 1,
            blocks_by: &["why"],
            is_of_one_cpu: false,
            least_ns: |_| 0.0,
            memory_bytes: |_| 0,
            disk_bytes: |_| 0,
            processors: |_| 1,
            headlines: |_| Vec::new(),
            more_points: |_| Vec::new(),
            can_exist: |_, _| true,
            budget: None,
            predict: |_, _, _| None,
            roles: STARTS_HERE,
            own: None,
            derive: of_the_last,
            };
            &PROBE
        }),*];
    };
}

table! {
    "test.good", &[], &[], &[|_| only(good)];
    "test.error", &[], &[], &[|_| only(error)];
    "test.escapes", &[], &[], &[|_| only(escapes)];
    "test.crash", CRASHES, &[], &[|_| only(crash)];
    "test.crash_once", &[], &[], &[|_| only(crash_once)];
    "test.panic", &[], &[], &[|_| only(panic)];
    "test.hang", HANGS, AFTER_GOOD, &[|_| only(hang)];
    "test.memory", &[], &[], &[|_| only(memory)];
    "test.rubbish", OUTPUTS, &[], &[|_| only(rubbish)];
    "test.leaves_child", ENDS, AFTER_GOOD, &[|_| only(leaves_child)];
    "test.unsupported", &[], &[], &[|_| Ok(Box::new(Unsupported))];
    "test.no_start", STARTS, &[], &[no_start];
    "test.slow", &[], &[], &[|_| only(slow)];
    "test.removed_loop", REMOVED, &[], &[|_| only(removed_loop)];
    "test.planted", &[], &[], &[|_| only(planted)];
    "test.named", NAMED, &[], &[|_| only(good)], NAMED_BEFORE;
    "test.two_ends", &[], &[], &[|_| only(good), |_| only(slow)];
}

/// Measured when the good probe is complete.
const AFTER_GOOD: &[Text] = &[Text::Borrowed("test.good")];

/// An axis of words, the first of which is the default.
macro_rules! axis {
    ($name:literal, $($word:literal),+) => {
        Axis {
            name: Text::Borrowed($name),
            about: Text::Borrowed("which fault"),
            domain: Domain::Choice(List::Borrowed(const { &[$(word($word)),+] })),
        }
    };
}

const NAMED: &[Axis] = &[axis!("colour", "red", "blue"), axis!("shade", "plain", "dark")];
const fn alias(was: &'static str, is: &'static str) -> Alias {
    Alias { was: Text::Borrowed(was), is: Text::Borrowed(is), method: None }
}

/// It was another probe, which called its axis and one value otherwise, and then had another name for blue.
const NAMED_BEFORE: &[Alias] = &[
    alias("test.tinted(tint=azure)", "test.named(colour=blue)"),
    alias("test.tinted(tint=*)", "test.named(colour=*)"),
    alias("test.named(colour=navy)", "test.named(colour=blue)"),
];
const CRASHES: &[Axis] = &[axis!("by", "segv", "abort", "kill", "no")];
const HANGS: &[Axis] = &[axis!("how", "sleep", "spin", "stop", "once")];
const OUTPUTS: &[Axis] = &[axis!("to", "prints", "protocol")];
const ENDS: &[Axis] = &[axis!("end", "well", "crash", "hang")];
const STARTS: &[Axis] =
    &[axis!("why", "unsupported", "exit"), axis!("point", "first", "second", "third")];
const REMOVED: &[Axis] = &[axis!("time", "none", "constant", "crash_once")];

fn good(_: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    meter.repeatable("cost", |n| {
        for i in 0..n {
            black_box(i);
        }
    });
    Ok(())
}

fn error(_: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
    Err(Failure::error("the answer was 41 and not 42"))
}

/// Fails by what would rule a terminal and fill a disk.
fn escapes(_: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
    let long = "x".repeat(1 << 20);
    Err(Failure::error(format!("\x1b[2J\u{9b}31m\r{long}")))
}

fn crash(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    match point.axes.word("by") {
        // Rust's own handler takes the first.
        "segv" => [Signal::SEGV; 2].map(signal_myself)[0],
        "kill" => signal_myself(Signal::KILL),
        "abort" => std::process::abort(),
        _ => {}
    }
    good(point, meter)
}

fn crash_once(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    crash_the_first_time();
    good(point, meter)
}

fn crash_the_first_time() {
    let marker = remembered("crashed");
    if !marker.exists() {
        fs::write(marker, "").expect("the test's folder is writable");
        std::process::abort();
    }
}

fn panic(_: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
    panic!("the invariant of this test does not hold")
}

fn hang(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let how = point.axes.word("how");
    if how == "once" && remembered("hanging").exists() {
        return good(point, meter);
    }
    say_that_i_hang();
    loop {
        match how {
            "spin" => std::hint::spin_loop(),
            "stop" => signal_myself(Signal::STOP),
            _ => std::thread::sleep(Duration::from_secs(1000)),
        }
    }
}

fn say_that_i_hang() {
    fs::write(remembered("hanging"), "").expect("the test's folder is writable");
}

/// Takes memory until there is no more: of a bounded part of the machine's.
fn memory(_: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
    let limit = Rlimit { current: Some(512 << 20), maximum: Some(512 << 20) };
    setrlimit(Resource::As, limit).expect("a limit can be lowered");
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        taken.push(black_box(vec![1; 16 << 20]));
    }
}

fn rubbish(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    for _ in 0..10_000 {
        stray_prints();
    }
    if point.axes.word("to") == "protocol" {
        write_to_every_pipe();
    }
    good(point, meter)
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "that is the fault")]
fn stray_prints() {
    println!("{{\"is\":\"ran\"}} says standard output");
    eprintln!("{{\"is\":\"ran\"}} says standard error");
}

/// Finds the worker's private output, as only ill will can.
fn write_to_every_pipe() {
    let own = fs::read_dir("/proc/self/fd").expect("a process has descriptors");
    for descriptor in own.flatten().map(|entry| entry.path()) {
        let is_standard = ["0", "1", "2"].iter().any(|name| descriptor.ends_with(name));
        let is_pipe =
            fs::read_link(&descriptor).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
        if is_pipe && !is_standard {
            let mut pipe = OpenOptions::new()
                .write(true)
                .open(&descriptor)
                .expect("a pipe can be opened again");
            pipe.write_all(b"nonsense\x1b[31m\n").expect("the controller reads");
        }
    }
}

#[expect(clippy::zombie_processes, reason = "that is the fault")]
fn leaves_child(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    // It inherits the worker's input and standard error.
    Command::new("sleep").arg("1000").spawn().expect("there is a sleep");
    match point.axes.word("end") {
        "crash" => std::process::abort(),
        "hang" => {
            say_that_i_hang();
            std::thread::sleep(Duration::from_secs(1000));
            Ok(())
        }
        _ => good(point, meter),
    }
}

struct Unsupported;

impl Role for Unsupported {
    fn prepare(&mut self, _: &Point, _: &Offers) -> Result<Offers, Failure> {
        Err(Failure::unsupported("this machine has no such thing (buy one)"))
    }

    fn run(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        unreachable!("what could not be prepared does not run")
    }
}

/// Fails before any of its points is prepared.
fn no_start(launch: &costof_model::protocol::Launch) -> Result<Box<dyn Role>, Failure> {
    if launch.points[0].axes.word("why") == "exit" {
        std::process::exit(9);
    }
    Err(Failure::unsupported("this machine has no such room (build one)"))
}

fn slow(_: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    meter.repeatable("cost", |n| std::thread::sleep(Duration::from_millis(20) * n as u32));
    Ok(())
}

/// Work that is not there: its time does not grow with `n`.
fn removed_loop(point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    if point.axes.word("time") == "crash_once" {
        crash_the_first_time();
    }
    let clock = meter.clock();
    let time_ns = if point.axes.word("time") == "none" {
        0.0
    } else {
        // Long enough for any clock to tell, and to be preempted within: what
        // comes late after it is a small part.
        25_000_000.0
    };
    meter.repeatable("cost", |_| spin(clock, time_ns));
    Ok(())
}

/// 100 microseconds, surely.
fn planted(_: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
    let clock = meter.clock();
    meter.repeatable("cost", |n| {
        for _ in 0..n {
            spin(clock, 100_000.0);
        }
    });
    Ok(())
}

fn of_the_last(_: &Point, mut reports: Vec<Report>) -> Report {
    reports.pop().expect("a role")
}

fn spin(clock: &dyn costof_measure::clock::Clock, time_ns: f64) {
    let start = clock.start();
    while clock.ns(clock.end().saturating_sub(start)) < time_ns {
        std::hint::spin_loop();
    }
}

/// A role that has nothing to set up.
struct Only(fn(&Point, &mut Meter<'_>) -> Result<(), Failure>);

impl Role for Only {
    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        (self.0)(point, meter)
    }
}

fn only(run: fn(&Point, &mut Meter<'_>) -> Result<(), Failure>) -> Result<Box<dyn Role>, Failure> {
    Ok(Box::new(Only(run)))
}

fn signal_myself(signal: Signal) {
    kill_process(getpid(), signal).expect("a process may signal itself");
}

/// A file that outlives the launch.
fn remembered(name: &str) -> std::path::PathBuf {
    let folder = std::env::var_os("COSTOF_TEST_FOLDER").expect("tests set COSTOF_TEST_FOLDER");
    Path::new(&folder).join(name)
}

/// Two of them do not talk to each other, so that any link will do.
const ROLES: &[Text] = &[Text::Borrowed("only"), Text::Borrowed("leading")];

const COST: &[MetricInfo] = &[MetricInfo {
    name: Text::Borrowed("cost"),
    unit: Unit::Nanoseconds,
    better: Better::Lower,
    about: Text::Borrowed("one operation"),
}];

const fn word(value: &'static str) -> Choice {
    Choice { value: Text::Borrowed(value), about: Text::Borrowed("as it says") }
}

//! The controller's end of the protocol against workers that do not keep it:
//! shell scripts. Each is reported with its fault, and nothing of it is left running.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use costof_lab::host::WorkerCommand;
use costof_lab::launch::{self, Lost, Outcome, Place, Setting};
use costof_lab::worker::Worker;
use costof_model::axis::Axes;
use costof_model::failure::{Failure, FailureKind};
use costof_model::link_end::LinkEnd;
use costof_model::noise::Noise;
use costof_model::point::Point;
use costof_model::protocol::{Answer, Command, Launch, Offers, PROTOCOL, Report};
use costof_model::rows::State;
use costof_model::testing::launch_message;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough for a script to say what it has to say.
const LONG: Duration = Duration::from_secs(60);
/// For workers that never answer.
const SHORT: Duration = Duration::from_millis(300);

/// A line of JSON in a shell script's quotes.
fn says(answer: &Answer) -> String {
    format!("echo '{}'", serde_json::to_string(answer).unwrap())
}

fn hello(protocol: u32) -> String {
    let costof = "9.9".to_owned();
    says(&Answer::Hello { protocol, costof })
}

/// A shell that does all of this, one after the other.
fn shell(steps: &[&str]) -> WorkerCommand {
    WorkerCommand::new("sh", &["-c", &steps.join("\n")])
}

/// Why such a worker cannot be started.
#[track_caller]
fn refused(steps: &[&str], limit: Duration) -> Failure {
    match Worker::start(&Place::LOCAL, &shell(steps), limit, &AtomicBool::new(false)) {
        Err(Lost::Failed(_, failure)) => failure,
        other => panic!("not refused: {other:?}"),
    }
}

/// Why such a worker, once it has introduced itself, does not describe itself.
#[track_caller]
fn no_description(steps: &[&str], limit: Duration) -> Failure {
    let going = AtomicBool::new(false);
    let hello = hello(PROTOCOL);
    let steps = [&[&*hello, "read command"], steps].concat();
    let mut worker = Worker::start(&Place::LOCAL, &shell(&steps), LONG, &going).unwrap();
    match worker.ask(&Command::Describe, limit, &going) {
        Err(Lost::Failed(_, failure)) => failure,
        other => panic!("there is an answer: {other:?}"),
    }
}

#[track_caller]
fn expect(failure: &Failure, kind: FailureKind, named: &[&str]) {
    assert_eq!(failure.kind, kind, "{failure}");
    for name in named {
        assert!(failure.reason.contains(name), "`{name}` is missing in: {failure}");
    }
}

/// Such a worker, once it has introduced itself, is gone when it is asked; the reason names these.
#[track_caller]
fn crashes(steps: &[&str], named: &[&str]) {
    expect(&no_description(steps, LONG), FailureKind::Crashed, named);
}

/// So many seconds to sleep that no other process's command line has them.
fn lasting(test: u32) -> String {
    format!("1000.{test}{:07}", std::process::id())
}

/// How many processes run whose command line contains this word.
fn running(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let command = |process: &Path| fs::read(process.join("cmdline")).unwrap_or_default();
    processes
        .filter(|entry| String::from_utf8_lossy(&command(&entry.path())).contains(word))
        .count()
}

#[track_caller]
fn expect_none_runs(word: &str) {
    let began = Instant::now();
    while running(word) > 0 {
        assert!(began.elapsed() < LONG, "{word} is still running");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_worker_of_another_protocol_is_refused() {
    let lasting = lasting(1);
    let failure = refused(&[&hello(PROTOCOL + 1), &format!("sleep {lasting}")], LONG);
    let other = "costof 9.9) speaks protocol 2";
    let own = [env!("CARGO_PKG_VERSION"), "protocol 1", "same release"];
    expect(&failure, FailureKind::Error, &[&[other], &own[..]].concat());
    expect_none_runs(&lasting);
}

#[test]
fn a_banner_before_the_introduction_is_quoted() {
    let banner = "echo 'Last login: \u{7}Tue'";
    let failure = refused(&[banner, &hello(PROTOCOL), "read all"], LONG);
    let quoted = ["first line", "`Last login: \u{fffd}Tue`"];
    let why = ["not a message", "print nothing"];
    expect(&failure, FailureKind::Error, &[quoted, why].concat());
}

#[test]
fn a_worker_that_answers_before_it_introduces_itself_is_refused() {
    let failure = refused(&[&says(&Answer::Ran), "read all"], LONG);
    expect(&failure, FailureKind::Error, &["`ran`", "introduce itself"]);
    // Only ssh's machines are offered a copy of costof.
    let absent = Answer::Absent { machine: "x86_64".to_owned() };
    let failure = refused(&[&says(&absent), "read all"], LONG);
    expect(&failure, FailureKind::Error, &["not offered"]);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let command = WorkerCommand::new("/nowhere/costof", &["worker"]);
    match Worker::start(&Place::LOCAL, &command, LONG, &AtomicBool::new(false)) {
        Err(Lost::Failed(_, failure)) => {
            let named = ["/nowhere/costof", "No such file"];
            expect(&failure, FailureKind::Error, &named);
        }
        other => panic!("started: {other:?}"),
    }
}

#[test]
fn a_line_without_end_is_cut_off() {
    let lasting = lasting(2);
    let endless = format!("tr '\\0' x < /dev/zero | head -c 100000000; sleep {lasting}");
    let failure = no_description(&[&endless], LONG);
    let named = ["malformed message", "`xxxxxxxx"];
    expect(&failure, FailureKind::Error, &named);
    assert!(failure.reason.len() < 300, "{}", failure.reason.len());
    expect_none_runs(&lasting);
}

#[test]
fn an_answer_that_its_worker_did_not_live_to_finish_is_a_crash() {
    crashes(&["printf '{\"is\":\"ra'", "kill -SEGV $$"], &["SIGSEGV"]);
}

#[test]
fn an_end_is_reported_with_its_exit_code_or_signal_and_its_last_words() {
    let last_words = ["exit code 7", "no room left"];
    crashes(&["echo 'no room left' >&2", "exit 7"], &last_words);
    for (signal, name) in [("KILL", "SIGKILL"), ("ABRT", "SIGABRT"), ("FPE", "SIGFPE")] {
        crashes(&[&format!("kill -{signal} $$")], &[name]);
    }
}

#[test]
fn standard_error_is_drained_and_its_end_is_kept() {
    let much = "head -c 10000000 /dev/zero | tr '\\0' '\\n' >&2";
    let steps = [much, "echo 'the end' >&2", "exit 1"];
    crashes(&steps, &["the end"]);
}

#[test]
fn a_worker_that_closes_its_output_and_lives_on_is_ended() {
    let lasting = lasting(3);
    crashes(&[&format!("exec sleep {lasting} >&-")], &["closed its output"]);
    expect_none_runs(&lasting);
}

#[test]
fn a_worker_that_says_nothing_is_ended_in_time() {
    let lasting = lasting(4);
    let sleeps = format!("exec sleep {lasting}");
    // The shell needs some of it to say this.
    let failure = refused(&["echo I wait >&2", &sleeps], Duration::from_secs(3));
    expect(&failure, FailureKind::TimedOut, &["within 3 s", "I wait"]);
    let failure = no_description(&[&sleeps], SHORT);
    expect(&failure, FailureKind::TimedOut, &["within 0.3 s"]);
    expect_none_runs(&lasting);
}

#[test]
fn a_worker_that_does_not_listen_holds_nobody_up() {
    let going = AtomicBool::new(false);
    let lasting = lasting(5);
    let deaf = shell(&[&hello(PROTOCOL), &format!("exec sleep {lasting}")]);
    let mut worker = Worker::start(&Place::LOCAL, &deaf, LONG, &going).unwrap();
    // More than any pipe holds.
    let long = Command::Open(Box::new(launch(50_000)));
    match worker.ask(&long, SHORT, &going) {
        Err(Lost::Failed(_, failure)) => expect(&failure, FailureKind::TimedOut, &["0.3 s"]),
        other => panic!("there is an answer: {other:?}"),
    }
    expect_none_runs(&lasting);
}

#[test]
fn a_child_that_holds_the_outputs_open_does_not_hide_an_end() {
    let lasting = lasting(6);
    crashes(&[&format!("sleep {lasting} &"), "exit 3"], &["exit code 3"]);
    expect_none_runs(&lasting);
    // One that has left the group cannot be ended, but holds nobody up for ever.
    let steps = ["setsid sleep 3.07 >&- &", "echo bye >&2; exit 3"];
    crashes(&steps, &["exit code 3", "bye"]);
    crashes(&["setsid sleep 3.07 &", "exit 3"], &["exit code 3"]);
}

#[test]
fn an_interrupt_is_heard_while_a_worker_is_silent() {
    let interrupted = AtomicBool::new(false);
    let lasting = lasting(8);
    let silent = shell(&[&hello(PROTOCOL), &format!("sleep {lasting}")]);
    let mut worker = Worker::start(&Place::LOCAL, &silent, LONG, &interrupted).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            interrupted.store(true, Ordering::Relaxed);
        });
        let answer = worker.ask(&Command::Describe, LONG, &interrupted);
        assert!(matches!(answer, Err(Lost::Interrupted)), "{answer:?}");
    });
    drop(worker);
    expect_none_runs(&lasting);
}

/// A launch of so many points.
fn launch(points: usize) -> Launch {
    let point = Point { probe: "test.point".into(), axes: Axes::default(), link: "none".into() };
    launch_message(vec![point; points])
}

/// A launch of one point, whose worker answers this, command by command.
fn launched(answers: &[Answer]) -> Result<Outcome, Lost> {
    let mut steps = vec![hello(PROTOCOL)];
    for answer in answers {
        steps.extend(["read command".to_owned(), says(answer)]);
    }
    steps.push("read command".to_owned());
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let setting = Setting {
        command: &shell(&steps),
        limit: LONG,
        interrupted: &AtomicBool::new(false),
        enough: None,
    };
    launch::run(&[Place::LOCAL], vec![launch(1)], &setting)
}

fn prepared() -> Answer {
    let offers = Offers::new();
    Answer::Prepared { offers }
}

fn closed(points: usize) -> Answer {
    let report = Report { state: State::Ok, metrics: Vec::new(), allocations: 0 };
    Answer::Closed { points: vec![report; points], noise: Box::new(Noise::default()), cpu_ns: 0.0 }
}

#[test]
fn a_launch_goes_well_where_every_answer_is_the_right_one() {
    let outcome = launched(&[Answer::Opened, prepared(), Answer::Ran, closed(1)]).unwrap();
    assert_eq!(outcome.reports.len(), 1);
    assert_eq!(outcome.reports[0].len(), 1);
    assert!(outcome.failures.is_empty());
}

#[test]
fn a_role_tells_of_its_own_end_of_the_link_and_of_no_other() {
    let mut noise = Noise::default();
    for role in ["only", "other"] {
        noise.ends.insert(role.into(), LinkEnd::default());
    }
    let mut closed = closed(1);
    if let Answer::Closed { noise: its, .. } = &mut closed {
        **its = noise;
    }
    let outcome = launched(&[Answer::Opened, prepared(), Answer::Ran, closed]).unwrap();
    let its_own = [("only".into(), LinkEnd::default())];
    assert_eq!(outcome.noise.ends, its_own.into_iter().collect());
}

#[test]
fn a_failure_is_one_of_its_point_and_the_launch_goes_on() {
    let failed = || Answer::Failed(Failure::unsupported("not here"));
    for answers in [
        vec![Answer::Opened, failed(), closed(1)],
        vec![Answer::Opened, prepared(), failed(), closed(1)],
    ] {
        let outcome = launched(&answers).unwrap();
        assert_eq!(outcome.failures, [(0, Failure::unsupported("not here"))]);
    }
    match launched(&[failed()]) {
        // Before the first point: it concerns them all.
        Err(Lost::Failed(None, failure)) => assert_eq!(failure, Failure::unsupported("not here")),
        other => panic!("{other:?}"),
    }
}

/// What a role says when the other has gone is no second failure.
#[test]
fn where_both_roles_fail_the_leading_one_says_why() {
    let says_failed = |reason| says(&Answer::Failed(Failure::error(reason)));
    let steps = [
        &*hello(PROTOCOL),
        "read open",
        &says(&Answer::Opened),
        "read prepare",
        &says(&prepared()),
        "read run",
        "case $open in",
        r#"*'"role":"leader"'*)"#,
        &says_failed("the cause"),
        ";;",
        "*)",
        "read stop",
        &says_failed("nothing came"),
        ";;",
        "esac",
        "read close",
        &says(&closed(1)),
        "read command",
    ];
    let setting = Setting {
        command: &shell(&steps),
        limit: LONG,
        interrupted: &AtomicBool::new(false),
        enough: None,
    };
    let launches = ["other", "leader"].map(|role| Launch { role: role.into(), ..launch(1) });
    let outcome = launch::run(&[Place::LOCAL; 2], launches.into(), &setting).unwrap();
    assert_eq!(outcome.failures, [(0, Failure::error("the cause"))]);
}

#[test]
fn a_right_answer_at_the_wrong_time_loses_the_launch() {
    let opened = |more: &[Answer]| [&[Answer::Opened], more].concat();
    let ran = |last| opened(&[prepared(), Answer::Ran, last]);
    for (answers, at, quoted) in [
        (vec![Answer::Ran], None, "`ran`"),
        (opened(&[Answer::Ran]), Some(0), "`ran`"),
        (opened(&[prepared(), prepared()]), Some(0), "`prepared`"),
        (ran(Answer::Ran), None, "`ran`"),
        // A report too many, and none.
        (ran(closed(2)), None, "`closed`"),
        (ran(closed(0)), None, "`closed`"),
    ] {
        match launched(&answers) {
            Err(Lost::Failed(position, failure)) => {
                assert_eq!(position, at, "{answers:?}");
                let named = [quoted, "as only", "unexpected reply"];
                expect(&failure, FailureKind::Error, &named);
                assert!(failure.reason.len() < 400, "{}", failure.reason);
            }
            other => panic!("{answers:?}: {other:?}"),
        }
    }
}

#[test]
fn a_worker_that_ends_early_loses_the_point_that_was_measured() {
    match launched(&[Answer::Opened, prepared()]) {
        Err(Lost::Failed(Some(0), failure)) => {
            expect(&failure, FailureKind::Crashed, &["exit code 0"]);
        }
        other => panic!("{other:?}"),
    }
}

/// What a worker of one role and one point says, in turn.
fn right_answers() -> [String; 5] {
    let answers = [Answer::Opened, prepared(), Answer::Ran, closed(1)].map(|answer| says(&answer));
    let [opened, prepared, ran, closed] = answers;
    [hello(PROTOCOL), opened, prepared, ran, closed]
}

/// A worker that answers rightly so often, and then does this.
fn turns_hostile(right: usize, fault: &str, limit: Duration) -> Result<Outcome, Lost> {
    let mut steps = Vec::new();
    for answer in &right_answers()[..right] {
        steps.extend([answer.clone(), "read command".to_owned()]);
    }
    steps.extend([fault.to_owned(), "read command".to_owned()]);
    let setting = Setting {
        command: &shell(&steps.iter().map(String::as_str).collect::<Vec<_>>()),
        limit,
        interrupted: &AtomicBool::new(false),
        enough: None,
    };
    launch::run(&[Place::LOCAL], vec![launch(1)], &setting)
}

/// Every message of a worker in turn is a fault of every kind: each loses the launch, says why in few words,
/// and leaves nothing running.
#[test]
#[ignore = "long; ./check --all runs it"]
fn a_worker_that_turns_hostile_at_any_message_costs_its_launch_and_is_named() {
    use FailureKind::{Crashed, Error, TimedOut};
    const FAULTS: [(&str, FailureKind, &str); 7] = [
        ("exec sleep LASTING", TimedOut, "within 5 s"),
        (r"printf '\377\376\033[2J garbage\n'", Error, "garbage"),
        (r#"printf '{"is":"ra'; exit 0"#, Crashed, "exit code 0"),
        (r#"echo '{"is":"prepared","offers":7}'"#, Error, r#"{"is":"prepared","offers":7}"#),
        (r#"echo '{"is":"watched","contention":null}'"#, Error, "watched"),
        ("exec sleep LASTING >&-", Crashed, "closed its output"),
        ("head -c 10000000 /dev/zero | tr '\\0' x; echo", Error, "xxxxxxxx"),
    ];
    let lasting = &*lasting(11);
    std::thread::scope(|scope| {
        for right in 0..right_answers().len() {
            scope.spawn(move || {
                for (fault, kind, says) in FAULTS {
                    let fault = &fault.replace("LASTING", lasting);
                    // Long enough for all that comes before, unless silence is the fault.
                    let limit = match kind {
                        TimedOut => Duration::from_secs(5),
                        _ => LONG,
                    };
                    match turns_hostile(right, fault, limit) {
                        Err(Lost::Failed(_, failure)) => {
                            expect(&failure, kind, &[says]);
                            assert!(failure.reason.len() < 500, "{}", failure.reason);
                            assert!(!failure.reason.contains('\x1b'), "{}", failure.reason);
                        }
                        other => panic!("{fault} after {right} answers: {other:?}"),
                    }
                }
            });
        }
    });
    expect_none_runs(lasting);
}

/// Numbers that nobody can have measured are no result of their point, and say what they are.
#[test]
fn impossible_numbers_are_refused() {
    let closed = |metric: &str, cpu_ns: &str| {
        let points = format!(r#"[{{"state":"ok","metrics":[{{"name":"cost",{metric}}}]}}]"#);
        let noise = serde_json::to_string(&Noise::default()).unwrap();
        format!(r#"echo '{{"is":"closed","points":{points},"noise":{noise},"cpu_ns":{cpu_ns}}}'"#)
    };
    let arrived = |count: u32| {
        let sent = r#""value":1.0},{"name":"datagrams_sent","value":10.0}"#;
        format!(r#"{sent},{{"name":"datagrams_arrived","value":{count}.0"#)
    };
    for (metric, named) in [
        (r#""samples":[[1,-5.0]]"#, "1 operations in -5 ns"),
        (r#""samples":[[0,5.0]]"#, "0 operations"),
        (r#""samples":[[1,0.0]]"#, "1 operations in 0 ns"),
        // Longer than the launch took.
        (r#""samples":[[1,1e15]]"#, "1 operations in"),
        (r#""histogram":[[-1.0,3]]"#, "3 times -1 ns"),
        (r#""histogram":[[1e15,3]]"#, "3 times"),
        (&arrived(161), "161 datagrams"),
    ] {
        let outcome = turns_hostile(4, &closed(metric, "0"), LONG).unwrap();
        let [(0, failure)] = &outcome.failures[..] else {
            panic!("{metric}: {:?}", outcome.failures);
        };
        let named = ["what nobody can have measured: ", named];
        expect(failure, FailureKind::Error, &named);
    }
    for (fault, named) in [
        (closed(r#""value":1e300"#, "0"), "1e300"),
        (closed(r#""samples":[[1,-1e300]]"#, "0"), "-1e300"),
        (closed(r#""value":1.0"#, "1e300"), "1e300"),
        (closed(r#""value":NaN"#, "0"), "malformed message"),
        (closed(r#""value":null"#, "0"), "malformed message"),
        (closed(r#""value":1e999"#, "0"), "malformed message"),
    ] {
        match turns_hostile(4, &fault, LONG) {
            Err(Lost::Failed(_, failure)) => expect(&failure, FailureKind::Error, &[named]),
            other => panic!("{fault}: {other:?}"),
        }
    }
    for metric in [r#""samples":[[1,5.0]]"#, &arrived(160)] {
        let good = turns_hostile(4, &closed(metric, "0"), LONG).unwrap();
        assert!(good.failures.is_empty(), "{:?}", good.failures);
    }
}

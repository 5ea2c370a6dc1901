//! `costof time`: the user's own commands. How long they take is not tested; what is said of them is.

use crate::common::{
    COSTOF, Ended, Place, assert_contains, assert_contains_all, ended, is_installed, or_skip, run,
    signal, spawn, wait_for, within_script,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// `costof time` with these words, run to its end.
fn time(place: &Place, words: &str) -> Ended {
    let ended = place.run(&format!("time {words}"));
    place.expect_nothing_runs();
    ended
}

/// What `--json` says of few runs.
#[track_caller]
fn timed(place: &Place, words: &str) -> Value {
    let ended = time(place, &format!("--json --runs 5 {words}")).expect_code(0);
    serde_json::from_str(&ended.out).unwrap()
}

fn text(value: &Value) -> String {
    value.to_string()
}

#[test]
fn one_command_is_answered_first() {
    let place = Place::new();
    let ended = time(&place, "--runs 5 true").expect_code(0);
    let first = ended.out.lines().next().unwrap();
    assert!(first.starts_with("true takes ") && first.contains("wall time"), "{first}");
    assert_contains_all(&ended.out, &["true: 5 runs", "peak memory", "process start-up"]);
    let markdown = time(&place, "--runs 5 --markdown true").expect_code(0);
    assert_contains(&markdown.out, "| true |");
}

#[test]
fn every_run_is_recorded_with_what_it_used() {
    let place = Place::new();
    let found = timed(&place, "--seed 7 -- sh -c 'head -c 20000000 /dev/zero | tail -c 1'");
    assert_eq!(found["seed"], 7);
    let command = &found["commands"][0];
    assert!(command["shell"].is_null(), "started as it is: {command}");
    let runs = command["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    for run in runs {
        let number = |field: &str| run[field].as_u64().unwrap_or_else(|| panic!("{field}: {run}"));
        assert!(number("user_ns") + number("system_ns") > 0 && number("wall_ns") > 0);
        assert!(number("max_rss_bytes") > 0 && number("minor_faults") > 0);
        assert_eq!(number("exit_code"), 0);
        // It is a pipeline.
        assert_ne!(run["is_one_thread"], true, "{run}");
    }
    let wall = &command["wall_ns"];
    let [low, value, high] = ["low", "value", "high"].map(|end| wall[end].as_f64().unwrap());
    assert!(low <= value && value <= high, "{wall}");
}

#[test]
fn a_command_on_one_cpu_has_its_core_gauged() {
    let place = Place::new();
    let loops = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let found = timed(&place, &format!("'{loops}'"));
    let command = &found["commands"][0];
    assert_eq!(command["shell"], "sh");
    if found["gauge_floor"].is_null() {
        assert_contains(&text(&command["alone_unknown"]), "could be read in 0");
        return;
    }
    for run in command["runs"].as_array().unwrap() {
        // One before, one after.
        assert!(run["core"]["readings"].as_u64() >= Some(2), "{run}");
        if run["is_one_thread"] == true {
            assert_eq!(run["cpus"].as_array().unwrap().len(), 1, "{run}");
        }
    }
    assert!(command["alone_ns"].is_object() != command["alone_unknown"].is_string(), "{command}");
}

#[test]
fn commands_take_turns_and_a_threshold_decides() {
    let place = Place::new();
    let spin = |n: u32| format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done");
    let (few, many) = (spin(2000), spin(60_000));
    let decided = |code, [one, other]: [&str; 2]| {
        let words = format!("-n few -n many --runs 8 --threshold 50% '{one}' '{other}'");
        time(&place, &words).expect_code(code).out
    };
    let worse = decided(1, [&few, &many]);
    let first = worse.lines().next().unwrap();
    assert!(first.starts_with("many takes ") && first.contains("FAIL"), "{first}");
    let better = decided(0, [&many, &few]);
    assert_contains(better.lines().next().unwrap(), "PASS");
    // One run decides nothing, and that may pass.
    let once = "--runs 1 --threshold 0 true true";
    time(&place, once).expect_code(3);
    time(&place, &format!("{once} --undecided pass")).expect_code(0);
}

#[test]
fn parameters_make_commands_and_hyperfines_scripts_read_them() {
    let place = Place::new();
    let words = "-L word a,b -P n 1 2 --runs 3 --export-json out.json 'echo {word} {n}'";
    time(&place, words).expect_code(0);
    let exported: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out.json")).unwrap()).unwrap();
    let results = exported["results"].as_array().unwrap();
    let commands: Vec<&Value> = results.iter().map(|result| &result["command"]).collect();
    assert_eq!(commands, ["echo a 1", "echo a 2", "echo b 1", "echo b 2"]);
    assert_eq!(results[3]["parameters"]["word"], "b");
    assert_eq!(results[0]["times"].as_array().unwrap().len(), 3);
    assert!(results[0]["mean"].as_f64().unwrap() > 0.0);
    for wrong in ["-L x 1,2 true", "-P x 1 a"] {
        time(&place, &format!("{wrong} 'true {{n}}'")).expect_code(2);
    }
}

#[test]
fn what_stands_around_the_runs_is_run_as_often_as_it_should() {
    let place = Place::new();
    let noted = ["setup", "prepare", "conclude", "cleanup"]
        .map(|word| format!("--{word} 'echo {word} >> log'"))
        .join(" ");
    time(&place, &format!("{noted} --warmup 2 --runs 3 --seed 1 'echo run >> log'")).expect_code(0);
    let log = fs::read_to_string(place.path("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines[0], *lines.last().unwrap()), ("setup", "cleanup"));
    let runs = &lines[1..lines.len() - 1];
    assert!(runs.chunks(3).all(|run| run == ["prepare", "run", "conclude"]), "{log}");
    assert_eq!(runs.len(), 3 * (2 + 3), "{log}");

    // Of two, one for each; the end is cleaned up after a failure too.
    let two =
        "--prepare 'echo a > it' --prepare 'echo b > it' --runs 2 'grep -q a it' 'grep -q b it'";
    time(&place, two).expect_code(0);
    let failing = "--cleanup 'touch clean' --prepare 'exit 9' true";
    let ended = time(&place, failing).expect_code(2);
    assert_contains_all(&ended.err, &["--prepare", "exit code 9"]);
    assert!(place.path("clean").exists());
}

#[test]
fn what_was_measured_is_not_lost_to_what_fails_after_it() {
    let place = Place::new();
    let ended = time(&place, "--cleanup 'exit 7' --runs 2 --export out.json true").expect_code(2);
    assert_contains(&ended.out, "2 runs");
    assert_contains(&ended.err, "--cleanup failed");
    assert!(place.path("out.json").exists());
    // What would fail is found before the measurement.
    for (export, says) in
        [("nowhere/out.json", "nowhere/out.json: it is in no folder"), (".", ". is a folder")]
    {
        let ended = time(&place, &format!("--setup 'touch began' --export {export} true"));
        assert_contains(&ended.expect_code(2).err, says);
        assert!(!place.path("began").exists());
    }
}

#[test]
fn what_a_setup_starts_runs_until_the_end() {
    let place = Place::new();
    let setup = "--setup 'sleep 1000 & echo $! > pid'";
    let cleanup = "--cleanup 'kill -0 $(cat pid) && touch ran'";
    time(&place, &format!("{setup} {cleanup} --runs 3 true")).expect_code(0);
    assert!(place.path("ran").exists());
}

#[test]
fn input_and_output_go_where_they_are_told() {
    let place = Place::new();
    fs::write(place.path("in"), "some words\n").unwrap();
    time(&place, "--runs 1 --input in --output ./out cat").expect_code(0);
    assert_eq!(fs::read_to_string(place.path("out")).unwrap(), "some words\n");
    // Without an input there is none to wait for.
    time(&place, "--runs 1 cat").expect_code(0);
    let shown = time(&place, "--runs 1 --warmup 0 --output inherit 'echo shown'");
    let shown = shown.expect_code(0).out;
    assert!(shown.lines().any(|line| line == "shown"), "{shown}");
    // As hyperfine's users write it.
    let same = "--runs 2 -S default --input null --show-output --command-name it 'cat; echo x'";
    let same = time(&place, same);
    assert_contains_all(&same.expect_code(0).out, &["x\n", "it takes ", "2 runs: no interval"]);
    let missing = time(&place, "--input nowhere cat").expect_code(2);
    assert_contains(&missing.err, "nowhere");
    // A pipe would be waited for.
    run(Command::new("mkfifo").arg(place.path("pipe"))).expect_code(0);
    let pipe = time(&place, "--input pipe cat").expect_code(2);
    assert_contains_all(&pipe.err, &["--input pipe", "must be a file"]);
}

#[test]
fn a_commands_own_numbers_are_read_and_compared() {
    let place = Place::new();
    let commands = "'echo noise; echo costof: rate 100 req/s' 'echo costof: rate 50 req/s'";
    let options = "--metric rate --runs 5 --threshold 5";
    let ended = time(&place, &format!("{options} --higher-is-better {commands}")).expect_code(1);
    assert_contains(ended.out.lines().next().unwrap(), "50 % (50) less rate than");
    let found = timed(&place, "--metric-regex 'took=took ([0-9.]+) ms' 'echo it took 12.5 ms'");
    assert_eq!(found["commands"][0]["own"]["took"]["value"], 12.5);
    let lost =
        time(&place, "--runs 2 --metric-regex 'took=took ([0-9.]+) s' 'echo it took 12.5 ms'");
    assert_contains(&lost.expect_code(0).err, "--metric-regex took: it found no number");
    // One that no command prints is an error that names those that are printed.
    let ended = time(&place, &format!("{options} true true"));
    assert_contains_all(&ended.expect_code(2).err, &["`rate`", "wall"]);
}

#[test]
fn commands_that_fail_are_named_with_the_way_out() {
    let place = Place::new();
    for (command, parts) in [
        ("/no/such/program", &["no command", "/no/such/program"][..]),
        ("no-such-program-here", &["no such command", "127"]),
        ("false", &["`false`", "exit code 1", "--ignore-failure"]),
        ("kill -9 $$", &["killed by signal 9"]),
    ] {
        let ended = time(&place, &format!("--runs 3 '{command}'")).expect_code(2);
        assert_contains_all(&ended.err, parts);
        assert_eq!(ended.out, "");
    }
    let ended = time(&place, "--runs 3 -i 'exit 4'").expect_code(0);
    assert_contains(&ended.out, "3 of 3 runs failed (exit code 4)");
    for wrong in [
        "--threshold 5 true",
        "''",
        "-N '\"unclosed'",
        "-n a -n b true",
        "--prepare a --prepare b --prepare c true true",
        "--metric-regex x true",
        "--metric-regex x=(1) --output inherit true",
        "--output Pipe true",
        "-L n 1 -L n 2 'true {n}'",
        "-L n 1 --setup 'true {n}' 'true {n}'",
        "-L n 1 --cleanup 'true {n}' 'true {n}'",
        "--cpu 9999 true",
        "",
    ] {
        let ended = time(&place, wrong);
        assert_eq!(ended.code, Some(2), "{wrong}: {ended:?}");
    }
}

#[test]
fn nothing_is_left_running() {
    let place = Place::new();
    let forks = "sleep 1000 & setsid sleep 1001 & (sleep 1002 &) ; true";
    let ended = time(&place, &format!("--runs 2 '{forks}'")).expect_code(0);
    assert_contains(&ended.out, "processes running");
}

#[test]
fn an_output_without_end_is_thrown_away() {
    let place = Place::new();
    time(&place, "--runs 2 --output pipe 'head -c 300000000 /dev/zero'").expect_code(0);
}

#[test]
fn an_interrupt_ends_a_command_that_does_not_want_to() {
    for interrupt in [Signal::INT, Signal::TERM] {
        let place = Place::new();
        let mut command = place.costof("time --cleanup 'touch clean'");
        command.arg("trap '' INT TERM; touch started; while :; do sleep 0.1; done");
        let costof = spawn(&mut command);
        wait_for("the command to start", || place.path("started").exists());
        signal(&costof, interrupt);
        ended(costof).expect_code(130);
        place.expect_nothing_runs();
        assert!(place.path("clean").exists());
    }
}

#[test]
fn a_second_interrupt_leaves_nothing_running() {
    let place = Place::new();
    let mut command = place.costof("time");
    command.arg("trap '' INT TERM; touch started; sleep 1000; true");
    let costof = spawn(&mut command);
    wait_for("the command to start", || place.path("started").exists());
    // Two of the same kind may become one.
    signal(&costof, Signal::INT);
    signal(&costof, Signal::TERM);
    ended(costof).expect_code(130);
    place.expect_nothing_runs();
}

#[test]
fn only_what_is_not_measured_may_read_the_terminal() {
    or_skip!(is_installed("script").then_some(()).ok_or("script is not installed"));
    let place = Place::new();
    let at_terminal = |options: &str| {
        let mut command = place.command("script -qec");
        command.arg(format!("{COSTOF} time --runs 1 {options}")).arg("/dev/null");
        run(&mut command)
    };
    // `script` passes on the end of its input, once.
    at_terminal("--setup 'head -n 1 /dev/tty' true").expect_code(0);
    let measured = at_terminal("'head -n 1 /dev/tty; true'").expect_code(2);
    assert_contains(&measured.out, "waits for the terminal");
    place.expect_nothing_runs();
}

#[test]
fn a_killed_costof_takes_the_command_with_it() {
    let place = Place::new();
    let costof = spawn(place.costof("time --").args(["sleep", "1000"]));
    let sleeps = || place.running().iter().any(|process| process.command.starts_with("sleep 1000"));
    wait_for("the command to start", sleeps);
    signal(&costof, Signal::KILL);
    ended(costof);
    place.expect_nothing_runs();
}

#[test]
fn a_killed_costof_takes_what_the_command_started_with_it() {
    let place = Place::new();
    let script = "sleep 1000 & (sleep 1001 & sleep 1002; true) & touch started; wait";
    let costof = spawn(place.costof("time --").args(["sh", "-c", script]));
    let sleeping = || {
        let running = place.running();
        running.iter().filter(|process| process.command.starts_with("sleep 100")).count()
    };
    wait_for("three processes of the command", || sleeping() == 3);
    signal(&costof, Signal::KILL);
    ended(costof);
    place.expect_nothing_runs();
}

#[test]
fn without_a_warm_up_the_first_run_counts() {
    let place = Place::new();
    let count = |options: &str| {
        time(&place, &format!("{options} -- sh -c 'echo x >> runs'")).expect_code(0);
        let runs = fs::read_to_string(place.path("runs")).unwrap().lines().count();
        fs::remove_file(place.path("runs")).unwrap();
        runs
    };
    assert_eq!(count("--runs 1 --warmup 0"), 1);
    assert_eq!(count("--runs 3 --warmup 0"), 3);
    assert_eq!(count("--runs 3 --warmup 2"), 5);
}

/// Commands of special kinds have the time alone, or the reason why it is not known.
#[test]
fn every_kind_of_command_has_an_answer_or_a_reason() {
    let place = Place::new();
    let loops = |n: u32| format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done");
    let eight = format!("{}wait", format!("( {} ) & ", loops(3000)).repeat(8));
    for (kind, command, needs_reason) in [
        ("sleeps", "sleep 0.02", false),
        ("forks", "for i in 1 2 3; do true | true; /bin/true; done", false),
        ("eight at once", &eight, false),
        ("short", "true", false),
        ("memory", "dd if=/dev/zero of=/dev/null bs=32M count=2", false),
        ("uses no CPU to speak of", "sleep 0", false),
        ("few runs", "true", true),
    ] {
        let runs = if needs_reason { "2" } else { "5" };
        let ended = time(&place, &format!("--json --runs {runs} '{command}'")).expect_code(0);
        let found: Value = serde_json::from_str(&ended.out).unwrap();
        let command = &found["commands"][0];
        let (alone, why) = (&command["alone_ns"], &command["alone_unknown"]);
        assert!(alone.is_object() != why.is_string(), "{kind}: {command}");
        assert!(!needs_reason || why.is_string(), "{kind}: {command}");
    }
}

#[test]
fn the_start_of_what_is_short_is_measured_in_the_turns() {
    let place = Place::new();
    for (command, needs_shell) in [("true", false), ("true; true", true)] {
        // A busy machine may take long for what is short, but not every time.
        let mut tries =
            (0..10).map(|_| timed(&place, &format!("'{command}'"))["commands"][0].clone());
        let command = tries.find(|command| command["start_ns"].is_object()).expect("a start");
        assert_eq!(command["shell"].is_string(), needs_shell);
        let [low, value, high] =
            ["low", "value", "high"].map(|end| command["start_ns"][end].as_f64());
        assert!(low.is_some() && low <= value && value <= high, "{command}");
    }
    let slow = timed(&place, "'sleep 0.2'");
    assert!(slow["commands"][0]["start_ns"].is_null(), "{slow}");
}

#[test]
fn a_command_that_waits_is_told_what_the_gauge_does_not_say() {
    let place = Place::new();
    let ended = time(&place, "--runs 3 'sleep 0.05'").expect_code(0);
    assert_contains_all(&ended.out, &["waiting (", "the gauge cannot explain"]);
}

#[test]
fn costof_can_time_itself() {
    let place = Place::new();
    time(&place, &format!("--runs 2 -- {COSTOF} run --only --quick cpu.loop")).expect_code(0);
}

#[test]
fn hyperfines_own_export_has_the_same_fields() {
    let place = Place::new();
    let mut hyperfine = Command::new("hyperfine");
    hyperfine.args(["--version"]);
    or_skip!(hyperfine.output().map_err(|error| format!("hyperfine: {error}")));
    let place_command =
        place.command("hyperfine -N --runs 2 --export-json its.json -L n 1,2 'true {n}'");
    run(&mut within_script("exec \"$@\" 2>/dev/null", &place_command)).expect_code(0);
    time(&place, "--runs 2 --export ours.json -L n 1,2 'true {n}'").expect_code(0);
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
    };
    let (its, ours) = (read("its.json"), read("ours.json"));
    for (its, ours) in
        (its["results"].as_array().unwrap().iter()).zip(ours["results"].as_array().unwrap())
    {
        for (field, value) in its.as_object().unwrap() {
            assert_eq!(value.is_number(), ours[field].is_number(), "{field}: {ours}");
            assert_eq!(value.is_array(), ours[field].is_array(), "{field}: {ours}");
            assert_eq!(value.is_object(), ours[field].is_object(), "{field}: {ours}");
        }
        assert_eq!(its["command"], ours["command"]);
    }
}

//! What each command prints, and what it says to a wrong command.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, is_installed, run, skipped,
};
use serde_json::Value;
use std::fs::{self, File};
use std::process::{Command, Stdio};

const COMMANDS: [&str; 11] = [
    "run",
    "bill",
    "runs",
    "list",
    "explain",
    "estimate",
    "doctor",
    "report",
    "export",
    "completions",
    "man",
];
const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
/// Commands, each with what its error names.
const REFUSED: &str = include_str!("../refused.txt");

/// The real costof with these words, which must succeed.
#[track_caller]
fn costof(line: &str) -> Ended {
    Place::new().run(line).expect_code(0)
}

/// The descriptions of the probes that `costof list` has for these words.
fn listed(which: &str) -> Vec<Value> {
    serde_json::from_str(&costof(&format!("list {which} --json")).out).unwrap()
}

/// A text with one blank between words.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_wrong_command_is_refused_before_anything_starts() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let is_case = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for case in REFUSED.lines().filter(is_case) {
        let (line, named) = case.split_once(" => ").expect("a command and what it names");
        let named: Vec<&str> = named.split("; ").collect();
        let ended = place.run(line).expect_wrong(&named);
        assert_eq!(ended.out, "", "{line}");
        for written in ["state", "runs"] {
            assert!(!place.path(written).exists(), "{line}: a run was begun");
        }
    }
}

#[test]
fn help_says_what_each_command_is_for() {
    let whole = costof("--help").out;
    for command in COMMANDS {
        assert_contains(&whole, &format!("  {command} "));
        let help = costof(&format!("{command} --help")).out;
        assert_contains_all(&help, &[&format!("Usage: costof {command}"), "-h, --help"]);
    }
    let (_, grouped) = whole.split_once("\nMeasure:\n").unwrap();
    for heading in ["\nLook:\n", "\nDecide:\n", "\nRarely needed:\n", "\nOptions:\n", "Exit codes:"]
    {
        assert_contains(grouped, heading);
    }
    assert!(!whole.contains("worker"), "{whole}");
    // A debug build does not look for its commit.
    let version = format!("costof {} (", env!("CARGO_PKG_VERSION"));
    let out = costof("--version").out;
    assert!(out.starts_with(&version), "{out}");
    assert_contains_all(&out, &[std::env::consts::ARCH, "-linux-", ")\n"]);
    assert!(!cfg!(debug_assertions) || out.contains("(debug, "), "{out}");
    // Without a command, the help is an error.
    let nothing = Place::new().run("").expect_code(2);
    assert_contains(&nothing.err, "Usage: costof");
}

#[test]
fn the_list_describes_every_probe_whole() {
    let probes = listed("");
    assert!(probes.len() >= 7);
    let text = costof("list").out;
    let filled = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        other => other.as_u64() > Some(0),
    };
    for probe in &probes {
        for field in "id method question how sources metrics roles".split(' ') {
            assert!(filled(&probe[field]), "{field} of {probe}");
        }
        for metric in probe["metrics"].as_array().unwrap() {
            let named = ["name", "unit", "better", "about"].map(|field| &metric[field]);
            assert!(named.into_iter().all(filled), "{metric}");
        }
        assert_contains(&text, probe["question"].as_str().unwrap());
    }
    let layer = listed("cpu");
    assert!(layer.len() > 1 && layer.len() < probes.len());
}

#[test]
fn an_everyday_word_finds_what_measures_it() {
    assert!(costof("explain fsync").out.starts_with("file.sync: "));
    let found = costof("list zerocopy").out;
    assert_contains_all(&found, &["copy.send ", "copy.receive "]);
    assert!(!found.contains("cpu.loop"), "{found}");
    let run = costof("run mutex --dry-run");
    assert!(run.out.starts_with("sync.mutex "), "{run:?}");
    assert_contains(&run.err, "`mutex` is measured by sync.mutex");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn explaining_a_probe_shows_the_sum_behind_its_prediction_where_there_is_a_run() {
    let place = Place::new();
    let explained = |more: &str, code| {
        let ended = place.run(&format!("explain cpu.loop {more}")).expect_code(code);
        format!("{}{}", ended.out, ended.err)
    };
    assert_contains_all(&explained("", 0), &["last 300 runs", "`costof run cpu.loop`"]);
    let run = place.quiet_run("--only cpu.frequency cpu.loop --quick", "run.jsonl");
    place.quiet_run("--only null --quick", "null.jsonl");
    let latest = explained("", 0);
    let sum = latest.split("Expected and measured").nth(1).unwrap();
    // On a busy machine its input was none to predict from.
    let mut predicted = run.predictions.iter();
    let is_predicted = predicted.any(|row| row.point.probe == "cpu.loop");
    let parts = match is_predicted {
        true => &["cpu.loop: expected ", "that cpu.frequency measured", "), measured "][..],
        false => &["no prediction for it"],
    };
    assert_contains_all(&flat(sum), parts);
    assert_contains(&explained("--run null.jsonl", 0), "no prediction for it");
    // Runs of other probes hide none.
    let null = fs::read_to_string(place.path("null.jsonl")).unwrap();
    let id = place.read("null.jsonl").run.id;
    for number in 10..50 {
        let other = format!("{}{number}", &id[..id.len() - 2]);
        let path = place.path(&format!("state/costof/runs/{other}.jsonl"));
        fs::write(path, null.replace(&id, &other)).unwrap();
    }
    assert_eq!(explained("", 0), latest);
    assert_contains(&explained("--run missing.jsonl", 2), "missing.jsonl");
}

#[test]
fn a_probe_is_explained_by_a_drawing_first_and_something_to_try() {
    let text = costof("explain os.syscall").out;
    let mut rest = &*text;
    for part in [
        "os.syscall: ",
        "\n  program ─ SYSCALL ─▶ kernel",
        "\n  The CPU switches to the kernel's privileges",
        "\nTry this\n  costof run os.syscall --set call=time,time_forced\n    expected: ",
        "\nHow (method ",
    ] {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part}: {text}")).1;
    }
}

#[test]
fn copies_are_drawn_line_by_line() {
    let text = costof("explain copy.send").out;
    for line in [
        "Where bytes are copied, and who pays",
        "  sendmsg          fields ══════════╪═1═▶ socket ──┼───────────▶ queue ╪═2═▶ buf",
        "The two copies",
    ] {
        assert!(text.lines().any(|have| have == line), "{text}");
    }
    let sendable = &listed("copy.send")[0]["axes"][0];
    let ways = sendable["domain"]["choice"].as_array().unwrap_or_else(|| panic!("{sendable}"));
    for way in ways {
        assert_contains(&text, &format!("{} ", way["value"].as_str().unwrap()));
    }
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(88), "{widest:?}");
    assert!(!costof("explain null").out.contains("═▶"));
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_probe_is_explained() {
    for probe in listed("") {
        let id = probe["id"].as_str().unwrap();
        let text = costof(&format!("explain {id}")).out;
        assert!(text.starts_with(&format!("{id}: ")), "{text}");
        for section in ["How (method ", "Metrics", "Predicted from", "Sources"] {
            assert_contains(&text, &format!("\n{section}"));
        }
        for field in ["/how", "/sources/0", "/metrics/0/about"] {
            let part = probe.pointer(field).unwrap().as_str().unwrap();
            assert_contains(&flat(&text), &flat(part));
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

/// What `costof run` measures only by name.
const ONLY_BY_NAME: [&str; 10] = [
    "copy.parts",
    "file.cache_size",
    "file.contention",
    "memory.first_touch",
    "os.attached",
    "os.overhead",
    "os.quota",
    "rpc.first_call",
    "rpc.load",
    "sync.task",
];

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_dry_run_shows_the_points_and_what_they_take_and_measures_nothing() {
    let place = Place::new();
    let shown =
        place.run("run os.syscall null --set call=getpid,getppid --set threads=1,2 --dry-run");
    let shown = shown.expect_code(0).out;
    let mut lines: Vec<&str> = shown.lines().collect();
    let takes = lines.pop().unwrap();
    assert_contains_all(takes, &["7 points", "launches", " s ", "the budget"]);
    for point in [
        "harness.null",
        "os.syscall call=getpid threads=1",
        "os.syscall call=getppid threads=1",
        "os.syscall call=getpid threads=2",
        "os.syscall call=getppid threads=2",
        // What the prediction of null builds on.
        "cpu.clock source=tsc_fenced",
    ] {
        let is_it = |line: &&&str| line.split("  ").next() == Some(point);
        assert_eq!(lines.iter().filter(is_it).count(), 1, "{point} in: {shown}");
    }
    assert!(!place.path("state").exists(), "a run was begun");

    // Alone, it is the latency table: a headline of every probe, but of those that take long, of those that must be told
    // where to look, and of those that are asked for by name.
    let table = costof("run --dry-run").out;
    for probe in listed("") {
        let id = probe["id"].as_str().unwrap();
        let is_left_out = ONLY_BY_NAME.contains(&id)
            || ["file.remote", "node.", "rudp."].iter().any(|start| id.starts_with(start));
        let mut lines = table.lines();
        let is_there = lines.any(|line| line.split(' ').next() == Some(id));
        assert_eq!(is_there, !is_left_out, "{id} in: {table}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_same_seed_draws_the_same_run() {
    let order = || -> Vec<(usize, u32)> {
        let place = Place::new();
        let line = "run test.good test.planted --launches 4 --out run.jsonl --seed 7";
        place.run_misbehaving(line).expect_code(0);
        let run = place.run_file();
        assert_eq!(run.run.seed, 7);
        let launches = run.launches.iter();
        launches.map(|row| (row.block, row.launch)).collect()
    };
    assert_eq!(order(), order());
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in SHELLS {
        let script = costof(&format!("completions {shell}")).out;
        for word in COMMANDS.into_iter().chain(["--quick", "--resume"]) {
            assert_contains(&script, word.trim_start_matches('-'));
        }
        if shell == "bash" && is_installed("bash") {
            run(Command::new("bash").args(["-n", "-c", &script])).expect_code(0);
        }
    }
}

#[test]
fn the_manual_page_renders_without_a_warning() {
    let page = costof("man").out;
    for command in COMMANDS {
        assert_contains(&page, &format!("COSTOF {}", command.to_uppercase()));
    }
    if !is_installed("man") {
        return skipped("man is not installed, so nothing renders the page");
    }
    let place = Place::new();
    fs::write(place.path("costof.1"), page).unwrap();
    let mut man = place.command("man --warnings -l costof.1");
    let shown = run(man.env("MANPAGER", "cat")).expect_code(0);
    assert_contains(&shown.out, "What does this cost here?");
    assert_eq!(shown.err, "");
}

/// How costof ends, and what it says on standard error, where its standard output goes here.
fn with_output(line: &str, output: impl Into<Stdio>) -> (Option<i32>, String) {
    let place = Place::new();
    let mut command = place.costof(line);
    command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
    let ended = command.spawn().unwrap().wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!err.contains("panicked"), "{line}: {err}");
    (ended.status.code(), err)
}

/// A pipe that nobody reads.
fn unread() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_reader_that_has_seen_enough_is_no_error() {
    for line in [
        "list",
        "list --json",
        "explain *",
        "completions zsh",
        "man",
        "run --dry-run",
        "run --only null --quick",
        "--help",
    ] {
        let (code, err) = with_output(line, unread());
        assert_eq!(code, Some(0), "{line}: {err}");
        assert!(!err.contains("cannot write"), "{line}: {err}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn output_that_cannot_be_written_is_an_error_that_says_so() {
    for line in [
        "--help",
        "run --help",
        "--version",
        "list",
        "explain harness.null",
        "man",
        "completions bash",
        "run --only null --quick",
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, err) = with_output(line, full);
        assert_eq!(code, Some(2), "{line}: {err}");
        assert_contains(&err, "No space left");
        assert!(line.starts_with("run --only") || err.lines().count() == 1, "{line}: {err}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_error_or_progress_that_nobody_hears_is_no_panic() {
    for (line, code) in [("run nul", 2), ("export none.jsonl", 2), ("run --only null --quick", 0)] {
        let place = Place::new();
        let mut command = place.costof(line);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(unread()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn doctor_says_the_same_as_text_and_as_json() {
    let doctor = |line: &str| {
        let ended = Place::new().run(line);
        // 1 where it found what will make numbers worse or missing.
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        assert_eq!(ended.err, "");
        ended
    };
    let text = doctor("doctor");
    let json = doctor("doctor --json");
    assert!(!text.out.trim().is_empty());
    assert_eq!(text.code, json.code);
    let lines = json.out.lines();
    let diagnoses: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(diagnoses.len() >= 10, "{}", json.out);
    assert!(diagnoses.iter().all(Value::is_object));
}

/// Whether this machine is fit, nobody knows.
#[test]
#[ignore = "long; ./check --all runs it"]
fn doctor_for_ci_says_fit_or_not_first_and_its_exit_code_is_that() {
    for (line, is_fit) in
        [("--for 90 --budget 1day", None), ("--for 0.001 --budget 1s", Some(false))]
    {
        let place = Place::new();
        let text = place.run(&format!("doctor --ci {line}"));
        place.expect_nothing_runs();
        let first = text.out.lines().next().unwrap();
        match text.code {
            Some(0) => assert!(first.starts_with("FIT: ") && is_fit.is_none(), "{first}"),
            Some(3) => {
                assert!(first.starts_with("NOT FIT: ") && first.ends_with("skip"), "{first}")
            }
            _ => panic!("{text:?}"),
        }
        let json = place.run(&format!("doctor --ci --json {line}"));
        let fitness: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!(json.code, Some(if fitness["fit"] == true { 0 } else { 3 }));
        let words = text.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&words, fitness["machine"].as_str().unwrap());
        for share in fitness["core"].as_object().unwrap().values().filter_map(Value::as_f64) {
            assert!((0.0..=1.0).contains(&share), "{fitness}");
        }
    }
}

//! What each command prints, and what it says to a wrong name.

use crate::common::{Ended, Place, assert_contains, assert_contains_all, run};
use serde_json::Value;
use std::fs::File;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 9] = [
    "run",
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

/// The real costof with these words, which must succeed.
#[track_caller]
fn costof(words: &str) -> Ended {
    run(&mut Place::new().costof(words)).expect_code(0)
}

/// The real costof with these words, which must be wrong and name all of these.
#[track_caller]
fn wrong(words: &str, named: &[&str]) {
    let place = Place::new();
    let words: Vec<&str> = words.split_whitespace().collect();
    let ended = run(&mut place.costof(&words)).expect_wrong(named);
    assert_eq!(ended.out, "");
    assert!(!place.path("state").exists(), "a run was begun");
}

/// The ids of all probes, in the order of the table.
fn ids() -> Vec<String> {
    let probes: Vec<Value> = serde_json::from_str(&costof("list --json").out).unwrap();
    probes
        .iter()
        .map(|probe| probe["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_wrong_name_is_told_the_nearest_right_one() {
    wrong(
        "run os.syscal",
        &["`os.syscal`", "did you mean `os.syscall`", "costof list"],
    );
    wrong("list memry", &["`memry`", "did you mean `memory`"]);
    wrong(
        "explain cpu.clok",
        &["`cpu.clok`", "did you mean `cpu.clock`"],
    );
    wrong(
        "run os.syscall --set cal=getpid",
        &["`cal`", "did you mean `call`"],
    );
    wrong(
        "run os.syscall --set call=getpd",
        &["`getpd`", "did you mean `getpid`", "getppid"],
    );
    wrong(
        "run os cpu --set bdy=nop",
        &["`bdy`", "did you mean `body`"],
    );
    wrong(
        "run memory.latency --set size=1PiB",
        &["size", "`1PiB`", "from 4KiB to"],
    );
    wrong("run memory.latency --set size=big", &["size", "`big`"]);
    wrong("run --set size", &["`size`", "AXIS=V"]);
    wrong("run --set call=,", &["empty value"]);
    wrong("run null --set size=4KiB", &["null has no axes", "`size`"]);
    wrong("lst", &["'lst'", "'list'"]);
    wrong("run --quik", &["'--quik'", "'--quick'"]);
    wrong("completions bsh", &["'bsh'", "bash", "zsh"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    wrong("run --quick --full", &["--quick", "--full"]);
    wrong("run null --cpu 99999", &["--cpu", "99999"]);
    wrong("run null --cpu first", &["--cpu", "first"]);
    wrong("run null --timeout 0", &["--timeout", "1..=86400"]);
    wrong("run null --seed x", &["--seed", "'x'"]);
    wrong("run --force", &["--resume"]);
    wrong("export none.jsonl", &["none.jsonl", "No such file"]);
}

#[test]
fn help_says_what_each_command_is_for() {
    let whole = costof("--help").out;
    for command in COMMANDS {
        assert_contains(&whole, &format!("  {command} "));
        let help = costof(&format!("{command} --help")).out;
        assert_contains(&help, &format!("Usage: costof {command}"));
        assert_contains(&help, "-h, --help");
    }
    assert_contains(&whole, "Exit codes: 0 done");
    assert!(!whole.contains("worker"), "{whole}");
    assert_eq!(
        costof("--version").out,
        format!("costof {}\n", env!("CARGO_PKG_VERSION"))
    );
    // Without a command, the help is an error.
    let nothing = run(&mut Place::new().costof(&[])).expect_code(2);
    assert_contains(&nothing.err, "Usage: costof");
}

#[test]
fn the_list_describes_every_probe_whole() {
    let probes: Vec<Value> = serde_json::from_str(&costof("list --json").out).unwrap();
    assert!(probes.len() >= 7);
    let text = costof("list").out;
    let filled = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        other => other.as_u64() > Some(0),
    };
    for probe in &probes {
        for field in [
            "id", "method", "question", "how", "sources", "metrics", "roles",
        ] {
            assert!(filled(&probe[field]), "{field} of {probe}");
        }
        for metric in probe["metrics"].as_array().unwrap() {
            let named = ["name", "unit", "better", "about"].map(|field| &metric[field]);
            assert!(named.into_iter().all(filled), "{metric}");
        }
        assert!(
            text.contains(probe["question"].as_str().unwrap()),
            "{probe}"
        );
    }
    let layer: Vec<Value> = serde_json::from_str(&costof("list cpu --json").out).unwrap();
    assert!(layer.len() > 1 && layer.len() < probes.len());
}

#[test]
fn explaining_a_probe_shows_the_sum_behind_its_prediction_where_there_is_a_run() {
    let place = Place::new();
    let explained = |more: &str| {
        let words = format!("explain cpu.loop{more}");
        let words: Vec<&str> = words.split(' ').collect();
        run(&mut place.costof(&words))
    };
    let before = explained("").expect_code(0).out;
    assert_contains(
        &before,
        "In none of the last 30 runs here: `costof run cpu.loop` measures it",
    );
    for words in [
        "run cpu.frequency cpu.loop --quick",
        "run null --quick --out null.jsonl",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        run(&mut place.costof(&words)).expect_code(0);
    }
    let latest = explained("").expect_code(0).out;
    let sum = latest.split("Expected and measured").nth(1).unwrap();
    let sum = sum.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(
        &sum,
        &[
            "cpu.loop: expected ",
            "that cpu.frequency measured",
            "), measured ",
        ],
    );
    let without = explained(" --run null.jsonl").expect_code(0).out;
    assert_contains(&without, "no prediction for it");
    let missing = explained(" --run missing.jsonl").expect_code(2).err;
    assert_contains(&missing, "missing.jsonl");
}

#[test]
fn copies_are_drawn_line_by_line() {
    let text = costof("explain copy.send").out;
    for line in [
        "Where bytes are copied, and who pays",
        "  one_copy         │ fields ═════════════╪═1═▶ socket buf ─┼───────────────▶ queue ╪═2═▶ buffer    │",
        "The two copies",
    ] {
        assert!(text.lines().any(|have| have == line), "{text}");
    }
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?}");
    assert!(!costof("explain null").out.contains("═▶"));
}

#[test]
fn every_probe_is_explained() {
    let probes: Vec<Value> = serde_json::from_str(&costof("list --json").out).unwrap();
    for probe in &probes {
        let id = probe["id"].as_str().unwrap();
        let text = costof(&format!("explain {id}")).out;
        assert!(text.starts_with(&format!("{id}: ")), "{text}");
        for section in ["How (method ", "Metrics", "Predicted from", "Sources"] {
            assert_contains(&text, &format!("\n{section}"));
        }
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for said in [
            &probe["how"],
            &probe["sources"][0],
            &probe["metrics"][0]["about"],
        ] {
            let said = words(said.as_str().unwrap());
            assert!(
                words(&text).contains(&said),
                "`{said}` is missing in: {text}"
            );
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}

#[test]
fn a_dry_run_shows_the_points_and_what_they_take_and_measures_nothing() {
    let place = Place::new();
    let words = "run os.syscall null --set call=getpid,getppid --dry-run";
    let shown = run(&mut place.costof(words)).expect_code(0);
    let mut lines: Vec<&str> = shown.out.lines().collect();
    let takes = lines.pop().unwrap();
    assert_contains_all(takes, &["3 points", "launches", " s ", "memory", "disk"]);
    for point in [
        "null",
        "os.syscall call=getpid threads=1",
        "os.syscall call=getppid threads=1",
    ] {
        let of_it = lines
            .iter()
            .filter(|line| line.split("  ").next() == Some(point));
        assert_eq!(of_it.count(), 1, "{point} in: {}", shown.out);
    }
    assert!(!place.path("state").exists(), "a run was begun");

    // Alone, it is the latency table: a headline of every probe, but of those that take long and of those
    // that must be told where to look.
    let table = costof("run --dry-run").out;
    for id in ids() {
        let is_asked_for = ["file.contention", "file.cache_size"].contains(&id.as_str())
            || id.starts_with("file.remote");
        let is_there = table
            .lines()
            .any(|line| line.split(' ').next() == Some(&id));
        assert_eq!(is_there, !is_asked_for, "{id} in: {table}");
    }
}

#[test]
fn the_same_seed_draws_the_same_run() {
    let order = |seed: &str| -> Vec<(usize, u32)> {
        let place = Place::new();
        let words = [
            "run",
            "test.good",
            "test.planted",
            "--quick",
            "--out",
            "run.jsonl",
            "--seed",
        ];
        run(place.misbehaving(&words).arg(seed)).expect_code(0);
        let run = crate::common::read(&place.path("run.jsonl"));
        assert_eq!(run.run.seed.to_string(), seed);
        run.launches
            .iter()
            .map(|row| (row.block, row.launch))
            .collect()
    };
    assert_eq!(order("7"), order("7"));
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in SHELLS {
        let script = costof(&format!("completions {shell}")).out;
        for word in COMMANDS.into_iter().chain(["--quick", "--resume"]) {
            let bare = word.trim_start_matches('-');
            assert!(script.contains(bare), "{word} is missing for {shell}");
        }
    }
    if is_installed("bash") {
        let script = costof("completions bash").out;
        run(Command::new("bash").args(["-n", "-c", &script])).expect_code(0);
    }
}

#[test]
fn the_manual_page_renders_without_a_warning() {
    let page = costof("man").out;
    for command in COMMANDS {
        assert!(
            page.contains(&format!("COSTOF {}", command.to_uppercase())),
            "{command}"
        );
    }
    if !is_installed("man") {
        eprintln!("skipped: man is not installed, so nothing renders the page");
        return;
    }
    let place = Place::new();
    std::fs::write(place.path("costof.1"), page).unwrap();
    let mut man = Command::new("man");
    man.args(["--warnings", "-l"])
        .arg(place.path("costof.1"))
        .env("MANPAGER", "cat");
    let shown = run(&mut man).expect_code(0);
    assert_contains(&shown.out, "What does this cost here?");
    assert_eq!(shown.err, "");
}

fn is_installed(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for words in [
        "list",
        "list --json",
        "explain *",
        "completions zsh",
        "man",
        "run --dry-run",
        "run null --quick",
        "--help",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let place = Place::new();
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = place.costof(&words);
        let output = command
            .stdout(writer)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let ended = output.spawn().unwrap().wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{words:?}: {err}");
        assert!(
            !err.contains("panicked") && !err.contains("cannot write"),
            "{words:?}: {err}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_that_says_so() {
    for words in [
        "list",
        "explain null",
        "man",
        "completions bash",
        "run null --quick",
    ] {
        let place = Place::new();
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = place.costof(&words);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let ended = ended.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{words:?}: {err}");
        assert!(
            err.contains("cannot write the output: No space left"),
            "{words:?}: {err}"
        );
    }
}

/// The exit code of costof where nobody reads its standard error.
fn code_unheard(words: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let place = Place::new();
    let mut command = place.costof(words);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(writer);
    command.spawn().unwrap().wait().unwrap().code()
}

#[test]
fn an_error_that_nobody_hears_is_no_panic() {
    assert_eq!(code_unheard(&["run", "nul"]), Some(2));
    assert_eq!(code_unheard(&["export", "none.jsonl"]), Some(2));
}

#[test]
fn progress_that_nobody_hears_is_no_panic() {
    assert_eq!(code_unheard(&["run", "null", "--quick"]), Some(0));
}

#[test]
fn doctor_says_the_same_as_text_and_as_json() {
    let doctor = |words: &[&str]| {
        let ended = run(&mut Place::new().costof(words));
        // 1 where it found what will make numbers worse or missing.
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        assert_eq!(ended.err, "");
        ended
    };
    let text = doctor(&["doctor"]);
    let json = doctor(&["doctor", "--json"]);
    assert!(!text.out.trim().is_empty());
    assert_eq!(text.code, json.code);
    let diagnoses: Vec<Value> = json
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(diagnoses.len() >= 10, "{}", json.out);
    assert!(diagnoses.iter().all(Value::is_object));
}

//! A program of benchmarks as a user runs it. This test is also that program: with `PROGRAM`, the folder of its runs, set.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it does")]

use costof_harness::prelude::*;
use costof_harness::{Register, run};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use costof_model::failure::FailureKind;
use costof_model::rows::FailureRow;
use costof_model::run_file::{self, Run};

/// What can go wrong with a benchmark.
fn benchmarks(c: &mut Costof<'_>) {
    if std::env::var_os("LACKS_FINE").is_none() {
        c.bench_function("fine", |b| b.iter(|| (0..black_box(50_u64)).sum::<u64>()));
    }
    let mut group = c.benchmark_group("batched");
    group.throughput(Throughput::Bytes(100));
    for (name, size) in [
        ("small", BatchSize::SmallInput),
        ("large", BatchSize::LargeInput),
        ("one", BatchSize::PerIteration),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || vec![1_u8; 100],
                |v| v.iter().rev().copied().collect::<Vec<_>>(),
                size,
            );
        });
    }
    group.bench_with_input(BenchmarkId::new("ref", 7), &7_usize, |b, length| {
        b.iter_batched_ref(|| vec![0_u8; *length], |v| v.push(1), BatchSize::SmallInput);
    });
    group.finish();
    c.bench_function("panics", |b| b.iter(|| -> u64 { panic!("no such table") }));
    c.bench_function("measures nothing", |_| {});
    c.bench_function("measures twice", |b| {
        b.iter(|| 1);
        b.iter(|| 2);
    });
    c.bench_function("prints", |b| b.iter(|| println!("rubbish")));
    c.bench_function("threads", |b| {
        b.iter(|| {
            let work = || (0..black_box(50_000_u64)).fold(0, |sum, i| sum ^ (i * i));
            std::thread::scope(|scope| scope.spawn(work).join().map(drop)).unwrap();
        });
    });
    if std::env::var_os("EXITS").is_some() {
        c.bench_function("exits", |b| b.iter(|| -> u64 { std::process::exit(7) }));
    }
    if std::env::var_os("HANGS").is_some() {
        c.bench_function("hangs", |b| b.iter(std::thread::park));
    }
    if std::env::var_os("TWICE").is_some() {
        c.bench_function("fine", |b| b.iter(|| 1));
    }
}

const BENCHMARKS: &[Register] = &[benchmarks];
/// What a test is called, and what it does in a folder of its own.
type Test = (&'static str, fn(&Path));

const TESTS: &[Test] = &[
    ("benchmarks_are_listed_as_test_runners_read_them", listed),
    ("two_of_one_name_are_refused", two_of_one_name),
    ("a_name_that_is_none_is_named_with_the_nearest", no_such_name),
    ("a_test_calls_each_once_and_fails_if_one_panics", tested),
    ("a_benchmark_that_fails_is_named_and_the_others_have_rows", failing),
    ("one_that_hangs_is_ended", hanging),
    ("inputs_are_made_for_each_batch", batched),
    ("a_result_is_kept_and_compared_with", kept),
    ("builds_take_turns", in_turns),
    ("another_build_may_lack_a_benchmark", lacking),
    ("what_cannot_be_run_or_read_is_named", unreadable),
];

fn main() -> ExitCode {
    if let Ok(folder) = std::env::var("PROGRAM") {
        return run(&folder, BENCHMARKS);
    }
    let is_given = |option: &str| std::env::args().any(|word| word == option);
    if is_given("--ignored") {
        return ExitCode::SUCCESS;
    }
    let (mut words, mut arguments) = (Vec::new(), std::env::args().skip(1));
    while let Some(word) = arguments.next() {
        match &*word {
            "--test-threads" | "--format" | "--color" | "--skip" => drop(arguments.next()),
            option if option.starts_with('-') => {}
            _ => words.push(word),
        }
    }
    for (name, test) in TESTS {
        if is_given("--list") {
            println!("{name}: test");
        } else if words.is_empty() || words.iter().any(|word| name.contains(&**word)) {
            let folder = tempfile::tempdir().unwrap();
            test(folder.path());
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn program(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(line.split_whitespace()).env("PROGRAM", folder);
    command
}

/// Its exit code and what it printed, both streams.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
    (status.code(), text.concat())
}

fn started(folder: &Path, line: &str) -> (Option<i32>, String) {
    ended(&mut program(folder, line))
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

fn runs(folder: &Path) -> Vec<Run> {
    let files = fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    files.sort();
    let read = |path: &PathBuf| run_file::read(BufReader::new(File::open(path).unwrap())).unwrap();
    files.iter().map(read).collect()
}

/// Whether a benchmark has a row, or launches that refute it, as those on a busy machine may.
fn is_derived(run: &Run, name: &str) -> bool {
    let has_row = run.points.iter().any(|row| row.point.probe == name);
    let refuted = |row: &FailureRow| row.point.probe == name && row.launch.is_none();
    has_row || run.failures.iter().any(refuted)
}

/// Fails unless a program ended as one that measured does; 2 says that nothing had a number.
#[track_caller]
fn measured(code: Option<i32>, text: &str) {
    assert!(matches!(code, Some(0 | 2)), "{code:?}: {text}");
}

fn listed(folder: &Path) {
    let (code, text) = started(folder, "--bench --list --format terse");
    assert_eq!(code, Some(0));
    assert_eq!(text.lines().next(), Some("fine: benchmark"));
    has(&text, &["batched/ref/7: benchmark\n", "threads: benchmark\n"]);
    assert_eq!(started(folder, "--list batched/s").1, "batched/small: benchmark\n");
    assert_eq!(started(folder, "--list --ignored").1, "");
}

fn two_of_one_name(folder: &Path) {
    for mode in ["--bench", "--list", ""] {
        let (code, text) = ended(program(folder, mode).env("TWICE", "1"));
        assert_eq!(code, Some(2), "{text}");
        has(&text, &["two benchmarks", "`fine`", "another name"]);
    }
}

fn no_such_name(folder: &Path) {
    let (code, text) = started(folder, "--bench fien");
    assert_eq!(code, Some(2), "{text}");
    has(&text, &["`fien`", "fine", "--list"]);
    assert!(runs(folder).is_empty());
}

fn tested(folder: &Path) {
    let (code, text) = started(folder, "");
    assert_eq!(code, Some(101), "{text}");
    has(&text, &["test fine ... ok", "test batched/one ... ok", "no such table"]);
    has(&text, &["test panics ... FAILED", "test measures nothing ... FAILED"]);
    let (code, text) = started(folder, "fine --test --bench --nocapture");
    assert_eq!((code, &*text), (Some(0), "test fine ... ok\n"));
    assert!(runs(folder).is_empty());
}

fn failing(folder: &Path) {
    let (code, text) = ended(program(folder, "--bench --budget 1ms").env("EXITS", "1"));
    assert_eq!(code, Some(0), "{text}");
    has(&text, &["panics", "no number", "no such table", "exit code 7"]);
    has(&text, &["calls no method", "Bencher 2 times"]);
    let run = &runs(folder)[0];
    if run.points.iter().any(|row| row.point.probe == "threads") {
        has(&text, &["several threads"]);
    }
    let failed = |name: &str| -> Vec<&FailureRow> {
        run.failures.iter().filter(|row| row.point.probe == name).collect()
    };
    for name in ["panics", "exits"] {
        assert!(
            failed(name).iter().all(|row| row.kind == FailureKind::Crashed),
            "{:?}",
            run.failures
        );
    }
    for name in ["panics", "exits", "measures nothing", "measures twice"] {
        assert!(!failed(name).is_empty(), "{name}: {:?}", run.failures);
        assert!(run.points.iter().all(|row| row.point.probe != name));
    }
    for name in ["fine", "prints", "threads", "batched/small"] {
        assert!(failed(name).iter().all(|row| row.launch.is_none()), "{:?}", run.failures);
        assert!(is_derived(run, name), "{text}");
    }
    assert!(run.end.is_some());
    // Nothing that was asked for has a number.
    let saved = folder.join("saved/main.jsonl");
    fs::create_dir_all(folder.join("saved")).unwrap();
    fs::write(&saved, "good").unwrap();
    let (code, text) = started(folder, "--bench --budget 1ms panics --save main");
    assert_eq!(code, Some(2), "{text}");
    assert_eq!(fs::read_to_string(&saved).unwrap(), "good");
}

fn hanging(folder: &Path) {
    let line = "--bench --budget 1ms --timeout 2s fine hangs";
    let (code, text) = ended(program(folder, line).env("HANGS", "1"));
    measured(code, &text);
    has(&text, &["hangs", "within 2 s", "--timeout"]);
    let failures = &runs(folder)[0].failures;
    let hung = failures.iter().filter(|row| row.point.probe == "hangs");
    assert!(hung.clone().all(|row| row.kind == FailureKind::TimedOut), "{failures:?}");
    assert!(hung.count() > 0, "{text}");
}

fn batched(folder: &Path) {
    let (code, text) = started(folder, "--bench --budget 1ms batched");
    measured(code, &text);
    let run = &runs(folder)[0];
    for name in ["batched/small", "batched/large", "batched/one", "batched/ref/7"] {
        assert!(is_derived(run, name), "{text}");
    }
    has(&text, &["B/s"]);
}

fn kept(folder: &Path) {
    let (code, first) = started(folder, "--bench --budget 1ms fine --save main --threshold 2%");
    assert!(!first.contains("Against"), "{first}");
    if runs(folder)[0].points.is_empty() {
        return println!("skipped: a busy machine left no number to compare with: {first}");
    }
    // Nothing was compared, so nothing is known.
    assert_eq!(code, Some(3), "{first}");
    has(&first, &["INCONCLUSIVE: only 0 of 1"]);
    let is_compared = |text: String| {
        let is_it = text.contains("Against the last run: ") || text.contains("is not compared");
        assert!(is_it || text.contains("no number"), "{text}");
    };
    is_compared(started(folder, "--bench --budget 1ms fine").1);
    // A run of others does not hide the one that has it.
    let others = started(folder, "--bench --budget 1ms prints --baseline main --threshold 2%");
    assert!(matches!(others.0, Some(2 | 3)), "{others:?}");
    has(&others.1, &["prints", "Against main: nothing"]);
    is_compared(started(folder, "--bench --budget 1ms fine").1);
    let (code, text) =
        started(folder, "--bench --budget 1ms fine --baseline main --threshold 900%");
    assert!(matches!(code, Some(0 | 2 | 3)), "{code:?}: {text}");
    has(&text, &["Against main: "]);
    let (code, text) = started(folder, "--bench --baseline mian");
    assert_eq!(code, Some(2));
    has(&text, &["--baseline mian", "saved: main"]);
}

fn in_turns(folder: &Path) {
    let own = std::env::current_exe().unwrap();
    let line = format!("--bench --budget 1ms fine --against {}", own.display());
    let (code, text) = started(folder, &line);
    measured(code, &text);
    has(&text, &["in turns: "]);
    let (own, other) = (runs(folder), runs(&folder.join("against")));
    let (own, other) = (&own[0], &other[0]);
    assert_eq!(own.run.beside.as_ref(), Some(&other.run.id));
    assert_eq!(other.run.beside.as_ref(), Some(&own.run.id));
    assert_eq!(own.run.seed, other.run.seed);
    assert_eq!(own.launches.len(), other.launches.len());
    assert!(own.launches.len() % 2 == 0, "each side is first equally often");
    for (own, other) in own.launches.iter().zip(&other.launches) {
        assert_eq!(own.placement, other.placement);
    }
}

fn lacking(folder: &Path) {
    let old = folder.join("old");
    let own = std::env::current_exe().unwrap();
    fs::write(&old, format!("#!/bin/sh\nLACKS_FINE=1 exec {} \"$@\"\n", own.display())).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let runs_folder = folder.join("runs");
    let line = format!("--bench --budget 1ms --exact fine prints --against {}", old.display());
    let (code, text) = started(&runs_folder, &line);
    measured(code, &text);
    has(&text, &["fine", "prints"]);
    let run = &runs(&runs_folder)[0];
    // The new one is measured all the same.
    assert!(is_derived(run, "prints") && is_derived(run, "fine"), "{text}");
    let other = &runs(&runs_folder.join("against"))[0];
    let launches = |run: &Run| run.launches.iter().filter(|launch| launch.block == 0).count();
    assert!(launches(run) > launches(other), "{text}");
}

fn unreadable(folder: &Path) {
    let (code, text) = started(folder, "--bench fine --against /no/such/program");
    assert_eq!(code, Some(2));
    has(&text, &["--against /no/such/program", "No such file"]);
    let (code, text) = started(folder, "--bench fine --against /bin/true --budget 1ms");
    assert_eq!(code, Some(2));
    has(&text, &["--against /bin/true", "exit code 0", "the other build's program"]);
    let rubbish = folder.join("rubbish.jsonl");
    fs::write(&rubbish, "rubbish\n").unwrap();
    let (code, text) = started(folder, &format!("--bench --baseline {}", rubbish.display()));
    assert_eq!(code, Some(2));
    has(&text, &["rubbish.jsonl", "not a costof run"]);
    let (code, text) = started(folder, "--bench --bugdet 1s");
    assert_eq!(code, Some(2));
    has(&text, &["--bugdet", "--budget"]);
}

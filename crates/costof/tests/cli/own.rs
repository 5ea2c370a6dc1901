//! A project's own probes: the examples are measured, and what goes wrong in a user's code is said, costs no other
//! probe, and leaves nothing running.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, is_installed, or_skip, run, skipped,
};
use costof_model::run_file::Run;
use std::fs;
use std::path::Path;
use std::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// A copy of the examples.
fn examples() -> Place {
    let place = Place::new();
    for entry in fs::read_dir(EXAMPLES).unwrap().flatten() {
        let name = entry.file_name();
        let is_built = name.to_string_lossy().ends_with(".so") || name == "fnv_go";
        if !is_built {
            fs::copy(entry.path(), place.path(name.to_str().unwrap())).unwrap();
        }
    }
    place
}

/// `make` of a target of the examples, or why not.
fn make(place: &Place, target: &str) -> Result<(), String> {
    let mut make = Command::new("make");
    make.arg(target).current_dir(place.path("")).env("GOCACHE", place.path("go-cache"));
    make.env("GOFLAGS", "-mod=mod");
    match make.output() {
        Ok(made) if made.status.success() => Ok(()),
        Ok(made) => Err(format!("make {target}: {}", String::from_utf8_lossy(&made.stderr))),
        Err(error) => Err(format!("make: {error}")),
    }
}

/// One point of an example is measured, or the machine was too busy for it; all its launches gave it a cost.
#[track_caller]
fn expect_measured(place: &Place, words: &str) -> Run {
    let (run, ended) = place.quick(words);
    ended.expect_measured();
    let id = words.split(' ').next().unwrap();
    let points: Vec<_> = run.launches.iter().flat_map(|launch| &launch.points).collect();
    let has_cost = points.iter().any(|given| given.metrics.iter().any(|m| m.name == "cost"));
    assert!(has_cost && points.iter().all(|given| given.point.probe == id), "{run:?}");
    assert!(run.probe(id).is_some(), "the file describes it");
    run
}

#[test]
fn the_example_in_c_is_a_probe_like_any_other() {
    let place = examples();
    or_skip!(is_installed("cc").then_some(()).ok_or("no C compiler"));
    or_skip!(make(&place, "c"));
    let listed = place.run("list fnv.c").expect_code(0);
    assert_contains_all(&listed.out, &["fnv.c", "size = 64B (default), 4KiB; 1B to 1GiB"]);
    assert_contains_all(&listed.err, &["fnv.c is defined by", "costof.toml"]);
    let explained = place.run("explain fnv.c").expect_code(0);
    assert_contains_all(
        &explained.out,
        &["fnv(n, size) of", "libfnv_c.so", "chain of mult", "Fowler"],
    );
    let run = place.quiet_run("fnv.c --set size=64,100 --only --quick", "a.jsonl");
    let sizes: Vec<_> = run.points.iter().map(|row| row.point.axes.number("size")).collect();
    assert_eq!(sizes, [64, 100]);
    assert!(run.points.iter().all(|row| row.prediction.is_none()));
    place.expect_nothing_runs();
    // What reads runs needs no definitions.
    fs::rename(place.path("costof.toml"), place.path("other.toml")).unwrap();
    for line in [
        "show a.jsonl",
        "compare a.jsonl a.jsonl",
        "export a.jsonl --format prometheus",
        "report a.jsonl --html a.html",
        "history a.jsonl a.jsonl a.jsonl",
        "estimate 2*fnv.c(size=64) --run a.jsonl --project other.toml",
    ] {
        let ended = place.run(line);
        let is_answer = matches!(ended.code, Some(0 | 1 | 3));
        assert!(is_answer && !ended.err.contains("no probe"), "{line}: {ended:?}");
    }
    let unknown = place.run("run fnv.c --dry-run");
    unknown.expect_wrong(&["no probe `fnv.c`"]);
    let named = place.run("run fnv.c --dry-run --project other.toml").expect_code(0);
    assert_contains(&named.out, "fnv.c size=4KiB");
}

#[test]
fn the_examples_in_compiled_languages_are_measured() {
    let place = examples();
    for (compiler, target, words) in [
        ("c++", "cpp", "fnv.cpp --set message=text"),
        ("rustc", "rust", "fnv.rust --set size=64"),
        ("go", "go", "fnv.go --set size=4KiB"),
    ] {
        let made = match is_installed(compiler) {
            true => make(&place, target),
            false => Err(format!("no {compiler}")),
        };
        match made {
            Ok(()) => drop(expect_measured(&place, words)),
            Err(why) => skipped(why),
        }
        let _ = fs::remove_file(place.path("run.jsonl"));
    }
}

#[test]
fn the_examples_in_interpreted_languages_and_the_command_are_measured() {
    let place = examples();
    for (program, words) in [
        ("python3", "fnv.python --set size=64"),
        ("node", "fnv.javascript --set size=4KiB"),
        ("cksum", "fnv.checksum"),
    ] {
        match is_installed(program) {
            true => drop(expect_measured(&place, words)),
            false => skipped(format_args!("no {program}")),
        }
        let _ = fs::remove_file(place.path("run.jsonl"));
    }
}

#[test]
fn a_file_runs_no_code_unless_its_probes_are_named() {
    let place = examples();
    let planned = |line: &str| place.run(line).expect_code(0).out;
    for line in ["run --dry-run", "run --full --dry-run", "run --set size=4KiB --dry-run"] {
        assert!(!planned(line).contains("fnv"), "{line}");
    }
    assert!(!planned("run '*' --dry-run").contains("fnv"));
    place.run("run *python* --dry-run").expect_code(0);
    place.run("run f*.p* --dry-run").expect_wrong(&["only by their names", "fnv.python"]);
    assert_contains(&planned("run fnv --dry-run"), "fnv.python");
    // Nothing is built here, and nothing is loaded to list and to explain.
    assert_contains(&planned("list"), "fnv.rust");
    assert_contains(&planned("explain fnv.rust"), "libfnv_rust.so");
}

#[test]
fn a_wrong_file_is_named_by_its_line_and_can_be_left_out() {
    let place = Place::new();
    let text = "project = 'x'\n\n[[probe]]\nname = 'a'\nquestion = 'What?'\ncomand = 'true'\n";
    fs::write(place.path("costof.toml"), text).unwrap();
    let named = ["without your own probes", "costof.toml, line 6", "comand", "probe `x.a`"];
    place.run("run x.a").expect_wrong(&named);
    place.run("list --project costof.toml").expect_wrong(&["costof.toml, line 6"]);
    // What needs none of its probes only says so.
    assert_contains_all(&place.run("run null --quick --dry-run").expect_code(0).err, &named[..3]);
    place.run("list --project /dev/null").expect_code(0);
    place.run("man").expect_code(0);
    place.run("list --project nowhere.toml").expect_wrong(&["nowhere.toml", "No such file"]);
}

/// Probes in the shell, by their lines, in a project `bad`.
fn shell_probes(place: &Place, probes: &[(&str, &str)]) {
    let mut text = "project = 'bad'\n".to_owned();
    for (name, line) in probes {
        text += &format!("[[probe]]\nname = '{name}'\nquestion = 'What is bad?'\n{line}\n");
    }
    fs::write(place.path("costof.toml"), text).unwrap();
}

/// The reasons of what failed as a whole, and nothing runs any more.
#[track_caller]
fn failed(place: &Place, words: &str) -> (Vec<String>, Ended) {
    let (run, ended) = place.quick(words);
    let whole = run.failures.iter().filter(|row| row.launch.is_none());
    (whole.map(|row| format!("{}: {}", row.point, row.reason)).collect(), ended)
}

#[track_caller]
fn expect_reason(reasons: &[String], probe: &str, parts: &[&str]) {
    let about = reasons.iter().find(|reason| reason.starts_with(&format!("{probe}: ")));
    let about = about.unwrap_or_else(|| panic!("nothing of {probe}: {reasons:?}"));
    assert_contains_all(about, parts);
}

#[test]
fn what_a_program_or_command_does_wrong_is_said() {
    let place = Place::new();
    shell_probes(
        &place,
        &[
            ("rubbish", "program = \"sh -c 'while read n; do echo hello; done'\""),
            ("flood", "program = 'yes'"),
            ("ends", "program = \"sh -c 'echo because >&2; exit 3'\""),
            ("at_once", "program = \"sh -c 'while read n; do echo $n; done'\""),
            ("absent", "program = './nowhere'"),
            ("false", "command = \"sh -c 'echo no luck >&2; false'\""),
            ("nowhere", "command = 'no-such-command'"),
            ("daemon", "command = \"sh -c 'setsid sleep 1000 & true'\""),
            ("loud", "command = 'head -c 100000000 /dev/zero'"),
        ],
    );
    let (reasons, ended) = failed(&place, "bad");
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    for (probe, parts) in [
        ("bad.rubbish", &["answered `hello`", "answer by the line `0`"][..]),
        ("bad.flood", &["`yes`", "wrote `y\\ny\\n"]),
        ("bad.ends", &["ended with exit code 3", "because"]),
        ("bad.at_once", &["returns at once", "n times"]),
        ("bad.absent", &["`./nowhere`"]),
        ("bad.false", &["ended with exit code 1", "no luck"]),
        ("bad.nowhere", &["`no-such-command`"]),
    ] {
        expect_reason(&reasons, probe, parts);
    }
    assert!(!reasons.iter().any(|reason| reason.starts_with("bad.loud: the")), "{reasons:?}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_program_that_answers_nothing_and_a_command_that_does_not_end_are_named() {
    let place = Place::new();
    shell_probes(
        &place,
        &[("silent", "program = 'sleep 1000'"), ("long", "command = 'sleep 1000'")],
    );
    let (reasons, ended) = failed(&place, "bad");
    ended.expect_code(3);
    expect_reason(&reasons, "bad.silent", &["answer within 20 s"]);
    expect_reason(&reasons, "bad.long", &["end within 20 s", "costof time"]);
}

const BAD: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile uint64_t sum;
void good(uint64_t n) { for (uint64_t i = 0; i < n; i++) sum += i; }
void at_once(uint64_t n) {}
void constant(uint64_t n) { usleep(1000); }
void crash(uint64_t n, uint64_t when) { if (when) *(volatile int *)0 = 1; good(n); }
void crash_later(uint64_t n) { if (fork() == 0) { setsid(); sleep(1000); } *(volatile int *)0 = 1; }
void leave(uint64_t n) { exit(0); }
void child(uint64_t n) { static int once; if (!once++ && fork() == 0) { setsid(); sleep(1000); } good(n); }
void print(uint64_t n) { for (int i = 0; i < 100000; i++) puts("{\"is\":\"ran\"}"); good(n); }
static void *spin(void *none) { for (;;) sum++; }
void threads(void) { pthread_t thread; pthread_create(&thread, 0, spin, 0); }
"#;

#[test]
fn what_a_function_does_wrong_is_said() {
    or_skip!(is_installed("cc").then_some(()).ok_or("no C compiler"));
    let place = Place::new();
    fs::write(place.path("bad.c"), BAD).unwrap();
    fs::write(place.path("text.so"), "no object").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-w", "-o", "bad.so", "bad.c", "-lpthread"]);
    let built = run(cc.current_dir(place.path("")));
    built.expect_code(0);
    let function = |name: &str| format!("object = 'bad.so'\nfunction = '{name}'");
    shell_probes(
        &place,
        &[
            ("good", &function("good")),
            ("at_once", &function("at_once")),
            ("constant", &function("constant")),
            ("crash", &(function("crash") + "\naxes = [{ name = 'when', values = [0, 1] }]")),
            ("crash_later", &function("crash_later")),
            ("leave", &function("leave")),
            ("child", &function("child")),
            ("print", &function("print")),
            ("threads", &(function("good") + "\nsetup = 'threads'")),
            ("symbol", &function("nowhere")),
            ("file", "object = 'nowhere.so'\nfunction = 'f'"),
            ("text", "object = 'text.so'\nfunction = 'f'"),
        ],
    );
    let (reasons, ended) = failed(&place, "bad");
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    for (probe, parts) in [
        ("bad.at_once", &["at_once returns at once", "however large n is"][..]),
        ("bad.crash when=1", &["SIGSEGV"]),
        ("bad.crash_later", &["SIGSEGV"]),
        ("bad.leave", &["exit code 0"]),
        ("bad.symbol", &["no function `nowhere`", "extern \"C\""]),
        ("bad.file", &["nowhere.so", "No such file", "build it first"]),
        ("bad.text", &["shared object", "text.so"]),
    ] {
        expect_reason(&reasons, probe, parts);
    }
    let run = place.run_file();
    // A launch in which the kernel never ran the other thread is as good as any.
    let of_threads = run.failures.iter().filter(|row| row.point.probe == "bad.threads");
    for lost in of_threads {
        assert_contains_all(&lost.reason, &["threads", "`costof time`"]);
    }
    for probe in ["bad.good", "bad.child"] {
        let of = run.launches.iter().flat_map(|launch| &launch.points);
        let mut metrics =
            of.filter(|given| given.point.probe == probe).flat_map(|given| &given.metrics);
        assert!(metrics.any(|metric| metric.name == "cost"), "{probe} has no cost: {run:?}");
    }
    for probe in ["bad.constant", "bad.print"] {
        let lost = run.failures.iter().filter(|row| row.point.probe == probe);
        // A busy machine may make some launch take longer for more.
        let is_refuted =
            |reason: &str| reason.contains("n times") || reason.contains("twice the work");
        assert!(lost.clone().count() > 0 && lost.clone().all(|row| is_refuted(&row.reason)));
    }
}

#[test]
fn other_hosts_need_the_file_too() {
    let place = examples();
    let there = format!("exec:{} worker", crate::common::COSTOF);
    let mut command =
        place.costof("run fnv.python --set size=64 --only --quick --out a.jsonl --on");
    let ended = run(command.arg(&there));
    assert_contains_all(&ended.err, &["fnv.python", "need their file"]);
    ended.expect_code(3);
    let file = place.path("costof.toml");
    let there = format!("{there} --project {}", Path::new(&file).display());
    or_skip!(is_installed("python3").then_some(()).ok_or("no python3"));
    let mut command =
        place.costof("run fnv.python --set size=64 --only --quick --out b.jsonl --on");
    run(command.arg(&there)).expect_measured();
    assert!(place.read("b.jsonl").launches.iter().any(|launch| !launch.points.is_empty()));
    place.expect_nothing_runs();
}

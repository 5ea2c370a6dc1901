//! `costof study`: the list, a teacher's own file measured for real, and what is wrong told.

use crate::common::{
    Place, assert_contains, assert_contains_all, ended, expect_complete, read, run, signal, spawn,
    wait_for,
};
use costof_model::run_file::Run;
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A study of two cheap probes, as somebody writes one who has read docs/STUDIES.md.
const OWN: &str = r#"
title = "Two costs that we published"
source = "our course, 2026"
machine = "the laptop in room 5"
misled = ["we measured each of them once"]

[[run]]
what = "cpu.clock --set source=tsc,monotonic"

[[run]]
what = "os.syscall --set call=getppid,read"
quick = "os.syscall --set call=getppid"

[[table]]
title = "Clocks"
unit = "ns"
point = "cpu.clock"
rows = [
  { name = "the counter", predicted = [5, 10], measured = 20, at = "source=tsc", misled = "with CPUID before it" },
  { name = "a thousand reads", unit = "µs", measured = 20, at = "source=tsc", times = 1000 },
  { name = "the counter, in cycles", unit = "cycles", measured = 1, at = "source=tsc" },
  { name = "a clock that nobody asked", measured = 20, at = "source=realtime" },
]

[[table]]
title = "System calls | both"
unit = "ns"
point = "os.syscall"
columns = [{ name = "getppid", at = "call=getppid" }, { name = "read", at = "call=read" }]
rows = [
  { name = "a call", measured = [0.001, 300] },
  { name = "by an unoptimised build", measured = [100, 300], unoptimised = true },
  { name = "<b>of another machine</b>", measured = "plot", absent = "we have it no more" },
]

[[question]]
ask = "Which levels of memory are there?"
theirs = "three"
kinds = ["memory_levels"]
because = "this study has no memory in it"
"#;

/// The cells of the line of a table that begins so.
fn line<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let found = text
        .lines()
        .find(|line| line.trim_start().starts_with(name));
    let line = found.unwrap_or_else(|| panic!("no line of {name} in:\n{text}"));
    line.trim_start()[name.len()..]
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .map(str::trim)
        .collect()
}

#[test]
fn studies_are_listed() {
    let place = Place::new();
    let listed = run(&mut place.costof("study")).expect_code(0).out;
    for name in [
        "copy-primitives",
        "system-measurement",
        "latency-numbers",
        "reliable-datagrams",
        "rpc",
    ] {
        assert!(listed.contains(name), "{name} in {listed}");
    }
}

#[test]
fn a_study_of_ones_own_is_measured_and_held_beside_its_figures() {
    let place = Place::new();
    fs::write(place.path("own.toml"), OWN).unwrap();
    let words = "study own.toml --quick --csv";
    let ended = run(&mut place.costof(words)).expect_code(0);
    let out = &ended.out;
    assert_contains(&ended.err, "--unoptimised target/debug/costof");
    // Predicted, published, here, interval, ratio, grade, mark.
    let counter = line(out, "the counter  ");
    assert_eq!(counter[..2], ["5 to 10 ns", "20 ns"], "{out}");
    assert!(
        counter[2].ends_with(" ns") && counter[3].contains('–') && counter.last() == Some(&"[1]"),
        "{counter:?}"
    );
    let here: f64 = counter[2].trim_end_matches(" ns").parse().unwrap();
    let ratio: f64 = counter[4].parse().unwrap();
    assert!((here / 20.0 - ratio).abs() < 0.01 * ratio, "{counter:?}");
    let thousand = line(out, "a thousand reads");
    let thousand: f64 = thousand[1].trim_end_matches(" µs").parse().unwrap();
    assert!((thousand - here).abs() < 0.01 * here, "{out}");
    assert!(
        line(out, "the counter, in cycles")[1].ends_with(" cycles"),
        "{out}"
    );
    for says in [
        "[1] misled: with CPUID before it",
        "not measured here: it is left out of a quick run",
        "not measured here: there is no unoptimised.jsonl beside the run",
        "not measured here: we have it no more",
        "we measured each of them once",
        "they: three",
        "here: not answered here, because this study has no memory in it",
    ] {
        let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&flat, says);
    }
    expect_complete(&read(&place.path("study-own/run.jsonl")));
    let text = |name: &str| fs::read_to_string(place.path("study-own").join(name)).unwrap();
    let page = text("page.html");
    for part in [
        "<section id=\"study\">",
        "Two costs that we published",
        "&lt;b&gt;of another",
        "href=\"#p0\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let markdown = text("study.md");
    assert_contains(&markdown, "## System calls \\| both");
    assert_contains(&markdown, "| the counter | 5 to 10 ns | 20 ns |");
    assert!(text("csv/summary.csv").contains("os.syscall"));

    // What was measured is not measured over, and can be shown again.
    run(&mut place.costof(words)).expect_wrong(&[
        "study-own/run.jsonl is there already",
        "study own.toml --run",
    ]);
    let again = [
        "study",
        "own.toml",
        "--run",
        "study-own/run.jsonl",
        "--out",
        "again",
    ];
    let again = run(&mut place.costof(&again)).expect_code(0);
    assert_eq!(again.out, *out);
    assert!(place.path("again/page.html").exists() && !place.path("again/run.jsonl").exists());
}

#[test]
fn an_unoptimised_build_measures_what_is_asked_of_it() {
    let place = Place::new();
    let own = OWN.replace("getppid,read\"", "getppid,read\"\nunoptimised = true");
    fs::write(place.path("own.toml"), own).unwrap();
    let costof = place.costof(&[]);
    // Any costof will do.
    let build = Place::program(&costof);
    let words = ["study", "own.toml", "--unoptimised", build, "--out", "o"];
    let ended = run(&mut place.costof(&words)).expect_code(0);
    let line = line(&ended.out, "by an unoptimised build: getppid");
    assert!(
        line[1].ends_with(" ns") && line[2].contains('–'),
        "{line:?}"
    );
    assert_contains_all(
        &ended.out,
        &["not in turns with it", "are the same program"],
    );
    let other = read(&place.path("o/unoptimised.jsonl"));
    expect_complete(&other);
    let first = read(&place.path("o/run.jsonl"));
    let measured = |run: &Run| run.run.plan.placement.0.get("only").cloned();
    assert_eq!(measured(&other), measured(&first));
    assert!(
        other
            .points
            .iter()
            .all(|row| row.point.probe == "os.syscall")
    );
}

/// A program of this name in the place.
fn script(place: &Place, name: &str, text: &str) {
    fs::write(place.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(place.path(name), Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_no_unoptimised_build_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let own = OWN.replace("getppid,read\"", "getppid,read\"\nunoptimised = true");
    fs::write(place.path("own.toml"), own).unwrap();
    let costof = place.costof(&[]);
    let costof = Place::program(&costof);
    script(&place, "plain", "echo no costof");
    fs::set_permissions(place.path("plain"), Permissions::from_mode(0o644)).unwrap();
    script(&place, "other", "echo no costof");
    let says = |text: &str| format!("'{costof}' \"$@\" | sed -u '{text}'");
    script(
        &place,
        "later",
        &says(r#"s/"protocol":[0-9]*/"protocol":99/"#),
    );
    script(
        &place,
        "release",
        &says(r#"s/"unoptimised":true/"unoptimised":false/"#),
    );
    let study = |build: &str| {
        let words = ["study", "own.toml", "--quick", "--out", "o"];
        run(place.costof(&words).args(["--unoptimised", build]))
    };
    for (build, named) in [
        ("plain", "ermission denied"),
        ("other", "no costof to ask"),
        ("later", "protocol 99"),
        ("release", "is an optimised build"),
    ] {
        study(build).expect_wrong(&["--unoptimised", named]);
        assert!(!place.path("o").exists(), "{build}");
    }
    // Nor is what is left of another.
    fs::create_dir(place.path("o")).unwrap();
    fs::write(place.path("o/unoptimised.jsonl"), "mine").unwrap();
    study(costof).expect_wrong(&["o/unoptimised.jsonl is there already", "--out"]);
    assert!(!place.path("o/run.jsonl").exists());
}

#[test]
fn what_was_measured_is_shown_though_the_unoptimised_build_fails() {
    let place = Place::new();
    let own = OWN.replace("getppid,read\"", "getppid,read\"\nunoptimised = true");
    fs::write(
        place.path("own.toml"),
        own.replace("getppid,read", "getppid"),
    )
    .unwrap();
    let costof = place.costof(&[]);
    let costof = Place::program(&costof);
    // It answers once.
    let once = format!("[ -e met ] && exit 7\n: > met\nexec '{costof}' \"$@\"");
    script(&place, "once", &once);
    let words = ["study", "own.toml", "--quick", "--out", "o"];
    let failed = run(place.costof(&words).args(["--unoptimised", "once"])).expect_code(3);
    line(&failed.out, "the counter  ");
    let again = "costof study own.toml --quick --unoptimised once --out o";
    assert!(
        failed.err.contains("exit code 7") && failed.err.contains(again),
        "{}",
        failed.err
    );
    assert!(place.path("o/page.html").exists() && place.path("o/study.md").exists());
}

#[test]
fn a_study_whose_first_half_was_interrupted_goes_on_with_the_second() {
    let place = Place::new();
    let study = r#"
title = "t"
source = "s"
machine = "m"
run = [{ what = "test.good", unoptimised = true }, { what = "test.hang --set how=once" }]

[[table]]
title = "both"
unit = "ns"
rows = [{ name = "unoptimised", point = "test.good", unoptimised = true }]
"#;
    fs::write(place.path("own.toml"), study).unwrap();
    let misbehaving = place.misbehaving(&[]);
    let build = Place::program(&misbehaving);
    let words = format!("study own.toml --quick --out o --unoptimised {build}");
    let words: Vec<&str> = words.split(' ').collect();
    let controller = spawn(&mut place.misbehaving(&words));
    wait_for("the probe to hang", || place.path("hanging").exists());
    signal(&controller, Signal::INT);
    let told = ended(controller).expect_code(130).err;
    assert_contains_all(
        &told,
        &[
            "costof run --resume o/run.jsonl",
            &format!("costof study own.toml --quick --unoptimised {build} --out o"),
        ],
    );
    run(&mut place.misbehaving(&words)).expect_wrong(&["was interrupted", "--resume o/run.jsonl"]);
    run(&mut place.misbehaving("run --resume o/run.jsonl")).expect_code(0);
    let other: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| *word != "--quick")
        .collect();
    run(&mut place.misbehaving(&other)).expect_wrong(&["by precision quick", "for default"]);

    let first = fs::read(place.path("o/run.jsonl")).unwrap();
    let shown = run(&mut place.misbehaving(&words)).expect_code(0);
    assert!(
        line(&shown.out, "unoptimised  ")[0].ends_with(" ns"),
        "{}",
        shown.out
    );
    expect_complete(&read(&place.path("o/unoptimised.jsonl")));
    assert_eq!(fs::read(place.path("o/run.jsonl")).unwrap(), first);
    run(&mut place.misbehaving(&words)).expect_wrong(&["o/run.jsonl is there already"]);
}

#[test]
fn a_study_can_be_planned_without_measuring() {
    let place = Place::new();
    let own = OWN.replace("getppid,read\"", "getppid,read\"\nunoptimised = true");
    fs::write(place.path("own.toml"), own).unwrap();
    let planned = run(&mut place.costof("study own.toml --dry-run")).expect_code(0);
    assert!(planned.out.contains("os.syscall call=read") && planned.out.contains("about"));
    let costof = place.costof(&[]);
    let build = Place::program(&costof);
    let words = ["study", "own.toml", "--dry-run", "--unoptimised", build];
    let both = run(&mut place.costof(&words)).expect_code(0).out;
    let (first, second) = both.split_once("And after that by exec:").expect(&both);
    assert_eq!(first.trim_end(), planned.out.trim_end());
    assert!(
        second.contains("os.syscall call=read") && !second.contains("cpu.clock"),
        "{second}"
    );
    assert!(!place.path("study-own").exists());
}

#[test]
fn what_is_no_study_is_told() {
    let place = Place::new();
    let wrong = |words: &[&str], named: &[&str]| {
        run(&mut place.costof(words)).expect_wrong(named);
    };
    wrong(
        &["study", "latency-number"],
        &["did you mean `latency-numbers`", "rpc"],
    );
    let write = |text: &str| fs::write(place.path("bad.toml"), text).unwrap();
    write("title = 5\n");
    wrong(&["study", "bad.toml"], &["bad.toml, line 1", "title = 5"]);
    write(&OWN.replace("point = \"os.syscall\"", "point = \"os.sycall\""));
    wrong(
        &["study", "bad.toml"],
        &[
            "bad.toml, line 3",
            "`os.sycall`",
            "did you mean `os.syscall`",
        ],
    );
    write(&OWN.replace("--set source=tsc,monotonic", "--set sorce=tsc"));
    wrong(
        &["study", "bad.toml", "--out", "o"],
        &["bad.toml, line 8", "sorce"],
    );
    assert!(!place.path("o").exists());
    write(&OWN.replace("cpu.clock --set source=tsc,monotonic", "cpu.clock --quick"));
    wrong(&["study", "bad.toml"], &["bad.toml, line 8", "--quick"]);
    fs::write(place.path("bytes.toml"), [0xff, 0xfe]).unwrap();
    wrong(&["study", "bytes.toml"], &["cannot read bytes.toml"]);
    fs::write(place.path("long.toml"), "#".repeat(2 << 20)).unwrap();
    wrong(&["study", "long.toml"], &["longer than"]);
    wrong(
        &["study", "rpc", "--run", "none.jsonl"],
        &["cannot open none.jsonl"],
    );
    wrong(
        &[
            "study",
            "rpc",
            "--unoptimised",
            "/nowhere/costof",
            "--dry-run",
        ],
        &["/nowhere/costof"],
    );
}

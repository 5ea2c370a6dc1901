//! `costof study`: the list, a teacher's own file measured for real, and what is wrong told.

use crate::common::{Place, assert_contains, assert_contains_all, expect_every_launch, interrupt};
use std::fs;

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
  { name = "<b>of another machine</b>", measured = "plot", absent = "we have it no more" },
]

[[plot]]
title = "Clocks, drawn"
point = "cpu.clock"
over = "source"
at = "source=tsc,monotonic"
metric = "cost"

[[question]]
ask = "Which levels of memory are there?"
theirs = "three"
kinds = ["memory_levels"]
because = "this study has no memory in it"
"#;

/// A place with this study as `own.toml`.
fn with_study(study: &str) -> Place {
    let place = Place::new();
    fs::write(place.path("own.toml"), study).unwrap();
    place
}

/// The cells of the line of a table that begins so.
fn line<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut lines = text.lines().map(str::trim_start);
    let line = lines.find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no line of {name} in:\n{text}"));
    let cells = line.split("  ").filter(|cell| !cell.is_empty());
    cells.map(str::trim).collect()
}

#[test]
fn studies_are_listed() {
    let listed = Place::new().run("study").expect_code(0).out;
    assert_contains_all(
        &listed,
        &[
            "copy-primitives",
            "system-measurement",
            "latency-numbers",
            "reliable-datagrams",
            "rpc",
            "napkin",
            "points, about ",
            "; with --quick ",
        ],
    );
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_study_of_ones_own_is_measured_and_held_beside_its_figures() {
    let place = with_study(OWN);
    let command = "study own.toml --quick";
    let measured = place.run(command).expect_measured();
    let file = "study-own/run.jsonl";
    expect_every_launch(&place.read(file));
    // What was measured is not measured over, and can be shown again.
    place
        .run(command)
        .expect_wrong(&["study-own/run.jsonl exists already", "study own.toml --run"]);
    let show = |out: &str| place.run(&format!("study own.toml --run {file} --out {out}"));
    assert_eq!(show("again").expect_code(0).out, measured.out);
    assert!(place.path("again/page.html").exists() && !place.path("again/run.jsonl").exists());

    place.make_quiet(file);
    let out = &show("shown --csv --svg").expect_code(0).out;
    // Predicted, published, here, interval, ratio, grade, mark.
    let counter = line(out, "the counter  ");
    assert_eq!(counter[..2], ["5 to 10 ns", "20 ns"], "{out}");
    assert_contains(counter[3], "–");
    assert_eq!(counter.last(), Some(&"[1]"), "{counter:?}");
    let here: f64 = counter[2].strip_suffix(" ns").unwrap().parse().unwrap();
    let ratio: f64 = counter[4].parse().unwrap();
    assert!((here / 20.0 - ratio).abs() < 0.01 * ratio, "{counter:?}");
    let thousand = line(out, "a thousand reads");
    let thousand: f64 = thousand[1].trim_end_matches(" µs").parse().unwrap();
    assert!((thousand - here).abs() < 0.01 * here, "{out}");
    let cycles = line(out, "the counter, in cycles")[1];
    assert!(cycles.ends_with(" cycles"), "{out}");
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts = [
        "3 of the study's 4 points",
        "CPUs and took ",
        "Without a number: 1",
        "[1] misled: ",
        "here: left out",
        "it no more",
        "each of them once",
        "they: three",
        "here: not answered here",
    ];
    assert_contains_all(&flat, &parts);
    let text = |name: &str| fs::read_to_string(place.path("shown").join(name)).unwrap();
    assert_contains_all(
        &text("page.html"),
        &[
            "<section id=\"study\">",
            "Two costs that we published",
            "&lt;b&gt;of another",
            "href=\"#p0\"",
        ],
    );
    let row = "| the counter | 5 to 10 ns | 20 ns |";
    assert_contains_all(&text("study.md"), &["## System calls \\| both", row]);
    assert_contains(&text("csv/summary.csv"), "os.syscall");
    assert_contains(&text("svg/study-01-cpu.clock-cost-by-source.svg"), "<svg");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_study_that_was_interrupted_says_how_to_go_on() {
    let study = r#"
title = "t"
source = "s"
machine = "m"
run = [{ what = "test.good" }, { what = "test.hang --set how=once" }]

[[table]]
title = "one"
unit = "ns"
rows = [{ name = "good", point = "test.good" }]
"#;
    let place = with_study(study);
    let command = "study own.toml --quick --out o";
    let told = interrupt(place.hanging(&mut place.misbehaving(command))).err;
    let shows = "costof study own.toml --run o/run.jsonl";
    assert_contains_all(&told, &["costof run --resume o/run.jsonl", shows]);
    let again = |line: &str| place.run_misbehaving(line);
    again(command).expect_wrong(&["o/run.jsonl exists already", "--out"]);
    again("run --resume o/run.jsonl").expect_code(0);
    place.make_quiet("o/run.jsonl");
    let shown = again("study own.toml --run o/run.jsonl").expect_code(0).out;
    assert!(line(&shown, "good  ")[0].ends_with(" ns"), "{shown}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_study_can_be_planned_without_measuring() {
    let place = with_study(OWN);
    let planned = place.run("study own.toml --dry-run").expect_code(0).out;
    assert_contains_all(&planned, &["os.syscall call=read", "about"]);
    assert!(!place.path("study-own").exists());
}

#[test]
fn what_is_no_study_is_told() {
    for (text, named) in [
        (b"title = 5\n".to_vec(), &["own.toml, line 1", "title = 5"][..]),
        (
            OWN.replace("point = \"os.syscall\"", "point = \"os.sycall\"").into(),
            &["own.toml, line 3", "`os.sycall`", "did you mean `os.syscall`"],
        ),
        (
            OWN.replace("--set source=tsc,monotonic", "--set sorce=tsc").into(),
            &["own.toml, line 8", "sorce"],
        ),
        (
            OWN.replace("cpu.clock --set source=tsc,monotonic", "cpu.clock --quick").into(),
            &["own.toml, line 8", "--quick"],
        ),
        (vec![0xff, 0xfe], &["cannot read own.toml"]),
        (vec![b'#'; 2 << 20], &["longer than"]),
    ] {
        let place = Place::new();
        fs::write(place.path("own.toml"), text).unwrap();
        place.run("study own.toml --out o").expect_wrong(named);
        assert!(!place.path("o").exists());
    }
}

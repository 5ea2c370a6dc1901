//! `costof study` in a classroom: what a student predicts before anything is measured, and sheets.

use crate::common::{Place, assert_contains, assert_contains_all};
use costof_model::rows::Guess;
use std::fs;

/// The study of a course, with one probe that is measured in a moment.
const STUDY: &str = r#"
title = "Entering the kernel"
source = "our course, 2026"
machine = "the laptop in room 5"

[[run]]
what = "os.syscall --set call=getppid,read"

[[table]]
title = "System calls"
unit = "ns"
point = "os.syscall"
rows = [
  { name = "getppid", measured = 70, at = "call=getppid", note = "the smallest call that enters the kernel" },
  { name = "read of one byte", measured = [0.001, 30000], at = "call=read" },
  { name = "a call of another machine", measured = 5, absent = "we have it no more" },
]

[[plot]]
title = "Calls"
point = "os.syscall"
over = "call"
at = "call=getppid,read"
metric = "cost"

[[question]]
ask = "Which levels of memory are there?"
kinds = ["memory_levels"]
because = "this study has no memory in it"
"#;

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path("lab.toml"), STUDY).unwrap();
    place
}

/// A form with these lines, and what costof says to it.
fn form(place: &Place, lines: &str) {
    fs::write(place.path("form"), lines).unwrap();
}

#[test]
fn a_form_to_predict_is_printed_and_a_wrong_one_measures_nothing() {
    let place = place();
    let printed = place.run("study lab.toml --predict --dry-run").expect_code(0).out;
    assert!(
        printed.ends_with("[System calls]\ngetppid (ns) =\nread of one byte (ns) =\n"),
        "{printed}"
    );
    let command = "study lab.toml --predictions form --out o";
    form(&place, &printed);
    place.run(command).expect_wrong(&["form: no number is filled in"]);
    form(&place, "[System calls]\ngetpid (ns) = 5");
    place.run(command).expect_wrong(&[
        "form, line 2",
        "`getpid (ns)`",
        "did you mean `getppid (ns)`",
    ]);
    place.run("study lab.toml --predict --out o").expect_wrong(&["nothing is predicted"]);
    // Nobody is asked before there is a plan.
    let unplanned =
        place.run("study lab.toml --predict --cpu 9999 --out o").expect_wrong(&["9999"]);
    assert!(!unplanned.err.contains("to predict"), "{unplanned:?}");
    assert!(!place.path("o").exists());
}

#[test]
fn a_sheet_is_printed_without_measuring_and_its_key_needs_a_run() {
    let place = place();
    place.run("study lab.toml --sheet lab.html").expect_code(0);
    let sheet = fs::read_to_string(place.path("lab.html")).unwrap();
    let parts = ["<td>getppid</td>", "--predict --dry-run", "Which levels of memory are there?"];
    assert_contains_all(&sheet, &parts);
    place
        .run("study lab.toml --sheet key.html --key")
        .expect_wrong(&["study-lab/run.jsonl", "--run"]);
    place.run("run sync.mutex --quick --only").expect_measured();
    let key = "study copy-primitives --run @1 --sheet key.html --key";
    let ended = place.run(key).expect_code(3);
    assert_contains(&ended.err, "none of the study's points");
    assert!(!place.path("key.html").exists());
    let drawn = place.run("study copy-primitives --sheet copies.html").expect_code(0);
    assert_contains(&drawn.err, "copies.html");
    let copies = fs::read_to_string(place.path("copies.html")).unwrap();
    assert_contains(&copies, "Where bytes are copied, and who pays");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn predictions_are_in_the_run_before_its_launches_and_are_scored() {
    let place = place();
    form(&place, "[System calls]\ngetppid (ns) = 9 s\nread of one byte (ns) =\n");
    place.run("study lab.toml --quick --predictions form --out o").expect_measured();
    let text = fs::read_to_string(place.path("o/run.jsonl")).unwrap();
    assert_contains(text.lines().next().unwrap(), r#""guesses":[{"table":"System calls""#);
    let run = place.make_quiet("o/run.jsonl");
    let guess = Guess {
        table: "System calls".to_owned(),
        row: "getppid".to_owned(),
        value: 9e9,
        unit: "ns".to_owned(),
    };
    assert_eq!(run.run.guesses, [guess]);
    let shown = place.run("study lab.toml --run o/run.jsonl").expect_code(0).out;
    assert_contains_all(
        &shown,
        &[
            "Your predictions",
            "You: 0 of 1 within three times",
            "getppid: ",
            " times too high. Why: ",
        ],
    );
    assert_contains(&fs::read_to_string(place.path("o/study.md")).unwrap(), "| you predicted |");
    place.run("study lab.toml --run o/run.jsonl --sheet key.html --key").expect_code(0);
    let key = fs::read_to_string(place.path("key.html")).unwrap();
    assert_contains_all(
        &key,
        &["the answers of one machine", "not answered here, because", "70 ns"],
    );
    place.run("study lab.toml --run o/run.jsonl --markdown report").expect_code(0);
    let report = fs::read_to_string(place.path("report/report.md")).unwrap();
    assert_contains_all(&report, &["## System calls", "## The machine", "![Calls](study-01-"]);
    let plot = report.split_once("![Calls](").unwrap().1.split(')').next().unwrap();
    assert_contains(&fs::read_to_string(place.path("report").join(plot)).unwrap(), "<svg");
    // A class of three: the run itself, and two that differ in their identity.
    fs::create_dir(place.path("runs")).unwrap();
    for name in ["one", "two", "three"] {
        let mut own = run.clone();
        own.run.id = name.to_owned();
        let hosts = own.attempts.iter_mut().flat_map(|attempt| attempt.hosts.values_mut());
        hosts.for_each(|facts| facts.host_name = Some("secret-host".to_owned()));
        place.write(&format!("runs/{name}.jsonl"), own);
    }
    let class = place.run("study lab.toml --collect runs --out class").expect_code(0);
    let parts =
        ["3 runs, 3 with predictions", "getppid: the median prediction of 3 was", "machine 3"];
    assert_contains_all(&class.out, &parts);
    let two = "study lab.toml --collect runs/one.jsonl runs/two.jsonl --out class";
    assert_contains(&place.run(two).expect_code(0).out, "2 runs, 2 with predictions");
    place.run("study lab.toml --collect @99999 --out class").expect_wrong(&["99999"]);
    let page = fs::read_to_string(place.path("class/class.html")).unwrap();
    assert!(!(class.out + &page).contains("secret-host"));
}

#[test]
fn every_mistake_of_a_study_is_named_by_its_line() {
    let place = place();
    let checked = place.run("study lab.toml --check").expect_code(0).out;
    assert_contains(&checked, "no mistake; it measures 2 points, about ");
    let own = |changes: &[(&str, &str)]| {
        let text = changes.iter().fold(STUDY.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        fs::write(place.path("own.toml"), text).unwrap();
    };
    own(&[
        ("call=getppid,read", "cal=read"),
        ("at = \"call=getppid\"", "at = \"call=getppd\""),
        ("memory_levels", "memory_level"),
    ]);
    place.run("study own.toml --check").expect_wrong(&[
        "own.toml, line 7",
        "own.toml, line 14",
        "`getppd`",
        "own.toml, line 28",
        "did you mean `memory_levels`",
    ]);
    own(&[("read of one byte", "getppid")]);
    let twice = "own.toml, line 15, name of `getppid`: this table has another row of that name";
    place.run("study own.toml --check").expect_wrong(&[twice]);
    // What no run of the study measures would have no number.
    own(&[("call=getppid,read", "call=getppid")]);
    let unmeasured = "own.toml, line 15, point of `read of one byte`: no `[[run]]` measures";
    place.run("study own.toml --check").expect_wrong(&[unmeasured]);
    place.run("study latency-numbers --check").expect_code(0);
}

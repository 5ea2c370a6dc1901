//! `costof runs`, and how runs are named by their numbers.

use crate::common::{Place, assert_contains, assert_contains_all};
use std::fs;
use std::os::unix::fs::symlink;

/// The seed of the run of this name.
fn seed(place: &Place, name: &str) -> String {
    let run = place.run(&format!("export {name}")).expect_code(0).out;
    let (_, seed) = run.split_once("\"seed\":").unwrap();
    seed.split(',').next().unwrap().to_owned()
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn runs_are_listed_and_named_by_number_wherever_they_are() {
    let place = Place::new();
    assert_contains(&place.run("runs").expect_code(0).out, "`costof run` makes one");
    let other = place.path("other.jsonl");
    for line in ["--seed 1", "--seed 2 --out other.jsonl"] {
        place.run(&format!("run null --only --quick {line}")).expect_code(0);
    }
    let runs = place.run("runs").expect_code(0).out;
    let [_, latest, before] = runs.lines().collect::<Vec<_>>()[..] else {
        panic!("not two runs: {runs}");
    };
    assert_contains_all(latest, &["@1 ", " 1 ", " harness.null ", "/other.jsonl"]);
    assert_contains_all(before, &["@2 ", " harness.null ", "state/costof/runs/"]);
    assert_eq!([seed(&place, "@1"), seed(&place, "@2")], ["2", "1"]);
    place.run("export @3").expect_wrong(&["@3", "@2 the oldest", "costof runs"]);
    // On a busy machine nothing may be comparable, but the two are named.
    let compared = place.run("compare").out;
    let (before, after) = compared.lines().next().unwrap().split_once(" → ").unwrap();
    assert_contains(before, "state/costof/runs/");
    assert_contains(after, "/other.jsonl");

    // What lies between and has nothing in common is passed over.
    place.run("run cpu.loop --quick --only --out third.jsonl").expect_code(0);
    place.run("compare").expect_wrong(&["history"]);
    place.run("run null --quick --only").expect_code(0);
    let compared = place.run("compare");
    assert_contains(&compared.err, "@3 with @1: it has 1 of the 1");
    assert_contains_all(&compared.out, &["/other.jsonl → ", "state/costof/runs/"]);
    // The run with most points in common, and not the newest with any.
    let fourth = "run null cpu.loop --quick --only --out fourth.jsonl";
    place.run(fourth).expect_code(0);
    assert_contains(&place.run("compare").err, "@3 with @1: it has 3 of the 4");
    fs::remove_file(place.path("fourth.jsonl")).unwrap();
    fs::remove_file(place.path("third.jsonl")).unwrap();
    let (_, latest) = compared.out.split_once(" → ").unwrap();
    fs::remove_file(latest.lines().next().unwrap()).unwrap();

    // Of a run that is not finished, or that somebody else wrote.
    let text = fs::read_to_string(&other).unwrap();
    let (rows, _) = text.split_once("{\"type\":\"end\"").unwrap();
    fs::write(&other, rows).unwrap();
    assert_contains(&place.run("runs").out, "1, unfinished");
    place.run("run --resume @1").expect_code(0);
    assert!(!place.run("runs").out.contains("unfinished"));
    fs::write(&other, rows.replace(":\"harness.null\"", ":\"nu\\u001bll\"")).unwrap();
    let runs = place.run("runs").expect_code(0).out;
    assert_contains(&runs, " nu\u{fffd}ll ");
    assert!(!runs.contains('\x1b'), "{runs}");
    fs::remove_file(&other).unwrap();
    assert_eq!(seed(&place, "@1"), "1");
}

#[test]
fn a_pipe_or_link_in_the_history_is_neither_waited_for_nor_written_to() {
    let place = Place::new();
    let runs = place.path("state/costof/runs");
    fs::create_dir_all(&runs).unwrap();
    let pipe = "mkfifo state/costof/runs/20991231T235959Z-0.jsonl";
    place.command(pipe).status().unwrap();
    symlink("/dev/zero", runs.join("20991231T235958Z-0.jsonl")).unwrap();
    let line = "run null --only --quick --launches 3 --out run.jsonl";
    place.run(line).expect_code(0);
    for line in [
        "show",
        "runs",
        "report --markdown",
        "export @1",
        "compare",
        "estimate null",
        "run --resume @1",
        "history",
    ] {
        assert!(place.run(line).code.is_some_and(|code| code <= 3), "{line}");
    }
}

#[test]
fn a_run_that_was_moved_is_found_where_it_was_resumed_and_no_file_of_its_name_is_lost() {
    let place = Place::new();
    let runs = place.path("state/costof/runs");
    place.run("run harness.null --only --quick --launches 3 --out run.jsonl").expect_code(0);
    let link = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_link(&link).unwrap(), place.path("run.jsonl").canonicalize().unwrap());
    let cut = || {
        let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
        let (rows, _) = text.split_once("{\"type\":\"end\"").unwrap();
        fs::write(place.path("moved.jsonl"), rows).unwrap();
    };
    cut();
    assert_eq!(place.run("runs").expect_code(0).out.lines().count(), 2);
    place.run("run --resume moved.jsonl").expect_code(0);
    assert_contains(&place.run("runs").expect_code(0).out, "/moved.jsonl");
    // A copy of a run in the history does not take its place there.
    fs::remove_file(&link).unwrap();
    fs::copy(place.path("run.jsonl"), &link).unwrap();
    cut();
    place.run("run --resume moved.jsonl").expect_code(0);
    assert!(!link.is_symlink());
}

#[test]
fn a_minus_is_standard_output_and_a_folder_stands_for_its_runs() {
    let place = Place::new();
    let run = place.run("run null --only --quick --out -").expect_code(0);
    assert!(run.out.starts_with("{\"type\":\"run\""), "{}", run.out);
    std::fs::create_dir(place.path("runs")).unwrap();
    place.run("run null --only --quick --out runs/one.jsonl").expect_code(0);
    let page = place.run("report runs --html -").expect_code(0);
    assert!(page.out.starts_with("<!DOCTYPE html>"), "{}", page.out);
    for line in ["show runs", "report runs --csv -", "export runs --out -"] {
        let ended = place.run(line).expect_code(0);
        assert!(ended.out.contains("harness"), "{line}: {}", ended.out);
        assert!(!place.path("-").exists(), "{line}");
    }
    place.run("report runs --html - --csv -").expect_wrong(&["standard output"]);
    place.run("report runs --svg -").expect_wrong(&["needs a folder"]);
    place.run("run null --only --quick --out runs/two.jsonl").expect_code(0);
    place.run("show runs").expect_wrong(&["2 run files", "two.jsonl"]);
    let compared = place.run("fleet runs --html -");
    assert!(compared.out.starts_with("<!DOCTYPE html>"), "{}", compared.out);
}

#[test]
fn more_points_than_a_run_can_have_are_refused_at_once() {
    let place = Place::new();
    let sizes: Vec<String> = (1..=150_000).map(|size| size.to_string()).collect();
    // In several options, each of which fits the command line's limit.
    let sets: Vec<String> =
        sizes.chunks(15_000).map(|some| format!("--set size={}", some.join(","))).collect();
    let crossed = "--set source=hot,cold --set align=both,source,destination,neither";
    let line = format!("run --dry-run cpu.memcpy {crossed} {}", sets.join(" "));
    place.run(&line).expect_wrong(&["points, of which", "--set"]);
}

//! Where a run is written, and what becomes of it where it cannot be.

use crate::common::{Place, assert_contains, expect_complete, read, run, within_script};
use std::fs;

const RUN: &str = "run test.good --quick";

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_is_kept_in_the_history_unless_told_otherwise() {
    let place = Place::new();
    let ended = place.run_misbehaving(RUN).expect_code(0);
    let history = place.path("state/costof/runs");
    let files: Vec<_> = fs::read_dir(&history).unwrap().flatten().collect();
    let [file] = files.as_slice() else {
        panic!("not one file in {}", history.display());
    };
    assert_contains(&ended.out, &file.path().to_string_lossy());
    expect_complete(&read(&file.path()));

    let at_home = place.path(".local/state/costof/runs");
    let mut costof = place.misbehaving(RUN);
    run(costof.env_remove("XDG_STATE_HOME")).expect_code(0);
    assert_eq!(fs::read_dir(at_home).unwrap().count(), 1);
    run(costof.env_remove("HOME")).expect_wrong(&["HOME", "--out"]);
}

#[test]
fn a_run_is_shown_again_as_it_was() {
    let place = Place::new();
    let ended = place
        .run_misbehaving(&format!("{RUN} --launches 3"))
        .expect_code(0);
    assert_contains(&ended.out, "costof show --notes");
    assert_eq!(place.run("show").expect_code(0).out, ended.out);
    assert_contains(&place.run("show --notes").expect_code(0).out, "Clock: ");
    let json = place.run("show --json").expect_code(0).out;
    assert!(json.starts_with("{\"type\":\"point\""), "{json}");
    let colours = |line: &str, no_color: &str| {
        let mut command = place.costof(line);
        let shown = run(command.env("NO_COLOR", no_color).env("COLUMNS", "40"));
        let out = shown.expect_code(0).out;
        assert_contains(&out, "95 % interval");
        out.contains('\u{1b}')
    };
    assert!(colours("show --color always", "1"));
    assert!(!colours("show", ""));
    place.run("show none.jsonl").expect_wrong(&["none.jsonl"]);
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let place = Place::new();
    fs::write(place.path("mine.txt"), "dear").unwrap();
    for (taken, way_out) in [("mine.txt", "--resume"), ("/dev/full", "not exist yet")] {
        let ended = place.run_misbehaving(&format!("{RUN} --out {taken}"));
        ended.expect_wrong(&[taken, "exists", "--out", way_out]);
    }
    assert_eq!(fs::read_to_string(place.path("mine.txt")).unwrap(), "dear");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_folder_is_made_and_one_that_cannot_be_is_named() {
    let place = Place::new();
    let into = |folder: &str| place.run_misbehaving(&format!("{RUN} --out {folder}/run.jsonl"));
    into("a/b").expect_code(0);
    expect_complete(&place.read("a/b/run.jsonl"));
    fs::write(place.path("file"), "").unwrap();
    // Nobody, not even root, can make a folder in these.
    for folder in ["file", "/proc/costof", "/dev/null/x"] {
        into(folder).expect_wrong(&[folder, "--out"]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_disk_that_is_full_keeps_what_was_written_and_the_run_can_go_on() {
    let place = Place::new();
    // A limit on the size of files stands for the disk: it needs no privilege.
    let full = "ulimit -f 16; exec \"$@\"";
    let costof = place.misbehaving("run test.good test.slow --quick --out run.jsonl");
    run(&mut within_script(full, &costof)).expect_wrong(&[
        "cannot write to run.jsonl",
        "File too large",
        "--resume",
    ]);
    place.expect_nothing_runs();

    let kept = place.run_file();
    assert!(kept.end.is_none());
    place
        .run_misbehaving("run --resume run.jsonl")
        .expect_code(0);
    let whole = place.run_file();
    expect_complete(&whole);
    assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
}

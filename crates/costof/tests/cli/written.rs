//! Where a run is written, and what becomes of it where it cannot be.

use crate::common::{
    Place, assert_contains, ended, expect_complete, read, run, spawn, wait_for, within_script,
};
use std::fs;
use std::path::{Path, PathBuf};

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
    let ended = place.run_misbehaving(&format!("{RUN} --launches 3")).expect_code(0);
    assert_contains(&ended.out, "costof show --notes");
    assert_eq!(place.run("show").expect_code(0).out, ended.out);
    assert_contains(&place.run("show --notes").expect_code(0).out, "Clock: ");
    let json = place.run("show --json").expect_code(0).out;
    assert!(json.starts_with("{\"type\":\"point\""), "{json}");
    assert_contains(&json, "\n{\"type\":\"cores\",\"alone\":[");
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
    place.run_misbehaving("run --resume run.jsonl").expect_code(0);
    let whole = place.run_file();
    expect_complete(&whole);
    assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
}

/// The file of a run in this folder, or one below it.
pub(crate) fn file_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut found = entries.filter_map(|entry| match entry.path() {
        path if path.is_dir() => file_in(&path),
        path => path.extension()?.eq("jsonl").then_some(path),
    });
    found.next()
}

/// What others do to the file of a run while it is written.
type Harm = fn(&Path);

const HARMS: [(&str, Harm); 6] = [
    ("removed or moved", |file| fs::remove_file(file).unwrap()),
    ("removed or moved", |file| {
        fs::rename(file, file.with_extension("moved")).unwrap();
    }),
    ("removed or moved", |file| {
        fs::remove_dir_all(file.parent().unwrap().parent().unwrap()).unwrap();
    }),
    ("changed or replaced", |file| {
        fs::remove_file(file).unwrap();
        fs::write(file, "another's").unwrap();
    }),
    ("changed or replaced", |file| {
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.set_len(100).unwrap();
    }),
    ("changed or replaced", |file| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, text.replace("\"seed\":1,", "\"seed\":2,")).unwrap();
    }),
];

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_whose_file_others_remove_or_change_is_saved_and_is_no_success() {
    for (says, harm) in HARMS {
        let place = Place::new();
        let line = "run test.slow --quick --launches 3 --seed 1";
        let controller = spawn(&mut place.misbehaving(line));
        let file = || file_in(&place.path("state"));
        let has_launch = |file: PathBuf| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.contains("\"type\":\"launch\"")
        };
        wait_for("a launch", || file().is_some_and(has_launch));
        harm(&file().unwrap());
        let ended = ended(controller).expect_wrong(&[says, "costof show "]);
        let (_, after) = ended.err.split_once("is now in ").unwrap();
        let saved = after.split(": ").next().unwrap();
        expect_complete(&read(Path::new(saved)));
        let shown = place.run_misbehaving(&format!("show {saved}"));
        assert_contains(&shown.expect_code(0).out, "test.slow");
        assert_contains(&place.run("runs").expect_code(0).out, saved);
    }
}

#[test]
fn a_run_goes_on_in_a_file_that_an_editor_has_saved() {
    let place = Place::new();
    place
        .run_misbehaving("run test.good --quick --launches 3 --seed 1 --out run.jsonl")
        .expect_code(0);
    let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
    let (rows, _) = text.split_once("{\"type\":\"point\"").unwrap();
    let rows = rows.trim_end();
    for edited in [rows.to_owned(), format!("\u{feff}{}", rows.replace('\n', "\r\n"))] {
        fs::write(place.path("run.jsonl"), &edited).unwrap();
        let resumed = place.run_misbehaving("run --resume run.jsonl");
        assert_contains(&resumed.expect_code(0).out, "test.good");
        let whole = fs::read_to_string(place.path("run.jsonl")).unwrap();
        assert!(whole.starts_with(&edited));
        expect_complete(&place.run_file());
        assert_eq!(place.run_file().launches.len(), 3);
    }
}

#[test]
fn what_is_no_file_on_a_disk_is_not_continued() {
    let place = Place::new();
    place.command("mkfifo pipe.jsonl").status().unwrap();
    for file in ["pipe.jsonl", "/dev/null"] {
        let resumed = place.run(&format!("run --resume {file}"));
        resumed.expect_wrong(&[file, "on a disk"]);
    }
}

#[test]
fn a_clock_of_any_time_gives_a_run_its_date() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if !Path::new(library).exists() {
        return crate::common::skipped("no libfaketime (apt-get install faketime)");
    }
    for (clock, date) in
        [("1960-01-01 00:00:00", "1970-01-01T00:00:00Z"), ("2026-11-28 00:00:00", "2026-11-28T00:")]
    {
        let place = Place::new();
        let line = "run test.good --quick --launches 3 --out run.jsonl";
        let mut costof = place.misbehaving(line);
        costof
            .env("LD_PRELOAD", library)
            .env("TZ", "UTC")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME", format!("@{clock}"));
        let ended = run(&mut costof);
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        ended.expect_code(0);
        assert_contains(&place.run_file().run.started, date);
        assert_contains(&place.run("runs").expect_code(0).out, "run.jsonl");
    }
}

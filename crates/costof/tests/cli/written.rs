//! Where a run is written, and what becomes of it where it cannot be.

use crate::common::{Place, expect_complete, read, run};
use std::fs;
use std::process::Command;

const RUN: [&str; 3] = ["run", "test.good", "--quick"];

#[test]
fn a_run_is_kept_in_the_history_unless_told_otherwise() {
    let place = Place::new();
    let ended = run(&mut place.misbehaving(&RUN)).expect_code(0);
    let history = place.path("state/costof/runs");
    let files: Vec<_> = fs::read_dir(&history).unwrap().flatten().collect();
    let [file] = files.as_slice() else {
        panic!("not one file in {}", history.display());
    };
    assert!(
        ended.out.contains(&*file.path().to_string_lossy()),
        "{}",
        ended.out
    );
    expect_complete(&read(&file.path()));

    let at_home = place.path(".local/state/costof/runs");
    run(place.misbehaving(&RUN).env_remove("XDG_STATE_HOME")).expect_code(0);
    assert_eq!(fs::read_dir(at_home).unwrap().count(), 1);

    run(place
        .misbehaving(&RUN)
        .env_remove("XDG_STATE_HOME")
        .env_remove("HOME"))
    .expect_wrong(&["HOME", "--out"]);
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let place = Place::new();
    fs::write(place.path("mine.txt"), "dear").unwrap();
    for (taken, way_out) in [("mine.txt", "--resume"), ("/dev/full", "not exist yet")] {
        run(place.misbehaving(&RUN).args(["--out", taken]))
            .expect_wrong(&[taken, "exists", "--out", way_out]);
    }
    assert_eq!(fs::read_to_string(place.path("mine.txt")).unwrap(), "dear");
}

#[test]
fn a_folder_is_made_and_one_that_cannot_be_is_named() {
    let place = Place::new();
    run(place.misbehaving(&RUN).args(["--out", "a/b/run.jsonl"])).expect_code(0);
    expect_complete(&read(&place.path("a/b/run.jsonl")));
    fs::write(place.path("file"), "").unwrap();
    // Nobody, not even root, can make a folder in these.
    for folder in ["file", "/proc/costof", "/dev/null/x"] {
        run(place
            .misbehaving(&RUN)
            .args(["--out", &format!("{folder}/run.jsonl")]))
        .expect_wrong(&[folder, "--out"]);
    }
}

#[test]
fn a_disk_that_is_full_keeps_what_was_written_and_the_run_can_go_on() {
    let place = Place::new();
    // A limit on the size of files stands for the disk: it needs no privilege.
    let full = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";
    let costof = place.misbehaving(&[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", full]).arg(costof.get_program());
    for (name, value) in costof.get_envs() {
        limited.env(name, value.unwrap());
    }
    limited.current_dir(costof.get_current_dir().unwrap());
    limited.args([
        "run",
        "test.good",
        "test.slow",
        "--quick",
        "--out",
        "run.jsonl",
    ]);
    run(&mut limited).expect_wrong(&["cannot write to run.jsonl", "File too large", "--resume"]);
    place.expect_nothing_runs();

    let kept = read(&place.path("run.jsonl"));
    assert!(kept.end.is_none());
    run(&mut place.misbehaving("run --resume run.jsonl")).expect_code(0);
    let whole = read(&place.path("run.jsonl"));
    expect_complete(&whole);
    assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
}

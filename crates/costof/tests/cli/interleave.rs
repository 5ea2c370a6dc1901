//! `costof compare --interleave`: two hosts measured launch beside launch, and pages of comparisons.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, ended, expect_complete, read, run, signal,
    spawn, wait_for,
};
use costof_measure::compare::{Metrics, compare};
use costof_model::failure::FailureKind;
use costof_model::rows::LaunchRow;
use costof_model::run_file::Run;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

/// `costof compare --interleave` in a place of its own.
fn interleaved(place: &Place, hosts: [&str; 2], more: &[&str]) -> Ended {
    let words = ["compare", "--interleave", hosts[0], hosts[1]];
    let ended = run(place.costof(&words).args(more));
    place.expect_nothing_runs();
    ended
}

/// A host that is another process of the same costof.
fn worker(place: &Place) -> String {
    format!("exec:{} worker", Place::program(&place.costof(&[])))
}

const CHEAP: &[&str] = &["null", "cpu.loop", "--quick", "--out", "runs"];

#[test]
fn an_odd_number_of_launches_is_made_even_where_hosts_take_turns() {
    let place = Place::new();
    let more = ["null", "--quick", "--launches", "7", "--out", "runs"];
    interleaved(&place, ["local", "local"], &more).expect_code(0);
    for name in ["before", "after"] {
        let run = read(&place.path(&format!("runs/{name}.jsonl")));
        assert_eq!(run.launches.len(), 8 * run.run.plan.blocks.len(), "{name}");
    }
}

#[test]
fn two_hosts_are_measured_in_turns_and_held_against_each_other() {
    let place = Place::new();
    let other = worker(&place);
    let more = [CHEAP, &["--seed", "5", "--html", "page.html"]].concat();
    let ended = interleaved(&place, ["local", &other], &more).expect_code(0);
    for text in [
        "local → exec:",
        "Both took turns",
        "metrics compared",
        "runs/before.jsonl and runs/after.jsonl",
    ] {
        assert!(
            ended.out.contains(text),
            "`{text}` is missing: {}",
            ended.out
        );
    }
    let [before, after] =
        ["before", "after"].map(|name| read(&place.path(&format!("runs/{name}.jsonl"))));
    for run in [&before, &after] {
        expect_complete(run);
        assert_eq!(run.run.seed, 5);
        let mut launches = run.launches.iter();
        assert!(launches.all(|launch| launch.of == 0 || launch.of.is_multiple_of(2)));
        // Whichever stands first in a pair, each file has the launches of a block in their order.
        for block in 0..run.run.plan.blocks.len() {
            let numbers = run.launches.iter().filter(|launch| launch.block == block);
            let numbers: Vec<u32> = numbers.map(|launch| launch.launch).collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }
    assert_eq!(before.run.beside.as_ref(), Some(&after.run.id));
    assert_eq!(after.run.beside.as_ref(), Some(&before.run.id));
    assert_eq!(before.run.plan.blocks, after.run.plan.blocks);
    assert_eq!(before.run.plan.hosts.on, None);
    assert_eq!(after.run.plan.hosts.on.as_ref(), Some(&other));
    // The files are what was compared: again, they say the same.
    assert!(compare(&before, &after, Metrics::Primary).in_turns);
    let words = "compare --json runs/before.jsonl runs/after.jsonl";
    let told: Value =
        serde_json::from_str(&run(&mut place.costof(words)).expect_code(0).out).unwrap();
    assert_eq!(told["comparison"]["in_turns"], true);
    let rows = told["comparison"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["probe"] == "cpu.loop"), "{told}");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_contains_all(&page, &["After ÷ before", "Both took turns"]);
}

#[test]
fn a_host_may_stand_beside_itself_and_json_names_the_files() {
    let place = Place::new();
    let more = ["null", "--quick", "--json", "--threshold", "100000"];
    let ended = interleaved(&place, ["local", "local"], &more).expect_code(0);
    let told: Value = serde_json::from_str(&ended.out).unwrap();
    for side in ["before", "after"] {
        // In the history, where no folder was named.
        let path = told[side].as_str().unwrap();
        assert_contains(path, "state/costof/runs/");
        expect_complete(&read(path.as_ref()));
    }
}

/// The costof whose probes misbehave, as a host where `slow` is one after so many calls.
fn beside_misbehaving(place: &Place, words: &[&str]) -> Ended {
    let misbehaving = place.misbehaving(&[]);
    let host = format!("exec:{} worker", Place::program(&misbehaving));
    let words = [&["compare", "--interleave", "local", &host], words].concat();
    let ended = run(&mut place.misbehaving(&words));
    place.expect_nothing_runs();
    ended
}

/// How many launches each block of a run with alike blocks was to have.
fn launches_decided(run: &Run) -> u32 {
    let decided = run.launches.iter().map(|launch| launch.of).max();
    decided.expect("there are launches after the pilots")
}

#[test]
fn a_launch_that_crashes_is_made_up_with_its_neighbour() {
    let place = Place::new();
    let words = ["test.crash_once", "--launches", "6", "--out", "runs"];
    beside_misbehaving(&place, &words).expect_code(0);
    let runs = ["before", "after"].map(|name| read(&place.path(&format!("runs/{name}.jsonl"))));
    let failed = runs.each_ref().map(|run| {
        run.failures
            .iter()
            .filter(|row| row.kind == FailureKind::Crashed)
            .count()
    });
    assert_eq!(failed.iter().sum::<usize>(), 1, "{failed:?}");
    let numbers = runs.each_ref().map(|run| {
        run.launches
            .iter()
            .map(|launch| launch.launch)
            .collect::<Vec<_>>()
    });
    // As many as were decided, and one more: so many pairs are whole.
    let of = launches_decided(&runs[0]);
    assert_eq!(numbers[0], (0..=of).collect::<Vec<u32>>());
    assert_eq!(numbers[0], numbers[1]);
    let rows = compare(&runs[0], &runs[1], Metrics::Primary).rows;
    // Of those as many as had the core to themselves, where not all had.
    let compared = [rows[0].before.1, rows[0].after.1];
    assert!(
        compared.iter().all(|count| (3..=of).contains(count)),
        "{compared:?}"
    );
}

#[test]
fn what_cannot_be_measured_says_so_and_why() {
    let place = Place::new();
    let ended = beside_misbehaving(&place, &["test.unsupported", "--quick"]).expect_code(3);
    let all = format!("{}{}", ended.out, ended.err);
    assert_contains_all(&all, &["On local:", "buy one"]);
    assert_contains(&all, "nothing can be compared");
    // One host has the probe, the other has not: it is no pass either.
    let host = format!("exec:{} worker", Place::program(&place.misbehaving(&[])));
    let words = ["null", "--quick", "--out", "one"];
    let ended = interleaved(&place, ["local", &host], &words).expect_code(3);
    assert_contains(&ended.out, "has no probe null");
    // It has its number where it could be measured, and no launch more.
    let alone = read(&place.path("one/before.jsonl"));
    assert_eq!((alone.launches.len(), alone.points.len()), (3, 1));
}

#[test]
fn what_is_asked_wrongly_is_refused_before_anything_is_measured() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    let wrong = |words: &[&str], named: &[&str]| {
        let words = [&["compare"], words].concat();
        run(&mut place.costof(&words)).expect_wrong(named);
    };
    wrong(&["--interleave"], &["--interleave <HOST> <HOST>"]);
    wrong(&["--interleave", "local"], &["2 values required"]);
    wrong(&["--interleave", "local", "there", "null"], &["ssh:there"]);
    wrong(
        &["--interleave", "local", "local", "local", "null"],
        &["local is a third"],
    );
    let four = [
        "--interleave",
        "local",
        "local",
        "--interleave",
        "local",
        "local",
    ];
    wrong(&four, &["two hosts, not 4"]);
    wrong(
        &["--interleave", "local", "local", "cpu.lop"],
        &["cpu.lop", "cpu.loop"],
    );
    wrong(
        &["--interleave", "local", "local", "--set", "sise=1"],
        &["sise"],
    );
    wrong(
        &["--interleave", "local", "local", "null", "--out", "file"],
        &["file is a file", "folder"],
    );
    wrong(
        &["--interleave", "local", "local", "null", "--html", "."],
        &["is a folder"],
    );
    wrong(
        &[
            "--interleave",
            "local",
            "local",
            "null",
            "--out",
            "runs",
            "--html",
            "./runs/after.jsonl",
        ],
        &["is the run itself"],
    );
    assert!(!place.path("runs").exists());
    wrong(
        &["--interleave", "local", "local", "null", "--cpu", "4096"],
        &["--cpu 4096"],
    );
    for option in [
        ["--quick"].as_slice(),
        &["--seed", "1"],
        &["--out", "x"],
        &["--set", "size=1"],
    ] {
        wrong(&[&["file", "file"], option].concat(), &["--interleave"]);
    }
    wrong(&[], &["BEFORE"]);
    assert!(!place.path("state").exists(), "nothing was measured");
}

#[test]
fn an_interrupt_leaves_both_files_and_nothing_that_runs() {
    let place = Place::new();
    let words =
        "compare --interleave local local test.good test.hang --set how=sleep --quick --out runs";
    let controller = spawn(&mut place.misbehaving(words));
    wait_for("the probe to hang", || place.path("hanging").exists());
    signal(&controller, Signal::INT);
    let ended = ended(controller).expect_code(130);
    place.expect_nothing_runs();
    assert_contains(&ended.err, "runs/before.jsonl and runs/after.jsonl");
    for name in ["before", "after"] {
        let run = read(&place.path(&format!("runs/{name}.jsonl")));
        let good = |launch: &&LaunchRow| launch.points[0].point.probe == "test.good";
        assert!(run.launches.iter().filter(good).count() >= 3);
        assert!(run.end.is_none());
    }
    // What is there is compared.
    let words = ["compare", "runs/before.jsonl", "runs/after.jsonl"];
    let told = run(&mut place.costof(&words)).expect_code(0).out;
    assert_contains(&told, "Both took turns");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let place = Place::new();
    for (hosts, named) in [
        (["local", "exec:no-such-program"], "no-such-program"),
        (["exec:no-such-program", "local"], "exit code 127"),
        (["local", "netns:no-such-namespace"], "no-such-namespace"),
    ] {
        let ended = interleaved(&place, hosts, &["null", "--quick"]).expect_code(3);
        assert_contains(&ended.err, named);
    }
    assert!(!place.path("state").exists());
}

#[test]
fn files_that_are_there_are_not_written_over() {
    let place = Place::new();
    fs::create_dir(place.path("runs")).unwrap();
    fs::write(place.path("runs/after.jsonl"), "mine").unwrap();
    let ended = interleaved(&place, ["local", "local"], CHEAP).expect_code(2);
    assert_contains_all(
        &ended.err,
        &["runs/after.jsonl is there", "another folder by --out"],
    );
    // Nor is the other begun, which would be there the next time.
    assert!(!place.path("runs/before.jsonl").exists());
    assert_eq!(fs::read(place.path("runs/after.jsonl")).unwrap(), b"mine");
}

#[test]
fn a_page_of_run_files_shows_both_and_is_never_a_run() {
    let place = Place::new();
    let words = [
        "run",
        "memory.latency",
        "--set",
        "size=4KiB,16KiB,64KiB",
        "--quick",
        "--out",
        "one.jsonl",
    ];
    run(&mut place.costof(&words)).expect_code(0);
    let text = fs::read_to_string(place.path("one.jsonl")).unwrap();
    let evil = "exec:<script>alert(1)</script>";
    let hostile = text.replacen("\"started\":\"", &format!("\"started\":\"{evil}"), 1);
    assert_ne!(hostile, text);
    fs::write(place.path("two.jsonl"), hostile).unwrap();
    let compare = |more: &[&str]| run(place.costof("compare one.jsonl two.jsonl").args(more));
    let ended = compare(&["--html", "page.html"]).expect_code(0);
    assert_contains(&ended.err, "the page is in page.html");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    for text in [
        "one.jsonl",
        "two.jsonl",
        "After ÷ before",
        "<svg",
        "</i>before</label>",
        "</i>after</label>",
    ] {
        assert!(page.contains(text), "`{text}` is missing");
    }
    assert!(!page.contains("<script"));
    compare(&["--html", "two.jsonl"]).expect_wrong(&["is the run itself"]);
    compare(&["--html", "none/page.html"]).expect_wrong(&["cannot write none/page.html"]);
}

//! `costof compare --interleave`: two hosts measured launch beside launch, and pages of comparisons.

use crate::common::{
    COSTOF, Ended, Place, assert_contains, assert_contains_all, expect_every_launch, interrupt,
    misbehaving,
};
use costof_measure::compare::{MATTERS, Metrics, compare};
use costof_model::failure::FailureKind;
use costof_model::rows::LaunchRow;
use costof_model::run_file::Run;
use serde_json::Value;
use std::fs;

/// `costof compare --interleave` of these hosts, with what is measured.
fn interleaved(place: &Place, line: &str) -> Ended {
    let ended = place.run(&format!("compare --interleave {line}"));
    place.expect_nothing_runs();
    ended
}

/// The runs of both sides.
fn both(place: &Place) -> [Run; 2] {
    ["before", "after"].map(|name| place.read(&format!("runs/{name}.jsonl")))
}

/// The numbers of the launches of a block, in the order of the file.
fn numbers(run: &Run, block: usize) -> Vec<u32> {
    let launches = run.launches.iter().filter(|launch| launch.block == block);
    launches.map(|launch| launch.launch).collect()
}

/// What a comparison shows; `None` if the machine was so busy that nothing could be compared, which it says with the
/// reason.
#[track_caller]
fn compared(ended: Ended) -> Option<String> {
    if ended.code != Some(3) {
        return Some(ended.expect_code(0).out);
    }
    let busy = [
        "never had the core",
        "had the core to itself,",
        "their launches disagree",
        "the CPUs moved",
        "twice the work took",
    ];
    let why = ended.err.split_once("nothing can be compared: ");
    let is_busy = why.is_some_and(|(_, why)| busy.iter().any(|busy| why.contains(busy)));
    assert!(is_busy, "{ended:?}");
    None
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_odd_number_of_launches_is_made_even_where_hosts_take_turns() {
    let place = Place::new();
    let line = "local local null --quick --launches 7 --out runs";
    compared(interleaved(&place, line));
    for run in both(&place) {
        assert_eq!(run.launches.len(), 8 * run.run.plan.blocks.len());
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn two_hosts_are_measured_in_turns_and_held_against_each_other() {
    let place = Place::new();
    let other = format!("exec:{COSTOF} worker");
    let line = format!(
        "local '{other}' null cpu.loop --quick --out runs --seed 5 --html ./runs/page.html"
    );
    let ended = interleaved(&place, &line);
    assert!(place.path("runs/page.html").exists());
    let files = "runs/before.jsonl and runs/after.jsonl";
    assert_contains_all(&ended.out, &["local → exec:", files]);
    compared(ended);
    let [before, after] = both(&place);
    for launch in &before.launches {
        let mut others = after.launches.iter();
        let is_counterpart =
            |other: &&LaunchRow| (other.block, other.launch) == (launch.block, launch.launch);
        let other = others.find(is_counterpart).expect("launches have counterparts");
        assert_eq!(other.placement, launch.placement, "both on the same CPUs");
    }
    for run in [&before, &after] {
        expect_every_launch(run);
        assert_eq!(run.run.seed, 5);
        let mut launches = run.launches.iter();
        assert!(launches.all(|launch| launch.of == 0 || launch.of.is_multiple_of(2)));
        // Whichever stands first in a pair, each file has the launches of a block in their order.
        for block in 0..run.run.plan.blocks.len() {
            let numbers = numbers(run, block);
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }
    assert_eq!(before.run.beside.as_ref(), Some(&after.run.id));
    assert_eq!(after.run.beside.as_ref(), Some(&before.run.id));
    assert_eq!(before.run.plan.blocks, after.run.plan.blocks);
    assert_eq!(before.run.plan.hosts.on, None);
    assert_eq!(after.run.plan.hosts.on.as_ref(), Some(&other));
    // The files are what was compared.
    assert!(compare(&before, &after, Metrics::Primary, MATTERS).in_turns);
    for side in ["before", "after"] {
        place.make_quiet(&format!("runs/{side}.jsonl"));
    }
    let line = "compare runs/before.jsonl runs/after.jsonl";
    let shown = place.run(&format!("{line} --html page.html"));
    let said = ["The runs took turns", "Verdicts are corrected"];
    assert_contains_all(&shown.expect_code(0).out, &said);
    let again = place.run(&format!("{line} --json"));
    let again: Value = serde_json::from_str(&again.expect_code(0).out).unwrap();
    assert_eq!(again["comparison"]["in_turns"], true);
    let rows = again["comparison"]["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["probe"] == "cpu.loop"), "{again}");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_contains_all(&page, &["After ÷ before", "The runs took turns"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_host_may_stand_beside_itself_and_json_names_the_files() {
    let place = Place::new();
    let ended =
        interleaved(&place, "local local null --quick --json --threshold 100000 --undecided pass");
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    // Where one of both never had its core to itself, nothing can be compared.
    let is_refused = json["comparison"]["rows"].as_array().unwrap().is_empty();
    ended.expect_code(if is_refused { 3 } else { 0 });
    for side in ["before", "after"] {
        // In the history, where no folder was named.
        let path = json[side].as_str().unwrap();
        assert_contains(path, "state/costof/runs/");
        expect_every_launch(&place.read(path));
    }
}

/// The costof whose probes misbehave, beside itself as another host.
fn beside_misbehaving(place: &Place, words: &str) -> Ended {
    let line = format!("compare --interleave local 'exec:{} worker' {words}", misbehaving());
    let ended = place.run_misbehaving(&line);
    place.expect_nothing_runs();
    ended
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_launch_that_crashes_is_made_up_with_its_neighbour() {
    let place = Place::new();
    let line = "test.crash_once --launches 6 --out runs";
    let is_compared = compared(beside_misbehaving(&place, line)).is_some();
    let runs = both(&place);
    let failures = runs.iter().flat_map(|run| &run.failures);
    let crashed = failures.filter(|row| row.kind == FailureKind::Crashed);
    assert_eq!(crashed.count(), 1);
    // As many pairs as were decided, and one more, are complete.
    let decided = runs[0].launches.iter().map(|launch| launch.of).max();
    let of = decided.expect("there are launches after the pilots");
    let expected: Vec<u32> = (0..=of).collect();
    assert_eq!(runs.each_ref().map(|run| numbers(run, 0)), [&*expected; 2]);
    if !is_compared {
        return;
    }
    let rows = compare(&runs[0], &runs[1], Metrics::Primary, MATTERS).rows;
    // Of those as many as had the core to themselves, where not all had.
    let compared = [rows[0].before.1, rows[0].after.1];
    let are_enough = compared.iter().all(|count| (3..=of).contains(count));
    assert!(are_enough, "{compared:?}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_cannot_be_measured_says_so_and_why() {
    let place = Place::new();
    let ended = beside_misbehaving(&place, "test.unsupported --quick").expect_code(3);
    let all = format!("{}{}", ended.out, ended.err);
    assert_contains_all(&all, &["On local:", "buy one", "nothing can be compared"]);
    // One host has the probe, the other has not: it is no pass either.
    let line = format!("local 'exec:{} worker' null --quick --out runs", misbehaving());
    let ended = interleaved(&place, &line).expect_code(3);
    assert_contains(&ended.out, "has no probe harness.null");
    // It is measured where it can be, and has no launch more.
    let [alone, _] = both(&place);
    assert_eq!(alone.launches.len(), 3);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_interrupt_leaves_both_files_and_nothing_that_runs() {
    let place = Place::new();
    let line =
        "compare --interleave local local test.good test.hang --set how=sleep --quick --out runs";
    let ended = interrupt(place.hanging(&mut place.misbehaving(line)));
    place.expect_nothing_runs();
    assert_contains(&ended.err, "runs/before.jsonl and runs/after.jsonl");
    for run in both(&place) {
        let good = |launch: &&LaunchRow| launch.points[0].point.probe == "test.good";
        assert!(run.launches.iter().filter(good).count() >= 3);
        assert!(run.end.is_none());
    }
    // What is there is compared.
    let shown = place.run("compare runs/before.jsonl runs/after.jsonl");
    if let Some(shown) = compared(shown) {
        assert_contains(&shown, "The runs took turns");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let place = Place::new();
    for (hosts, named) in [
        ("local exec:no-such-program", "no-such-program"),
        ("exec:no-such-program local", "exit code 127"),
        ("local netns:no-such-namespace", "no-such-namespace"),
    ] {
        let ended = interleaved(&place, &format!("{hosts} null --quick"));
        assert_contains(&ended.expect_code(3).err, named);
    }
    assert!(!place.path("state").exists());
}

#[test]
fn files_that_are_there_are_not_written_over() {
    let place = Place::new();
    fs::create_dir(place.path("runs")).unwrap();
    fs::write(place.path("runs/after.jsonl"), "mine").unwrap();
    interleaved(&place, "local local null cpu.loop --quick --out runs")
        .expect_wrong(&["runs/after.jsonl exists", "another folder with --out"]);
    // Nor is the other begun, which would be there the next time.
    assert!(!place.path("runs/before.jsonl").exists());
    assert_eq!(fs::read(place.path("runs/after.jsonl")).unwrap(), b"mine");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_page_of_run_files_shows_both_and_is_never_a_run() {
    let place = Place::new();
    let words = "--only memory.latency --set size=4KiB,16KiB,64KiB --quick";
    place.quiet_run(words, "one.jsonl");
    let text = fs::read_to_string(place.path("one.jsonl")).unwrap();
    let evil = "exec:<script>alert(1)</script>";
    let hostile = text.replacen("\"started\":\"", &format!("\"started\":\"{evil}"), 1);
    assert_ne!(hostile, text);
    fs::write(place.path("two.jsonl"), hostile).unwrap();
    let to_page = |page: &str| place.run(&format!("compare one.jsonl two.jsonl --html {page}"));
    let ended = to_page("page.html").expect_code(0);
    assert_contains(&ended.err, "the page is in page.html");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert_contains_all(&page, &["one.jsonl", "two.jsonl", "After ÷ before"]);
    assert!(!page.contains("<script"));
    to_page("two.jsonl").expect_wrong(&["is the run itself"]);
    to_page("none/page.html").expect_wrong(&["none/page.html", "no folder that exists"]);
}

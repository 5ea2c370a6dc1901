//! `costof compare`: runs of the real costof, compared with each other.

use crate::common::{Place, assert_contains, assert_contains_all, spawn};
use costof_model::failure::FailureKind;
use costof_model::metric::Data;
use costof_model::rows::{FailureRow, PointRow, Row};
use costof_model::run_file::{self, Run};
use serde_json::Value;
use std::fs;

/// A run of two probes, in `before.jsonl`.
fn measured() -> Place {
    let place = Place::new();
    place.quiet_run("--only null cpu.loop --quick", "before.jsonl");
    place
}

/// Copies `before.jsonl` to `after.jsonl`, with all times of a probe multiplied by `times`.
fn slowed(place: &Place, probe: &str, times: f64) {
    rewrite(place, "after.jsonl", |of, data| match data {
        _ if of != probe => {}
        Data::Samples(samples) => samples.iter_mut().for_each(|(_, ns)| *ns *= times),
        Data::Value(value) => *value *= times,
        Data::Histogram(_) => {}
    });
}

/// `before.jsonl` as another file, with other numbers by the probe.
fn rewrite(place: &Place, name: &str, change: impl Fn(&str, &mut Data)) {
    let rows = place.read("before.jsonl").into_rows().map(|mut row| {
        if let Row::Point(point) = &mut row {
            for estimate in &mut point.metrics {
                let mut data = Data::Samples(vec![(1, estimate.median)]);
                change(&point.point.probe, &mut data);
                estimate.median = data.costs()[0];
            }
        }
        if let Row::Launch(launch) = &mut row {
            for point in &mut launch.points {
                for metric in &mut point.metrics {
                    change(&point.point.probe, &mut metric.data);
                }
            }
        }
        row
    });
    write(place, name, rows);
}

fn write(place: &Place, name: &str, rows: impl Iterator<Item = Row>) {
    let bytes: Vec<u8> = rows.flat_map(|row| run_file::line(&row)).collect();
    fs::write(place.path(name), bytes).unwrap();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_takes_twice_as_long_is_worse_and_the_rest_is_not() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    let text = place.run("compare before.jsonl after.jsonl").expect_code(0).out;
    assert_contains_all(&text, &[" worse ", "2.000"]);
    assert_contains(&text, "4 of 4 rows decided: 3 worse, 1 unchanged\n");
    for absent in [" better ", "Differs between the runs"] {
        assert!(!text.contains(absent), "{text}");
    }
    let json = place.run("compare --json before.jsonl after.jsonl");
    let json: Value = serde_json::from_str(&json.expect_code(0).out).unwrap();
    let rows = json["comparison"]["rows"].as_array().unwrap();
    for row in rows {
        let (verdict, ratio) =
            if row["probe"] == "cpu.loop" { ("worse", 2.0) } else { ("no_difference", 1.0) };
        assert_eq!(row["verdict"], verdict, "{row}");
        assert!((row["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{row}");
    }
    assert!(rows.iter().any(|row| row["probe"] == "harness.null"), "{json}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_threshold_ends_with_a_code_of_its_own() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    for (line, code) in [
        ("before.jsonl after.jsonl --threshold 5", 1),
        ("before.jsonl after.jsonl --threshold 150%", 0),
        // It became better.
        ("after.jsonl before.jsonl --threshold 5", 0),
        // Each later run by itself.
        ("before.jsonl before.jsonl after.jsonl --threshold 5", 1),
    ] {
        let ended = place.run(&format!("compare {line}")).expect_code(code);
        let word = ["PASS: ", "cpu.loop 100 % slower"][code as usize];
        assert_contains(ended.out.lines().next().unwrap(), word);
        let summary = place.run(&format!("compare {line} --summary")).expect_code(code);
        assert_contains(summary.out.lines().next().unwrap(), word);
        // Nobody reads it.
        let mut unread = spawn(&mut place.costof(&format!("compare {line}")));
        drop(unread.stdout.take());
        assert_eq!(unread.wait().unwrap().code(), Some(code));
        let ended = place.run(&format!("compare {line} --json")).expect_code(code);
        let json: Value = serde_json::from_str(ended.out.lines().last().unwrap()).unwrap();
        assert_eq!(json["verdict"], ["pass", "fail"][code as usize], "{json}");
        assert_eq!(json["failed"].as_array().unwrap().is_empty(), code == 0);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn each_later_run_is_compared_with_the_first() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    fs::copy(place.path("before.jsonl"), place.path("again.jsonl")).unwrap();
    let runs = "compare before.jsonl again.jsonl after.jsonl";
    let shown = place.run(runs).expect_code(0).out;
    let (first, second) = shown.split_once("before.jsonl → after.jsonl").unwrap();
    assert_contains_all(first, &["before.jsonl → again.jsonl", "decided: 4 unchanged"]);
    assert_contains(second, "4 of 4 rows decided: 3 worse, 1 unchanged\n");
    let ended = place.run(&format!("{runs} --html page.html")).expect_code(2);
    assert_contains_all(&ended.err, &["two runs", "costof fleet"]);
    assert!(!place.path("page.html").exists());
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_cannot_be_compared_says_why() {
    let place = measured();
    fs::write(place.path("rubbish.jsonl"), "rubbish\n").unwrap();
    let wrong = |after: &str| {
        let ended = place.run(&format!("compare before.jsonl {after}")).expect_code(2);
        format!("{}{}", ended.out, ended.err)
    };
    for file in ["absent.jsonl", "rubbish.jsonl"] {
        assert_contains(&wrong(file), file);
    }
    let before = fs::read(place.path("before.jsonl")).unwrap();
    let over = wrong("before.jsonl --threshold 5 --junit before.jsonl");
    assert_contains(&over, "before.jsonl is the run itself");
    assert_eq!(fs::read(place.path("before.jsonl")).unwrap(), before);
    assert_contains_all(&wrong(""), &["AFTER", "@1"]);
    let mixed = wrong("before.jsonl --summary --html -");
    assert_contains(&mixed, "several outputs would be mixed");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_export_is_compared_by_its_medians_and_says_what_that_costs() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    let mut exported = place.read("after.jsonl");
    exported.launches.clear();
    // What an export has for its intervals.
    for estimate in exported.points.iter_mut().flat_map(|row| &mut row.metrics) {
        estimate.ci95 = Some((estimate.median / 1.001, estimate.median * 1.001));
    }
    place.write("export.jsonl", exported);
    let shown = place.run("compare before.jsonl export.jsonl").expect_code(0).out;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_contains_all(
        &words,
        &["3 worse, 1 unchanged", "An export has no launches", "not in core cycles"],
    );
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn nothing_to_compare_is_undecided_for_noise_and_wrong_for_other_points() {
    let place = measured();
    let compared = |after: Run, code: i32, why: &str| {
        place.write("after.jsonl", after);
        for options in ["", "--json", "--threshold 5"] {
            let ended = place.run(&format!("compare before.jsonl after.jsonl {options}"));
            let says = format!("nothing can be compared: {why}");
            assert_contains(&ended.expect_code(code).err, &says);
        }
        let gate = "--threshold 5 --undecided pass --junit checked.xml --html page.html";
        let ended = place.run(&format!("compare before.jsonl after.jsonl {gate}"));
        assert!(ended.expect_code(code).out.starts_with("INCONCLUSIVE: 0 of "));
        for file in ["checked.xml", "page.html"] {
            fs::remove_file(place.path(file)).expect(file);
        }
    };
    let before = place.read("before.jsonl");
    let mut noisy = before.clone();
    for launch in &mut noisy.launches {
        let longer = 100_f64.powi(launch.launch as i32);
        let metrics = launch.points.iter_mut().flat_map(|point| &mut point.metrics);
        for metric in metrics {
            if let Data::Samples(samples) = &mut metric.data {
                samples.iter_mut().for_each(|(_, ns)| *ns *= longer);
            }
        }
    }
    compared(noisy, 3, "their launches disagree");
    let mut failed = before.clone();
    let failure = |(block, row): (usize, &PointRow)| FailureRow {
        point: row.point.clone(),
        block,
        launch: None,
        kind: FailureKind::Crashed,
        reason: "it crashed".to_owned(),
    };
    failed.failures = failed.points.iter().enumerate().map(failure).collect();
    failed.points.clear();
    compared(failed, 3, "harness.null: it crashed");
    let mut other = before;
    other.run.plan.blocks.clear();
    other.points.clear();
    compared(other, 2, "the runs have no point in common");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_point_that_has_no_number_any_more_is_no_pass() {
    let place = measured();
    let is_left = |row: &Row| !matches!(row, Row::Point(point) if point.point.probe == "cpu.loop");
    let rows = place.read("before.jsonl").into_rows();
    write(&place, "after.jsonl", rows.filter(is_left));
    let line = "compare before.jsonl after.jsonl";
    for (undecided, code, word) in [("fail", 3, "INCONCLUSIVE: "), ("pass", 0, "PASS: ")] {
        let gate = format!("{line} --threshold 5 --undecided {undecided}");
        let warns = place.run(&gate).expect_code(code).out;
        let first = warns.lines().next().unwrap();
        assert_contains_all(
            first,
            &[word, " rows decided", "nothing is surely more than 5 % worse"],
        );
    }
    // Only what is required must be decided.
    for (required, code, said) in [
        ("harness", 0, "PASS: "),
        ("harness.null,cpu", 3, "; not decided: cpu.loop"),
        ("os.syscall", 3, "; not decided: os.syscall"),
    ] {
        let gate = format!("{line} --threshold 5 --require {required} --junit checked.xml");
        let ended = place.run(&gate).expect_code(code).out;
        assert_contains(ended.lines().next().unwrap(), said);
        let junit = fs::read_to_string(place.path("checked.xml")).unwrap();
        assert_contains_all(&junit, &["<testsuites name=\"costof\"", "classname=\"cpu.loop\""]);
        assert_eq!(junit.contains("<error "), code == 3, "{junit}");
    }
    let gate = format!("{line} --threshold 5 --require");
    place.run(&format!("{gate} cpu.lop")).expect_wrong(&["cpu.lop", "cpu.loop"]);
    let shown = place.run(line).expect_code(0).out;
    assert_contains(&shown, "earlier run");
}

//! `costof compare`: runs of the real costof, held against each other.

use crate::common::{Place, assert_contains, assert_contains_all, read, run};
use costof_model::metric::Data;
use costof_model::rows::Row;
use costof_model::run_file;
use serde_json::Value;
use std::fs;

/// A run of two probes with three launches or more, in `before.jsonl`; what they timed is made alike
/// in all launches, which differ on a busy machine.
fn measured() -> Place {
    let place = Place::new();
    let words = "run null cpu.loop --quick --out before.jsonl";
    run(&mut place.costof(words)).expect_code(0);
    rewrite(&place, "before.jsonl", |_, launch, data| {
        if let Data::Samples(samples) = data {
            let cost = 10.0 + 0.01 * f64::from(launch);
            for (operations, ns) in samples {
                *ns = cost * *operations as f64;
            }
        }
    });
    place
}

/// `before.jsonl` again as `after.jsonl`, where everything that a probe timed took so many times
/// as long.
fn slowed(place: &Place, probe: &str, times: f64) {
    rewrite(place, "after.jsonl", |of, _, data| match data {
        _ if of != probe => {}
        Data::Samples(samples) => samples.iter_mut().for_each(|(_, ns)| *ns *= times),
        Data::Value(value) => *value *= times,
        Data::Histogram(_) => {}
    });
}

/// `before.jsonl` as another file, with other numbers: by the probe and the launch.
fn rewrite(place: &Place, name: &str, change: impl Fn(&str, u32, &mut Data)) {
    let lines = read(&place.path("before.jsonl"))
        .into_rows()
        .map(|mut row| {
            if let Row::Launch(launch) = &mut row {
                for point in &mut launch.points {
                    for metric in &mut point.metrics {
                        change(&point.point.probe, launch.launch, &mut metric.data);
                        // What a neighbour did meanwhile has no say in this.
                        (metric.gauged, metric.disturbed) = (None, Vec::new());
                    }
                }
            }
            run_file::line(&row)
        });
    let bytes: Vec<u8> = lines.flatten().collect();
    fs::write(place.path(name), bytes).unwrap();
}

#[test]
fn what_takes_twice_as_long_is_worse_and_the_rest_is_not() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    let text = run(&mut place.costof("compare before.jsonl after.jsonl")).expect_code(0);
    assert_contains_all(&text.out, &[" worse ", "2.000"]);
    assert!(!text.out.contains(" better "), "{}", text.out);
    assert!(
        !text.out.contains("Not the same in both runs"),
        "{}",
        text.out
    );
    let told = run(&mut place.costof("compare --json before.jsonl after.jsonl"))
        .expect_code(0)
        .out;
    let told: Value = serde_json::from_str(&told).unwrap();
    let rows = told["comparison"]["rows"].as_array().unwrap();
    for row in rows {
        let is_slowed = row["probe"] == "cpu.loop";
        let verdict = if is_slowed { "worse" } else { "no_difference" };
        assert_eq!(row["verdict"], verdict, "{row}");
        let ratio = row["ratio"].as_f64().unwrap();
        assert!(
            (ratio - if is_slowed { 2.0 } else { 1.0 }).abs() < 1e-9,
            "{row}"
        );
    }
    assert!(rows.iter().any(|row| row["probe"] == "null"), "{told}");
}

#[test]
fn a_threshold_ends_with_a_code_of_its_own() {
    let place = measured();
    slowed(&place, "cpu.loop", 2.0);
    let code = |words: &[&str]| {
        let ended = run(&mut place.costof(&[&["compare"], words].concat()));
        ended.code.unwrap()
    };
    let files = ["before.jsonl", "after.jsonl"];
    assert_eq!(code(&[&files[..], &["--threshold", "5"]].concat()), 1);
    assert_eq!(code(&[&files[..], &["--threshold", "150%"]].concat()), 0);
    assert_eq!(
        code(&["after.jsonl", "before.jsonl", "--threshold", "5"]),
        0,
        "it became better"
    );
    // Each later run by itself.
    assert_eq!(
        code(&[
            "before.jsonl",
            "before.jsonl",
            "after.jsonl",
            "--threshold",
            "5"
        ]),
        1
    );
}

#[test]
fn what_cannot_be_compared_says_why() {
    let place = measured();
    let exported = run(&mut place.costof("export before.jsonl"))
        .expect_code(0)
        .out;
    fs::write(place.path("export.jsonl"), exported).unwrap();
    fs::write(place.path("rubbish.jsonl"), "rubbish\n").unwrap();
    let wrong = |words: &[&str]| {
        let ended = run(&mut place.costof(&[&["compare"], words].concat())).expect_code(2);
        format!("{}{}", ended.out, ended.err)
    };
    let export = wrong(&["before.jsonl", "export.jsonl"]);
    assert_contains(&export, "an export has none");
    assert!(wrong(&["before.jsonl", "absent.jsonl"]).contains("absent.jsonl"));
    assert!(wrong(&["before.jsonl", "rubbish.jsonl"]).contains("rubbish.jsonl"));
    assert!(wrong(&["before.jsonl"]).contains("AFTER"));
    assert!(wrong(&["before.jsonl", "before.jsonl", "--threshold", "-1"]).contains("percent"));
}

#[test]
fn a_point_that_has_no_number_any_more_is_no_pass() {
    let place = measured();
    let lost = read(&place.path("before.jsonl"))
        .into_rows()
        .filter(|row| !matches!(row, Row::Point(point) if point.point.probe == "cpu.loop"));
    let bytes: Vec<u8> = lost.flat_map(|row| run_file::line(&row)).collect();
    fs::write(place.path("after.jsonl"), bytes).unwrap();
    let words = ["compare", "before.jsonl", "after.jsonl", "--threshold", "5"];
    run(&mut place.costof(&words)).expect_code(1);
    let shown = run(&mut place.costof(&words[..3])).expect_code(0).out;
    assert_contains(&shown, "Only the earlier run has a number of");
}

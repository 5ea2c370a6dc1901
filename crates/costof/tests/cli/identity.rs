//! A point keeps its identity when its probe gains an axis or another name. The probe `test.named` of the misbehaving
//! costof has an axis that older runs lack, and had other names.

use crate::common::{Place, assert_contains};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

const IDS: [&str; 2] = ["test.named", "test.named(colour=blue)"];
const PLAN: &str = "run test.named --only --set colour=red,blue --quick --seed 1";

/// A place with a run of both points in `new.jsonl`.
fn with_a_run() -> Place {
    let place = Place::new();
    place.run_misbehaving(&format!("{PLAN} --out new.jsonl")).expect_measured();
    place.make_quiet("new.jsonl");
    place
}

/// Writes the run of `new.jsonl` to another file, as a costof has written it to which the axis `shade` was unknown.
fn without_the_axis(place: &Place, file: &str, change: impl Fn(String) -> String) {
    let text = fs::read_to_string(place.path("new.jsonl")).unwrap();
    let rows = text.lines().map(|line| {
        let mut row: Value = serde_json::from_str(line).unwrap();
        forget(&mut row, "shade");
        if row["type"] == "probe" {
            row["axes"].as_array_mut().unwrap().retain(|axis| axis["name"] != "shade");
            row.as_object_mut().unwrap().remove("aliases");
        }
        format!("{row}\n")
    });
    let text: String = rows.collect();
    let earlier = text.replacen("\"started\":\"20", "\"started\":\"19", 1);
    fs::write(place.path(file), change(earlier)).unwrap();
}

/// Removes the values on an axis, wherever they stand.
fn forget(value: &mut Value, axis: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove(axis);
            fields.values_mut().for_each(|value| forget(value, axis));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| forget(value, axis)),
        _ => {}
    }
}

/// As the probe, its axis and a value were called before.
fn by_old_names(text: String) -> String {
    text.replace("test.named", "test.tinted")
        .replace("\"colour\":\"blue\"", "\"tint\":\"azure\"")
        .replace("\"colour\":", "\"tint\":")
        .replace("\"colour\"", "\"tint\"")
        .replace("\"blue\"", "\"azure\"")
}

/// The ids of the rows in this list.
fn ids(rows: &Value) -> BTreeSet<&str> {
    rows.as_array().unwrap().iter().map(|row| row["point"].as_str().unwrap()).collect()
}

fn older_runs(place: &Place) -> Vec<&'static str> {
    without_the_axis(place, "old.jsonl", |text| text);
    without_the_axis(place, "renamed.jsonl", by_old_names);
    let value = |text: String| text.replace("\"blue\"", "\"navy\"");
    without_the_axis(place, "value.jsonl", value);
    vec!["old.jsonl", "renamed.jsonl", "value.jsonl"]
}

#[test]
fn an_older_run_is_compared_point_by_point() {
    let place = with_a_run();
    for old in older_runs(&place) {
        for pair in [format!("{old} new.jsonl"), format!("new.jsonl {old}")] {
            let compared = place.run_misbehaving(&format!("compare {pair} --json"));
            let compared: Value = serde_json::from_str(&compared.expect_code(0).out).unwrap();
            let compared = &compared["comparison"];
            assert_eq!(ids(&compared["rows"]), IDS.into(), "{pair}: {compared}");
            for list in ["refused", "only_before", "only_after", "missing"] {
                assert_eq!(compared[list], json!([]), "{pair}: {list}");
            }
        }
    }
}

#[test]
fn older_and_newer_runs_are_one_history() {
    let place = with_a_run();
    let olds = older_runs(&place);
    fs::create_dir(place.path("runs")).unwrap();
    // A row is followed from five runs on, so these five have to agree on its name.
    for (day, old) in (1..).zip(olds.iter().chain(&["new.jsonl"; 2])) {
        let text = fs::read_to_string(place.path(old)).unwrap();
        let rows = text.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            if row["type"] == "run" {
                row["started"] = json!(format!("2026-01-0{day}T00:00:00Z"));
            }
            format!("{row}\n")
        });
        fs::write(place.path(&format!("runs/{day}.jsonl")), rows.collect::<String>()).unwrap();
    }
    let history = place.run_misbehaving("history runs --json").expect_code(0).out;
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["rows"], 2, "{history}");
}

#[test]
fn an_older_run_goes_on_and_is_shown_by_present_ids() {
    let place = with_a_run();
    for old in older_runs(&place) {
        let text = fs::read_to_string(place.path(old)).unwrap();
        let is_launch = |line: &&str| line.contains("\"type\":\"launch\"");
        let (others, launches): (Vec<&str>, Vec<&str>) =
            text.split_inclusive('\n').partition(|line| !is_launch(line));
        let is_begun = |line: &&&str| {
            !line.contains("\"type\":\"point\"") && !line.contains("\"type\":\"end\"")
        };
        let begun: Vec<&str> = others.iter().filter(is_begun).copied().collect();
        fs::write(place.path(old), begun.concat() + launches[0]).unwrap();
        place.run_misbehaving(&format!("run --resume {old}")).expect_measured();
        let rows = fs::read_to_string(place.path(old)).unwrap();
        assert!(rows.lines().last().unwrap().starts_with("{\"type\":\"end\""), "{rows}");
        place.make_quiet(old);
        let shown = place.run_misbehaving(&format!("show {old} --json")).expect_code(0).out;
        let shown: Value = shown
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|row| row["type"] == "point")
            .collect();
        assert_eq!(ids(&shown), IDS.into(), "{old}");
        for row in shown.as_array().unwrap() {
            assert_eq!(row["axes"]["shade"], "plain", "{old}");
        }
    }
}

/// The ids in a file are those by which it is read.
#[test]
fn a_run_file_has_the_ids_that_are_shown() {
    let place = Place::new();
    place.run_misbehaving(&format!("{PLAN} --out run.jsonl")).expect_measured();
    let text = fs::read_to_string(place.path("run.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Value = rows.filter(|row| row["point"].is_string()).collect();
    assert_eq!(ids(&rows), IDS.into());
}

#[test]
fn every_spelling_on_the_command_line_names_the_same_point() {
    let place = with_a_run();
    let plan = |words: &str| {
        let line = format!("run {words} --only --dry-run --quick");
        place.run_misbehaving(&line).expect_code(0).out
    };
    let red = plan("test.named --set colour=red");
    assert_contains(&red, "test.named");
    assert_eq!(plan("test.named --set shade=plain"), red);
    assert_eq!(plan("test.named --set colour=navy"), plan("test.named --set colour=blue"));
    let estimated = |expression: &str| {
        let line = format!("estimate --run new.jsonl --json '{expression}'");
        let estimated = place.run_misbehaving(&line).expect_code(0).out;
        let estimated: Value = serde_json::from_str(&estimated).unwrap();
        estimated["points"][0]["point"].as_str().unwrap().to_owned()
    };
    for expression in ["test.named(shade=plain)", "test.named(colour=red)", "test.named()"] {
        assert_eq!(estimated(expression), IDS[0], "{expression}");
    }
    for expression in ["test.named(colour=blue, shade=plain)", "test.named(colour=navy)"] {
        assert_eq!(estimated(expression), IDS[1], "{expression}");
    }
    for line in ["run test.good test.tinted --set tint=azure", "estimate 'test.tinted(tint=azure)'"]
    {
        place.run_misbehaving(line).expect_wrong(&["`test.tinted` is now test.named"]);
    }
}

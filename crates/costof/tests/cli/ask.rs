//! `costof ask`: a question, what it needs, and its answer.

use crate::common::{COSTOF, Ended, Place, assert_contains, assert_contains_all};
use crate::written::file_in;
use serde_json::Value;
use std::fs;

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_question_is_measured_and_answered_and_answered_again_from_its_run() {
    let place = Place::new();
    let live = place.run("ask wake-up --quick --json");
    let run = file_in(&place.path("state")).unwrap();
    let run = run.to_str().unwrap();
    let again = place.run(&format!("ask wake-up --run {run} --json"));
    // Reading a number back may change its last digit.
    let answer = |ended: &Ended| {
        let json = serde_json::from_str::<Value>(&ended.out).ok();
        (ended.code, json.map(|json| json["answer"].clone()))
    };
    assert_eq!(answer(&again), answer(&live));

    // On a busy machine there may be no answer.
    place.make_quiet(run);
    let again = place.run(&format!("ask wake-up --run {run} --json"));
    let answer: Value = serde_json::from_str(&again.expect_code(0).out).unwrap();
    let costs = answer["costs"].as_array().unwrap();
    assert_eq!(answer["verdict"], Value::Null, "{answer}");
    assert_eq!(costs.len(), 3, "{answer}");
    let is_known = |cost: &Value| cost["value"].as_f64() > Some(0.0);
    assert!(costs.iter().all(is_known), "{answer}");
    let text = place.run(&format!("ask wake-up --run {run}"));
    let text = text.expect_code(0).out;
    let answered = answer["answer"].as_str().unwrap();
    let (cost, _) = answered.split_once(" (").unwrap();
    assert_contains_all(&text, &["to wake a thread?", &cost[1..], "█", "jsonl"]);

    let other = place.run(&format!("ask fsync --run {run}")).expect_code(3);
    assert_contains_all(&other.err, &["no number for file.sync"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_question_is_asked_of_two_hosts() {
    let place = Place::new();
    let line = format!("ask udp-vs-tcp --quick --json --peer 'exec:{COSTOF} worker'");
    let ended = place.run(&line).expect_code(0);
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(["yes", "no", "inconclusive"].contains(&answer["verdict"].as_str().unwrap()));
    // Both are one machine, which is known when they are there.
    assert_contains(answer["question"].as_str().unwrap(), "over loopback");
    let run = place.read(answer["run"].as_str().unwrap());
    assert!(run.run.plan.hosts.peer.unwrap().starts_with("exec:"));

    let line = format!("ask fork --peer 'exec:{COSTOF} worker'");
    place.run(&line).expect_wrong(&["ask fork", "no --peer"]);
}

#[test]
fn questions_are_listed() {
    let listed = Place::new().run("ask").expect_code(0).out;
    assert_contains_all(
        &listed,
        &["zero-copy", "32KiB in 8 fields", "fork", "costof ask rpc/2", "limits a stream"],
    );
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_question_of_a_study_is_measured_by_itself_and_answered() {
    let place = Place::new();
    let study = r#"
title = "t"
source = "s"
machine = "m"
question = [
  { ask = "1. First?", kinds = ["fork_growth"], because = "nothing forks" },
  { ask = "2. Does a second thread cost more?", kinds = ["second_thread"], because = "it is not certain", measure = [
    { what = "harness.null" }, { what = "os.syscall" },
  ] },
]
"#;
    fs::write(place.path("own.toml"), study).unwrap();
    let ended = place.run("ask own.toml/2 --quick --json").expect_code(0);
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    let run = answer["run"].as_str().unwrap();
    let points = place.read(run).points;
    assert!(points.iter().all(|row| row.point.probe != "os.process"));
    let again = place.run(&format!("ask own.toml/2 --run {run}"));
    let text = again.expect_code(0).out;
    assert_contains_all(&text, &["2. Does a second thread cost more?", "jsonl"]);
    assert!(text.contains("here: ") || text.contains("not answered here, because"), "{text}");
    let other = place.run(&format!("ask own.toml/1 --run {run}"));
    assert_contains(&other.expect_code(0).out, "nothing forks");

    for (line, named) in [
        ("ask own.toml/3", "2 questions, and no 3"),
        ("ask rpc/1 --size 5", "has no --size"),
        ("ask 'from which size'", "which one"),
        ("ask nonsense", "no question `nonsense`"),
    ] {
        place.run(line).expect_wrong(&[named]);
    }
    let found = place.run(&format!("ask 'file cache' --run {run}"));
    assert_contains(&found.expect_code(0).out, "file cache?");
}

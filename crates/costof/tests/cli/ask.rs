//! `costof ask`: a question, what it needs, and its answer.

use crate::common::{Place, assert_contains_all};
use serde_json::Value;

#[test]
fn a_question_is_measured_and_answered_and_answered_again_from_its_run() {
    let place = Place::new();
    let ended = place.run("ask wake-up --quick --json").expect_code(0);
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    let costs = answer["costs"].as_array().unwrap();
    // On a busy machine there is no answer, and the reason.
    if answer["verdict"] == "cannot tell" {
        assert_contains_all(
            answer["answer"].as_str().unwrap(),
            &["of the 3 points for it"],
        );
        return;
    }
    assert_eq!(answer["verdict"], Value::Null);
    assert_eq!(costs.len(), 3, "{answer}");
    assert!(
        costs
            .iter()
            .all(|cost| cost["value"].as_f64().unwrap() > 0.0)
    );

    let run = answer["run"].as_str().unwrap();
    let text = place.run(&format!("ask wake-up --run {run}"));
    let text = text.expect_code(0).out;
    let answered = answer["answer"].as_str().unwrap();
    let (cost, _) = answered.split_once(" (").unwrap();
    assert_contains_all(&text, &["to wake a thread?", &cost[1..], "█", "jsonl"]);

    let other = place.run(&format!("ask fsync --run {run}")).expect_code(3);
    assert_contains_all(&other.err, &["no number for file.sync"]);
}

#[test]
fn questions_are_listed() {
    let listed = Place::new().run("ask").expect_code(0).out;
    assert_contains_all(&listed, &["zero-copy", "32KiB over sink", "fork"]);
}

//! The text of a run, held against what it was when somebody last looked at it.

use costof_report::run;
use std::io::BufReader;

/// A run that was measured, cut down and given a row of each kind that can be
/// shown: two modes, a missed prediction, a lost launch, an absent point.
const RUN: &[u8] = include_bytes!("run.jsonl");
const TEXT: &str = include_str!("run.txt");

#[test]
fn a_run_reads_as_it_did() {
    let run = costof_model::run_file::read(BufReader::new(RUN)).expect("a run");
    let text = run::text(&run);
    // Look at what differs; if it is better, it is the new run.txt.
    assert!(text == TEXT, "the text is now:\n{text}");
}

#[test]
fn estimated_cycles_say_why_although_those_of_user_mode_are_counted() {
    let mut run = costof_model::run_file::read(BufReader::new(RUN)).expect("a run");
    let counters = &mut run.attempts.last_mut().expect("an attempt").counters;
    counters.absent.clear();
    counters.user_only = vec!["cycles".into()];
    let text = run::text(&run);
    assert!(
        text.contains("No counted cycles: those in user mode alone"),
        "{text}"
    );
    assert!(text.contains("perf_event_paranoid=1"), "{text}");
}

#[test]
fn what_is_predicted_of_another_metric_is_named() {
    let mut run = costof_model::run_file::read(BufReader::new(RUN)).expect("a run");
    let rows = run.points.iter_mut();
    let mut predicted = rows.filter(|row| row.prediction.is_some() && row.primary().is_some());
    let row = predicted.next().expect("a predicted point");
    let mut other = row.primary().expect("it is measured").clone();
    other.name = "latency".into();
    row.metrics.push(other);
    let expected = row.prediction.as_mut().expect("it is predicted");
    expected.metric = "latency".into();
    let text = run::text(&run);
    assert!(!TEXT.contains("  latency "), "{TEXT}");
    assert!(text.contains("  latency "), "{text}");
}

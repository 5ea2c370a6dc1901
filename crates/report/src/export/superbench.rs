//! SuperBench's `results-summary.jsonl`: a line for each run with its node and its metrics, which
//! `sb result diagnosis` reads.

use super::{File, Value};
use costof_model::Run;
use serde_json::{Map, json};

pub(super) fn file(runs: &[Run], values: &[Vec<Value<'_>>]) -> File {
    let mut text = String::new();
    for (run, values) in runs.iter().zip(values) {
        let mut line = Map::new();
        line.insert("node".to_owned(), json!(run.host_name()));
        line.extend(values.iter().map(|value| {
            let id = value.row.point.id();
            let metric = format!("{id}/{}", value.estimate.name);
            (metric, json!(value.estimate.median))
        }));
        text.push_str(&json!(line).to_string());
        text.push('\n');
    }
    ("results-summary.jsonl".to_owned(), text)
}

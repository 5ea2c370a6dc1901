//! hyperfine's JSON, so that scripts for it read ours. Times are seconds.
//!
//! Source: hyperfine's `src/benchmark/benchmark_result.rs`, as of version 1.20.

use costof_model::timing::Timing;
use costof_model::{TimedCommand, TimedRun};
use costof_stats::{mean, median, standard_deviation};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Export<'a> {
    results: Vec<Exported<'a>>,
}

#[derive(Serialize)]
struct Exported<'a> {
    command: &'a str,
    mean: f64,
    /// Absent with one run.
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<Option<i32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: &'a BTreeMap<String, String>,
}

/// The commands in hyperfine's format.
pub fn export(timing: &Timing) -> String {
    let results = timing.commands.iter().map(exported).collect();
    let text = serde_json::to_string_pretty(&Export { results });
    text.expect("numbers and texts can always be written") + "\n"
}

fn exported(command: &TimedCommand) -> Exported<'_> {
    let runs = &command.runs;
    let seconds = |value: fn(&TimedRun) -> u64| -> Vec<f64> {
        runs.iter().map(|run| value(run) as f64 / 1e9).collect()
    };
    let average = |value| mean(&seconds(value)).unwrap_or(0.0);
    let times = seconds(|run| run.wall_ns);
    Exported {
        // A name takes the place of the command, as there.
        command: &command.name,
        mean: mean(&times).unwrap_or(0.0),
        stddev: standard_deviation(&times),
        median: median(&times).unwrap_or(0.0),
        user: average(|run| run.user_ns),
        system: average(|run| run.system_ns),
        min: times.iter().copied().fold(f64::INFINITY, f64::min),
        max: times.iter().copied().fold(0.0, f64::max),
        memory_usage_byte: runs.iter().map(|run| run.max_rss_bytes).collect(),
        exit_codes: runs.iter().map(|run| run.exit_code).collect(),
        parameters: &command.parameters,
        times,
    }
}

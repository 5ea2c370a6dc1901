//! What cargo-bench-history reports in the series of a file: the analysis of its history mode, with its own thresholds, which it has no
//! options for. Each line of the output answers one series.
//!
//! A row is to it a wall time by criterion: less is better. So a rate is given as its inverse. Each row is scaled to a median of a
//! millisecond, because it ignores changes of less than a nanosecond. It sees no intervals: to it they can only rule a change out.

use cbh_detect::{AnalysisContext, AnalysisMode, Finding, FindingMethod, find_changes};
use cbh_detect::{Series, SeriesPoint};
use cbh_model::{BenchmarkId, DiscriminantSet, Engine, MetricKind};
use nonempty::nonempty;
use serde::{Deserialize, Serialize};
use std::error::Error;

/// The median of each row.
const MEDIAN_NS: f64 = 1e6;

/// Some runs, as the bench asks for them.
#[derive(Deserialize)]
struct Asked {
    rows: Vec<Row>,
    /// The row whose beginnings are asked for.
    step: Option<usize>,
    /// The length of the first beginning.
    from: usize,
}

#[derive(Deserialize)]
struct Row {
    /// The median of each run.
    values: Vec<Option<f64>>,
    /// Whether more is better.
    rate: bool,
}

#[derive(Serialize)]
struct Answer {
    changes: Vec<Change>,
    /// For each beginning, the changes of the row that was asked for.
    beginnings: Vec<Vec<Change>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Change {
    row: usize,
    /// The first run after it; none of a drift, which has no place.
    at: Option<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("name the file with the series")?;
    let asked: Vec<Asked> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    for series in &asked {
        println!("{}", serde_json::to_string(&answer(series))?);
    }
    Ok(())
}

fn answer(asked: &Asked) -> Answer {
    let runs = asked.rows.iter().map(|row| row.values.len()).max().unwrap_or(0);
    let beginnings = asked.step.map(|step| {
        let lengths = asked.from..=runs;
        let of_step = |length| {
            changes(&asked.rows, length).into_iter().filter(|change| change.row == step).collect()
        };
        lengths.map(of_step).collect()
    });
    Answer { changes: changes(&asked.rows, runs), beginnings: beginnings.unwrap_or_default() }
}

/// The changes that a report on this many runs of all rows names.
fn changes(rows: &[Row], runs: usize) -> Vec<Change> {
    let series: Vec<Series> =
        rows.iter().enumerate().map(|(number, row)| series(number, row, runs)).collect();
    let context = AnalysisContext {
        mode: AnalysisMode::History,
        merge_base_index: None,
        base_ref_index: None,
        tip_index: runs.saturating_sub(1),
    };
    find_changes(&series, &context).findings.iter().map(change).collect()
}

fn change(finding: &Finding) -> Change {
    let at = match finding.method {
        FindingMethod::ChangePoint => finding.commit.as_ref(),
        _ => None,
    };
    Change {
        row: finding.id.segments.first().parse().expect("rows are named by their numbers"),
        at: at.map(|run| run.parse().expect("commits are the numbers of runs")),
    }
}

fn series(number: usize, row: &Row, runs: usize) -> Series {
    let known = row.values.iter().take(runs).enumerate();
    let costs: Vec<(usize, f64)> = known
        .filter_map(|(run, value)| Some((run, (*value)?)))
        .map(|(run, value)| (run, if row.rate { 1.0 / value } else { value }))
        .collect();
    let mut sorted: Vec<f64> = costs.iter().map(|(_, cost)| *cost).collect();
    sorted.sort_by(f64::total_cmp);
    let scale = sorted.get(sorted.len() / 2).map_or(1.0, |median| MEDIAN_NS / median);
    let point = |(run, cost): (usize, f64)| SeriesPoint {
        topo_index: run,
        dirty: false,
        object_ordinal: run as u32,
        commit: Some(run.to_string().into()),
        value: scale * cost,
        interval_low: None,
        interval_high: None,
    };
    Series {
        set: DiscriminantSet {
            engine: Engine::Criterion,
            target_triple: "x86_64-unknown-linux-gnu".into(),
            machine_key: "one".into(),
        },
        id: BenchmarkId::new(nonempty![number.to_string()]),
        kind: MetricKind::WallTime,
        points: costs.into_iter().map(point).collect(),
        base_window: Vec::new(),
        base_history_count: 0,
        active_start: 0,
        blessing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that scatter by a percent, and become slower by this share with the 30th of 60.
    fn row(seed: u64, step: f64, rate: bool) -> Row {
        let value = |run: u64| {
            let scatter = 1.0 + 0.01 * ((run * 7 + seed * 13) % 11) as f64 / 11.0;
            let cost = if run < 30 { scatter } else { scatter * (1.0 + step) };
            Some(1e-3 * if rate { 1.0 / cost } else { cost })
        };
        Row { values: (0..60).map(value).collect(), rate }
    }

    #[test]
    fn a_step_is_reported_where_it_is_and_its_beginnings_show_when() {
        for rate in [false, true] {
            let rows = vec![row(1, 0.0, rate), row(2, 0.3, rate), row(3, 0.0, rate)];
            let answer = answer(&Asked { rows, step: Some(1), from: 31 });
            let expected = Change { row: 1, at: Some(30) };
            assert_eq!(answer.changes, [expected.clone()]);
            assert_eq!(answer.beginnings.len(), 30);
            assert!(answer.beginnings[0].is_empty() && answer.beginnings[29] == [expected]);
        }
    }

    #[test]
    fn an_improvement_and_a_row_without_values_are_not_reported() {
        let nothing = Row { values: vec![None; 60], rate: false };
        let rows = vec![row(1, -0.3, false), nothing];
        let answer = answer(&Asked { rows, step: None, from: 31 });
        assert!(answer.changes.is_empty() && answer.beginnings.is_empty());
    }
}

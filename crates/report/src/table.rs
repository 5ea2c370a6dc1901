//! The latency table: what each thing costs, how sure that is, what was
//! expected, and how far the number can be trusted.

use crate::grid::Align::{Left, Right};
use crate::grid::Grid;
use crate::names::short_point;
use costof_model::metric::{Estimate, Selection};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use std::collections::HashMap;

pub(crate) fn points(run: &Run) -> String {
    if run.points.is_empty() {
        return "No point was measured.\n".to_owned();
    }
    let labelled = in_order(run).any(|row| row.label.is_some());
    let columns = [
        ("", Left),
        ("", Left),
        ("measured", Right),
        ("95 % interval", Right),
        ("predicted", Right),
        ("cycles", Right),
        ("grade", Left),
    ];
    // Without labels, without their column.
    let from = usize::from(!labelled);
    let mut grid = Grid::new(columns.into_iter().skip(from));
    for row in in_order(run) {
        let primary = row.primary();
        let cells = [
            row.label.clone().unwrap_or_default(),
            short_point(&row.point, run.probe(&row.point.probe)),
            primary.map_or_else(|| BELOW_RESOLUTION.to_owned(), measured),
            primary.map_or_else(String::new, interval),
            prediction(row),
            cycles(row),
            row.grade.to_string(),
        ];
        grid.add(cells.into_iter().skip(from));
    }
    grid.text()
}

/// What stands where a cost lies below what the clock can tell.
const BELOW_RESOLUTION: &str = "below resolution";

/// The median of what answers the probe's question.
pub(crate) fn median(row: &PointRow) -> String {
    row.primary().map_or_else(
        || BELOW_RESOLUTION.to_owned(),
        |estimate| estimate.unit.display(estimate.median),
    )
}

fn measured(estimate: &Estimate) -> String {
    if estimate.disagrees() {
        return "launches disagree".to_owned();
    }
    let shown = estimate.unit.display(estimate.median);
    match estimate.core.map(|core| core.selection) {
        Some(Selection::Shared) => format!("{shown} (core shared)"),
        _ => shown,
    }
}

/// The points in the order of the plan.
pub(crate) fn in_order(run: &Run) -> impl Iterator<Item = &PointRow> {
    let mut measured: HashMap<&Point, &PointRow> = HashMap::with_capacity(run.points.len());
    for row in &run.points {
        measured.entry(&row.point).or_insert(row);
    }
    let planned = run.run.plan.points();
    planned.filter_map(move |point| measured.get(point).copied())
}

/// The interval, in the unit in which the cost is shown: `109–113`.
pub(crate) fn interval(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(_) if estimate.disagrees() => "more than tenfold".to_owned(),
        Some(range) => beside(estimate, range),
        None => String::new(),
    }
}

/// A range in the unit in which the estimate is shown.
pub(crate) fn beside(estimate: &Estimate, range: (f64, f64)) -> String {
    estimate.unit.display_range(range, estimate.median)
}

/// The range that was expected, marked where it was missed.
pub(crate) fn prediction(row: &PointRow) -> String {
    let Some(expected) = &row.prediction else {
        return String::new();
    };
    let Some(estimate) = row.estimate(&expected.metric) else {
        return String::new();
    };
    let is_missed = is_hit(row) == Some(false);
    let mark = if is_missed { "✗" } else { "✓" };
    let range = beside(estimate, (expected.low, expected.high));
    if expected.metric == row.primary {
        return format!("{range} {mark}");
    }
    // It stands beside another metric than its own.
    let symbol = estimate.unit.symbol_of(estimate.median);
    format!("{} {range} {symbol} {mark}", expected.metric)
}

/// Whether the interval of what was measured meets what was expected.
pub(crate) fn is_hit(row: &PointRow) -> Option<bool> {
    let expected = row.prediction.as_ref()?;
    let estimate = row.estimate(&expected.metric)?;
    Some(expected.missed_by(estimate).is_none())
}

/// PMU cycles where there are any, else estimated ones, marked by `~`.
pub(crate) fn cycles(row: &PointRow) -> String {
    let counted = row.estimate("cycles").map(|cycles| ("", cycles.median));
    let estimated = || {
        let cycles = row.estimate("estimated_core_cycles")?;
        Some(("~", cycles.median))
    };
    counted
        .or_else(estimated)
        .map_or_else(String::new, |(mark, cycles)| {
            let digits = if cycles < 100.0 { 1 } else { 0 };
            format!("{mark}{cycles:.digits$}")
        })
}

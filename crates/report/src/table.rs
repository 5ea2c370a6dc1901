//! The latency table: the cost of each thing, its interval, its prediction, and its grade.

use crate::colour;
use crate::grid::Align::{self, Left, Right};
use crate::grid::Grid;
use crate::names::short_point;
use crate::style::Style;
use crate::text::{printable, wrapped};
use costof_model::metric::{Estimate, Selection};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use std::collections::HashMap;

/// A column next to the name.
struct Column {
    heading: &'static str,
    align: Align,
    /// Whether a narrow terminal leaves it out.
    from_width: usize,
    cell: fn(&PointRow) -> String,
}

const COLUMNS: [Column; 5] = [
    Column {
        heading: "measured",
        align: Right,
        from_width: 0,
        cell: measured,
    },
    Column {
        heading: "95 % interval",
        align: Right,
        from_width: 120,
        cell: interval_of,
    },
    Column {
        heading: "predicted",
        align: Right,
        from_width: 160,
        cell: prediction,
    },
    Column {
        heading: "cycles",
        align: Right,
        from_width: CYCLES_FROM_WIDTH,
        cell: cycles,
    },
    Column {
        heading: "grade",
        align: Left,
        from_width: 0,
        cell: |row| row.grade.to_string(),
    },
];

/// A narrower terminal does not show cycles.
pub(crate) const CYCLES_FROM_WIDTH: usize = 160;
/// A name is not broken into lines shorter than this.
const LEAST_NAME: usize = 20;

/// The latency table. On a terminal its rows fit the width: columns are left out, and a long name takes
/// several lines.
pub(crate) fn points(run: &Run, style: Style) -> String {
    let rows: Vec<&PointRow> = in_order(run).collect();
    if rows.is_empty() {
        return style.prose(&without_points(run));
    }
    let width = style.columns();
    let columns = || COLUMNS.iter().filter(|column| column.from_width <= width);
    let cells = |row: &PointRow| columns().map(|column| (column.cell)(row)).collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let names = names(run, &rows, style, room(columns(), &cells, width));
    let headings = columns().map(|column| (column.heading, column.align));
    let unnamed = vec![("", Left); names[0].len()];
    let mut grid = Grid::new(unnamed.into_iter().chain(headings));
    let mut of_line = vec![None];
    for ((row, names), cells) in rows.into_iter().zip(names).zip(cells) {
        of_line.extend(vec![Some(row); names[0].lines().count().max(1)]);
        grid.add(names.into_iter().chain(cells));
    }
    let text = grid.text();
    if !style.colour {
        return text;
    }
    let lines = text.lines().zip(of_line);
    lines.map(|(line, row)| painted(line, row) + "\n").collect()
}

/// What stands in the place of a table without rows.
fn without_points(run: &Run) -> String {
    if run.end.is_some() {
        return "No point was measured.".to_owned();
    }
    let launches = match run.launches.len() {
        1 => "1 launch".to_owned(),
        count => format!("{count} launches"),
    };
    format!(
        "No point has a number yet: the run is unfinished, after {launches}. `costof run --resume RUN` \
         goes on."
    )
}

/// The width that the columns of this text leave for a name; each has a space on both sides.
fn room<'c>(
    columns: impl Iterator<Item = &'c Column>,
    cells: &[Vec<String>],
    width: usize,
) -> usize {
    let letters = |text: &str| text.chars().count();
    let widths = columns.enumerate().map(|(position, column)| {
        let cells = cells.iter().map(|cells| letters(&cells[position]));
        2 + cells.chain([letters(column.heading)]).max().unwrap_or(0)
    });
    width
        .saturating_sub(2 + widths.sum::<usize>())
        .max(LEAST_NAME)
}

/// The name of each row: its label, or else its point. `--ids` adds the point to the label: in a column of
/// its own, or on a terminal on the next line.
fn names(run: &Run, rows: &[&PointRow], style: Style, room: usize) -> Vec<Vec<String>> {
    let name = |row: &&PointRow| {
        let id = printable(&short_point(&row.point, run.probe(&row.point.probe)));
        let label = row.label.as_deref().map(printable);
        if style.ids && style.width.is_none() {
            return vec![label.unwrap_or_default(), id];
        }
        let below = label.as_ref().filter(|_| style.ids);
        let below = below.map_or_else(String::new, |_| wrapped(room, &id, "  "));
        let name = wrapped(room, &label.unwrap_or(id), "");
        vec![(name + &below).trim_end().to_owned()]
    };
    rows.iter().map(name).collect()
}

/// A line of a row in colours: its grade and a missed prediction; dim if the row has no usable number.
fn painted(line: &str, row: Option<&PointRow>) -> String {
    let Some(row) = row else {
        return line.to_owned();
    };
    if !row.is_usable() {
        return colour::painted(line, colour::DIM);
    }
    let line = line.replace('✗', &colour::painted("✗", colour::BAD));
    let grade = row.grade.to_string();
    match line.strip_suffix(&format!("  {grade}")) {
        Some(before) => format!(
            "{before}  {}",
            colour::painted(&grade, colour::grade(row.grade))
        ),
        None => line,
    }
}

/// Shown if a cost is below the resolution of the clock.
const BELOW_RESOLUTION: &str = "below resolution";
/// Shown if an interval is so wide that the number says nothing.
pub(crate) const NO_INTERVAL: &str = "no usable interval";

/// The median of the probe's primary metric, if a user can use it.
pub(crate) fn measured(row: &PointRow) -> String {
    let Some(estimate) = row.primary() else {
        return BELOW_RESOLUTION.to_owned();
    };
    if estimate.disagrees() {
        return NO_INTERVAL.to_owned();
    }
    let shown = estimate.unit.display(estimate.median);
    match estimate.core.map(|core| core.selection) {
        Some(Selection::Shared) => format!("{shown} (shared)"),
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

/// The interval, `109 ns – 113 ns`.
pub(crate) fn interval(estimate: &Estimate) -> String {
    match estimate.ci95 {
        Some(_) if estimate.disagrees() => NO_INTERVAL.to_owned(),
        Some(range) => estimate.unit.display_interval(range),
        None => String::new(),
    }
}

/// The interval for what [`measured`] shows; empty if that says already that there is no usable number.
pub(crate) fn interval_of(row: &PointRow) -> String {
    let estimate = row.primary().filter(|_| row.is_usable());
    estimate.map_or_else(String::new, interval)
}

/// The predicted range. If the prediction is scored, a mark shows whether it held.
pub(crate) fn prediction(row: &PointRow) -> String {
    let Some(expected) = &row.prediction else {
        return String::new();
    };
    let Some(estimate) = row.estimate(&expected.metric) else {
        return String::new();
    };
    let mark = hit_mark(row);
    let range = estimate
        .unit
        .display_interval((expected.low, expected.high));
    if expected.metric == row.primary {
        return format!("{range}{mark}");
    }
    // The prediction is about another metric than the one that this row shows.
    format!("{} {range}{mark}", printable(&expected.metric))
}

/// Whether the interval of the measurement overlaps the predicted range; none if the prediction is not
/// scored.
pub(crate) fn is_hit(row: &PointRow) -> Option<bool> {
    row.scored()?;
    Some(row.missed_by().is_none())
}

/// A mark for [`is_hit`], to follow the predicted range.
pub(crate) fn hit_mark(row: &PointRow) -> &'static str {
    match is_hit(row) {
        Some(true) => " ✓",
        Some(false) => " ✗",
        None => "",
    }
}

/// Counted PMU cycles if there are any, else estimated ones, marked by `~`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::rows::EndRow;
    use costof_model::testing::run_without_facts;

    #[test]
    fn a_run_that_ended_early_says_how_far_it_is_and_how_it_goes_on() {
        let mut run = run_without_facts();
        let text = points(&run, Style::default());
        assert!(
            text.contains("after 0 launches. `costof run --resume RUN`"),
            "{text}"
        );
        run.end = Some(EndRow {
            finished: String::new(),
            points: 0,
            failures: 0,
        });
        assert_eq!(points(&run, Style::default()), "No point was measured.\n");
    }
}

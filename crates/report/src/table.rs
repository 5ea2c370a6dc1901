//! The latency table: the cost of each thing, its interval, its prediction, and its grade.

use crate::colour;
use crate::grid::Align::{self, Left, Right};
use crate::grid::Grid;
use crate::known;
use crate::names;
use crate::names::short_point;
use crate::rows::in_order;
use crate::style::Style;
use crate::text::printable;
use costof_model::{Estimate, PointRow, Run, Selection, Text, counted};
use std::collections::HashSet;
use std::iter::{once, repeat_n};

/// A column next to the name.
struct Column {
    heading: &'static str,
    align: Align,
    /// Whether a narrow terminal leaves it out.
    from_width: usize,
    cell: fn(&PointRow) -> String,
}

const COLUMNS: [Column; 5] = [
    Column { heading: "measured", align: Right, from_width: 0, cell: measured },
    Column {
        heading: "95 % interval",
        align: Right,
        from_width: INTERVAL_FROM_WIDTH,
        cell: interval_of,
    },
    Column { heading: "predicted", align: Right, from_width: 160, cell: prediction },
    Column { heading: "cycles", align: Right, from_width: CYCLES_FROM_WIDTH, cell: cycles },
    Column { heading: "grade", align: Left, from_width: 0, cell: |row| row.grade.to_string() },
];

/// A narrower terminal does not show intervals.
const INTERVAL_FROM_WIDTH: usize = 120;

/// A narrower terminal does not show cycles.
pub(crate) const CYCLES_FROM_WIDTH: usize = 160;

/// What the question of a probe is about, besides its primary metric: shown where a run asked for it alone.
const OF_PROBES: [(&str, &[&str]); 2] = [
    ("net.stages", &["send_to_queue", "queue_to_driver", "driver_to_stack", "stack_to_receive"]),
    ("copy.send", &["cpu_sender"]),
];

/// How much wider a terminal must be for the other columns, for each further metric.
const METRIC_WIDTH: usize = 18;

/// The further metrics that the table shows: those of the probe that was asked for, if it was one alone.
fn metrics_of(run: &Run) -> &'static [&'static str] {
    let asked = run.run.plan.blocks.iter().flat_map(|block| {
        let points = block.points.iter().enumerate();
        points.filter(|(at, _)| !block.needed.contains(at)).map(|(_, point)| &point.probe)
    });
    let asked: HashSet<&Text> = asked.collect();
    let mut of_probes = OF_PROBES.iter();
    let found =
        of_probes.find(|(probe, _)| asked.len() == 1 && asked.contains(&Text::Borrowed(*probe)));
    found.map_or(&[], |(_, metrics)| metrics)
}

/// The latency table, with these further metrics, or with those that its probe is about if there are none. On a
/// terminal columns that do not fit the width are left out, and a long name takes several lines.
pub(crate) fn points(run: &Run, style: Style, metrics: &[String]) -> String {
    let mut rows: Vec<&PointRow> = in_order(run).collect();
    if style.width.is_some() {
        known::in_order(&mut rows);
    }
    let metrics: Vec<&str> = match metrics {
        [] => metrics_of(run).to_vec(),
        asked => asked.iter().map(String::as_str).collect(),
    };
    if rows.is_empty() {
        return style.prose(&without_points(run));
    }
    let names: Vec<_> = rows.iter().map(|row| name(run, row, style)).collect();
    let unnamed = vec![("", Left, 0); names[0].len()];
    let wider = metrics.len() * METRIC_WIDTH;
    let shown = COLUMNS.map(|column| {
        let from_width = if column.from_width == 0 { 0 } else { column.from_width + wider };
        (column.heading, column.align, from_width)
    });
    let mut columns: Vec<_> = unnamed.into_iter().chain(shown).collect();
    // The grade stays last.
    let grade = columns.len() - 1;
    let further = metrics.iter().map(|metric| (*metric, Right, 0));
    columns.splice(grade..grade, further);
    let headings = columns.iter().map(|(heading, align, _)| (*heading, *align));
    let mut grid = Grid::new(headings);
    let has_intervals = style.columns() >= INTERVAL_FROM_WIDTH + wider;
    for (row, name) in rows.iter().zip(names) {
        let mut cells = COLUMNS.map(|column| (column.cell)(row));
        if !has_intervals {
            cells[0] = measured_with_range(row);
        }
        let [cells @ .., grade] = cells;
        let further = metrics
            .iter()
            .map(|metric| row.estimate(metric).map_or_else(String::new, Estimate::display));
        grid.add(name.into_iter().chain(cells).chain(further).chain([grade]));
    }
    let from_widths: Vec<usize> = columns.iter().map(|(.., from)| *from).collect();
    grid.fit(style.columns(), &from_widths, 0);
    let heights = rows.into_iter().zip(grid.heights(0));
    let of_rows = heights.flat_map(|(row, height)| repeat_n(Some(row), height));
    let of_line: Vec<_> = once(None).chain(of_rows).collect();
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
    let launches = counted(run.launches.len(), "launch");
    format!(
        "No point has a number yet: the run is unfinished, after {launches}. `costof run --resume RUN` \
         continues it."
    )
}

/// The name of a row: its label, or else its point. `--ids` adds the point to the label: in a column of its
/// own, or on a terminal on the next line.
fn name(run: &Run, row: &PointRow, style: Style) -> Vec<String> {
    let id = printable(&short_point(&row.point, run.probe(&row.point.probe)));
    let label = row.label.as_deref().map(printable);
    match (label, style.width) {
        (label, None) if style.ids => vec![label.unwrap_or_default(), id],
        (Some(label), _) if style.ids => vec![format!("{label}\n  {id}")],
        (label, _) => vec![label.unwrap_or(id)],
    }
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
        Some(before) => format!("{before}  {}", colour::painted(&grade, colour::grade(row.grade))),
        None => line,
    }
}

/// Shown if a cost is below the resolution of the clock.
const BELOW_RESOLUTION: &str = "below resolution";

/// The median of the probe's primary metric, or what is known without a usable interval. The interval, if there is
/// one, stands beside it.
pub(crate) fn measured(row: &PointRow) -> String {
    shown(row, |_, _| " (shared)".to_owned())
}

/// As [`measured`], for where the interval is not shown: that of a shared core is as important as the median.
pub(crate) fn measured_with_range(row: &PointRow) -> String {
    shown(row, |estimate, ends| format!(" (shared, {})", names::shown_range(estimate, ends)))
}

/// The median, marked if it has an interval and is of a shared core.
fn shown(row: &PointRow, mark: impl Fn(&Estimate, (f64, f64)) -> String) -> String {
    let Some(estimate) = row.primary() else {
        return BELOW_RESOLUTION.to_owned();
    };
    let mut shown = names::shown_median(estimate);
    let is_shared = estimate.core.is_some_and(|core| core.selection == Selection::Shared);
    if let Some(ends) = estimate.usable_interval().filter(|_| is_shared) {
        shown += &mark(estimate, ends);
    }
    shown
}

/// The interval, `109 ns – 113 ns`; empty if it is not usable.
pub(crate) fn interval(estimate: &Estimate) -> String {
    let interval = estimate.usable_interval();
    interval.map_or_else(String::new, |ends| names::shown_interval(estimate, ends))
}

/// The interval of what [`measured`] shows.
pub(crate) fn interval_of(row: &PointRow) -> String {
    row.primary().map_or_else(String::new, interval)
}

/// The predicted range, with a mark that shows whether it held if it is scored.
pub(crate) fn prediction(row: &PointRow) -> String {
    let Some(expected) = &row.prediction else {
        return String::new();
    };
    let Some(estimate) = row.estimate(&expected.metric) else {
        return String::new();
    };
    let mark = hit_mark(row);
    let range = estimate.unit.display_interval((expected.low, expected.high));
    if expected.metric == row.primary {
        return format!("{range}{mark}");
    }
    // The prediction is about another metric than this row shows.
    format!("{} {range}{mark}", printable(&expected.metric))
}

/// Whether the median lies inside the predicted range; none if the prediction is not scored.
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

/// Counted PMU cycles if there are any, else estimated ones, marked by `~`; empty if the row has no number.
pub(crate) fn cycles(row: &PointRow) -> String {
    let of = |mark, metric| Some((mark, row.median(metric).filter(|_| row.is_usable())?));
    let counted = of("", "cycles");
    let estimated = || of("~", "estimated_core_cycles");
    counted.or_else(estimated).map_or_else(String::new, |(mark, cycles)| {
        let digits = if cycles < 100.0 { 1 } else { 0 };
        format!("{mark}{cycles:.digits$}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::run_without_facts;
    use costof_model::{Block, EndRow};

    #[test]
    fn a_number_of_a_shared_core_shows_its_interval_once() {
        let mut row = costof_model::testing::row("os.syscall", Default::default(), 229.0);
        row.metrics[0].ci95 = Some((213.0, 241.0));
        row.metrics[0].core = Some(costof_model::metric::CoreShare {
            selection: Selection::Shared,
            alone: 0.0,
            shared: 1.0,
            shared_median: Some(229.0),
            alone_by_ratio: None,
        });
        assert_eq!(measured_with_range(&row), "229 ns (shared, 213–241 ns)");
        assert_eq!(measured(&row), "229 ns (shared)");
        let mut run = run_without_facts();
        run.points = vec![row.clone()];
        let block = Block { points: vec![row.point.clone()], ..Block::default() };
        run.run.plan.blocks = vec![block];
        for width in [Some(80), Some(119), Some(120), None] {
            let text = points(&run, Style { width, ..Style::default() }, &[]);
            assert_eq!(text.matches("213").count(), 1, "{width:?}: {text}");
        }
        row.metrics[0].ci95 = Some((21.3, 2410.0));
        assert!(measured(&row).starts_with("too noisy: "), "{}", measured(&row));
        if let Some(core) = &mut row.metrics[0].core {
            core.selection = Selection::Alone;
        }
        row.metrics[0].ci95 = Some((228.0, 230.0));
        assert_eq!(measured(&row), "229 ns");
    }

    #[test]
    fn the_table_shows_what_was_asked_of_and_the_metrics_of_a_probe_that_was_asked_alone() {
        let sent = |probe: &'static str| {
            let mut row = costof_model::testing::row(probe, Default::default(), 229.0);
            row.metrics.push(costof_model::testing::estimate("cpu_sender", 71.0));
            row
        };
        let mut run = run_without_facts();
        run.points = vec![sent("copy.send"), sent("os.syscall")];
        let planned: Vec<_> = run.points.iter().map(|row| row.point.clone()).collect();
        let table = |run: &Run, asked: &[String]| points(run, Style::default(), asked);
        run.run.plan.blocks = vec![Block { points: planned.clone(), ..Block::default() }];
        assert!(!table(&run, &[]).contains("71.0"), "it is one of several probes");
        assert_eq!(table(&run, &["cpu_sender".to_owned()]).matches("71.0").count(), 2);
        // The other was measured for a prediction.
        run.run.plan.blocks[0].needed = vec![1];
        let text = table(&run, &[]);
        assert!(text.contains("cpu_sender") && text.contains("71.0"), "{text}");
    }

    #[test]
    fn a_run_that_ended_early_says_how_far_it_is_and_how_it_goes_on() {
        let mut run = run_without_facts();
        let text = points(&run, Style::default(), &[]);
        assert!(text.contains("after 0 launches. `costof run --resume RUN`"), "{text}");
        run.end = Some(EndRow { finished: String::new(), points: 0, failures: 0 });
        assert_eq!(points(&run, Style::default(), &[]), "No point was measured.\n");
    }
}

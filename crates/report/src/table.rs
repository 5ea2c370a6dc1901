//! The latency table: what each thing costs, how sure that is, what was
//! expected, and how far the number can be trusted.

use comfy_table::{Cell, CellAlignment, Table, presets};
use costof_model::axis::{Axis, AxisValue};
use costof_model::metric::{Estimate, Mode};
use costof_model::noise::{Grade, Warning};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::ClockSource;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use std::fmt::Write;

/// The points of a run as a table, with what is absent and what is doubtful
/// below it.
pub fn run(run: &Run) -> String {
    let mut text = machine(run);
    text.push_str(&points(run));
    text.push_str(&summary(run));
    text.push_str(&distributions(run));
    text.push_str(&instruments(run));
    text.push_str(&absent(run));
    text.push_str(&findings(run));
    text.push_str(&doubts(run));
    text
}

/// A point with all its axes: `cpu.call type=int args=0`.
pub fn point(point: &Point, info: Option<&ProbeInfo>) -> String {
    named(point, &axes(point, info, |_, _| true))
}

/// A point with those axes that are not at their default: `cpu.call`.
fn short_point(point: &Point, info: Option<&ProbeInfo>) -> String {
    named(
        point,
        &axes(point, info, |axis, value| *value != axis.default()),
    )
}

fn named(point: &Point, axes: &str) -> String {
    let mut text = point.probe.to_string();
    if !axes.is_empty() {
        let _ = write!(text, " {axes}");
    }
    if point.link != "none" {
        let _ = write!(text, " over {}", point.link);
    }
    text
}

/// The description of a point's probe.
pub fn info<'a>(point: &Point, infos: &'a [ProbeInfo]) -> Option<&'a ProbeInfo> {
    infos.iter().find(|info| info.id == point.probe)
}

/// The axes in the order in which the probe declares them.
fn axes(
    point: &Point,
    info: Option<&ProbeInfo>,
    shown: impl Fn(&Axis, &AxisValue) -> bool,
) -> String {
    let Some(info) = info else {
        return point.axes.to_string();
    };
    let axes = info.axes.iter().filter_map(|axis| {
        let value = point.axes.0.get(&axis.name)?;
        shown(axis, value).then(|| format!("{}={}", axis.name, axis.display(value)))
    });
    axes.collect::<Vec<_>>().join(" ")
}

/// One line that says which machine it is.
fn machine(run: &Run) -> String {
    let Some(attempt) = run.attempts.last() else {
        return String::new();
    };
    let Some(facts) = attempt.hosts.values().next() else {
        return String::new();
    };
    let unknown = || "unknown".to_owned();
    let virtual_machine = match &facts.virtualization.hypervisor {
        Some(hypervisor) => format!(", under {hypervisor}"),
        None => String::new(),
    };
    format!(
        "{}{virtual_machine}, Linux {}\n\n",
        facts.cpu.model_name.clone().unwrap_or_else(unknown),
        facts.kernel.release.clone().unwrap_or_else(unknown),
    )
}

fn points(run: &Run) -> String {
    if run.points.is_empty() {
        return "No point was measured.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let labelled = in_order(run).any(|row| row.label.is_some());
    let label = |label: String| labelled.then(|| Cell::new(label));
    let header = ["", "cost", "95 % interval", "predicted", "cycles", "grade"];
    table.set_header(
        label(String::new())
            .into_iter()
            .chain(header.map(Cell::new)),
    );
    for row in in_order(run) {
        let cells = [
            short_point(&row.point, run.probe(&row.point.probe)),
            row.primary().map_or_else(
                || "below resolution".to_owned(),
                |estimate| estimate.unit.display(estimate.median),
            ),
            row.primary().map_or_else(String::new, interval),
            prediction(row),
            cycles(row),
            row.grade.to_string(),
        ];
        let first = label(row.label.clone().unwrap_or_default());
        table.add_row(first.into_iter().chain(cells.map(Cell::new)));
    }
    let first_number = 1 + usize::from(labelled);
    for column in first_number..first_number + 4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// The points in the order of the plan.
fn in_order(run: &Run) -> impl Iterator<Item = &PointRow> {
    let planned = run.run.plan.blocks.iter().flat_map(|block| &block.points);
    planned.filter_map(|point| run.points.iter().find(|row| row.point == *point))
}

/// The interval: `109–113 ns`.
fn interval(estimate: &Estimate) -> String {
    match estimate.ci95 {
        None => String::new(),
        Some(range) => display_range(estimate.unit, range.0, range.1),
    }
}

fn display_range(unit: Unit, low: f64, high: f64) -> String {
    let (low, high) = (unit.display(low), unit.display(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((low, one)), Some((high, other))) if one == other => {
            format!("{low}–{high} {other}")
        }
        _ => format!("{low} – {high}"),
    }
}

/// The range that was expected, marked where it was missed.
fn prediction(row: &PointRow) -> String {
    let Some(expected) = &row.prediction else {
        return String::new();
    };
    let Some(estimate) = row.estimate(&expected.metric) else {
        return String::new();
    };
    let range = display_range(estimate.unit, expected.low, expected.high);
    if is_hit(row) == Some(false) {
        format!("{range} ✗")
    } else {
        format!("{range} ✓")
    }
}

/// Whether the interval of what was measured meets what was expected.
fn is_hit(row: &PointRow) -> Option<bool> {
    let expected = row.prediction.as_ref()?;
    let estimate = row.estimate(&expected.metric)?;
    let (low, high) = estimate.ci95.unwrap_or((estimate.median, estimate.median));
    Some(low <= expected.high && high >= expected.low)
}

/// PMU cycles where there are any, else estimated ones, marked by `~`.
fn cycles(row: &PointRow) -> String {
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

fn summary(run: &Run) -> String {
    let rows = || in_order(run);
    let launches = || rows().map(|row| row.launches);
    let count = match (launches().min(), launches().max()) {
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => return String::new(),
    };
    let good = rows().filter(|row| row.grade <= Grade::B).count();
    let predicted = rows().filter_map(is_hit).count();
    let hits = rows().filter_map(is_hit).filter(|hit| *hit).count();
    let width = mean_width(&rows().collect::<Vec<_>>());
    let mut text = format!(
        "\n{} points, {count} launches each, {good} of grade A or B; {hits} of {predicted} \
         predictions held",
        rows().count(),
    );
    if let Some(width) = width {
        let _ = write!(text, " (their ranges span a factor of {width:.1})");
    }
    text.push('\n');
    if rows().any(|row| row.estimate("cycles").is_none() && !cycles(row).is_empty()) {
        text.push_str("~ core cycles estimated as time × the core clock measured in each launch\n");
    }
    text
}

/// The geometric mean of upper over lower ends of what was expected, since a
/// wide range always wins.
fn mean_width(rows: &[&PointRow]) -> Option<f64> {
    let logs: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.prediction.as_ref())
        .filter(|expected| expected.low > 0.0)
        .map(|expected| (expected.high / expected.low).ln())
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Where one number is not the whole answer: two modes, and costs that were
/// disturbed beside what they are without the disturbed batches.
fn distributions(run: &Run) -> String {
    /// Below this share, the two values are shown as the same digits.
    const NOTABLE_SHARE: f64 = 0.005;
    let mut text = String::new();
    for row in in_order(run) {
        let Some(estimate) = row.primary() else {
            continue;
        };
        let name = short_point(&row.point, run.probe(&row.point.probe));
        if estimate.modes.len() > 1 {
            let modes: Vec<String> = estimate
                .modes
                .iter()
                .map(|mode| describe(estimate.unit, mode))
                .collect();
            let _ = writeln!(
                text,
                "{name} has {} modes: {}",
                modes.len(),
                modes.join("; ")
            );
        }
        if let Some(undisturbed) = estimate.undisturbed
            && (undisturbed / estimate.median - 1.0).abs() >= NOTABLE_SHARE
        {
            let _ = writeln!(
                text,
                "{name} is {} without the batches that were preempted",
                estimate.unit.display(undisturbed)
            );
        }
    }
    paragraph(&text)
}

/// A mode: `14.5 µs in 70 %`, and its cause where that is known.
fn describe(unit: Unit, mode: &Mode) -> String {
    let cause = mode
        .cause
        .as_ref()
        .map_or_else(String::new, |cause| format!(" ({cause})"));
    format!(
        "{} in {:.0} %{cause}",
        unit.display(mode.median),
        mode.share * 100.0
    )
}

/// What has no number, and why.
fn absent(run: &Run) -> String {
    let mut text = String::new();
    for failure in run.failures.iter().filter(|row| row.launch.is_none()) {
        let shown = point(&failure.point, run.probe(&failure.point.probe));
        let _ = writeln!(text, "absent: {shown}: {}", failure.failure());
    }
    let lost: Vec<_> = run
        .failures
        .iter()
        .filter(|row| row.launch.is_some())
        .collect();
    for failure in &lost {
        let measured = run.points.iter().any(|row| row.point == failure.point);
        if measured {
            let shown = point(&failure.point, run.probe(&failure.point.probe));
            let launch = failure.launch.unwrap_or_default();
            let _ = writeln!(text, "launch {launch} lost: {shown}: {}", failure.failure());
        }
    }
    paragraph(&text)
}

/// The doubts about the points, each kind once and at its worst, with advice.
fn doubts(run: &Run) -> String {
    let mut kinds: Vec<(&Warning, usize)> = Vec::new();
    for warning in in_order(run).flat_map(|row| &row.warnings) {
        match kinds
            .iter_mut()
            .find(|(known, _)| known.kind == warning.kind)
        {
            Some((known, count)) => {
                *count += 1;
                if warning.grade > known.grade {
                    *known = warning;
                }
            }
            None => kinds.push((warning, 1)),
        }
    }
    kinds.sort_by_key(|(warning, _)| std::cmp::Reverse(warning.grade));
    let lines = kinds.iter().map(|(warning, count)| {
        let points = if *count == 1 { "point" } else { "points" };
        format!(
            "grade {}: {} ({count} {points}): {}\n",
            warning.grade, warning.what, warning.advice
        )
    });
    paragraph(&lines.collect::<String>())
}

/// What was found in the rows.
fn findings(run: &Run) -> String {
    let lines = costof_findings::all::findings(run)
        .into_iter()
        .map(|finding| {
            let advice = finding
                .advice
                .map_or_else(String::new, |advice| format!(" {advice}"));
            format!("{}{advice}\n", finding.sentence)
        });
    paragraph(&lines.collect::<String>())
}

/// The clock, and the counters that are missing, as the last attempt had them.
fn instruments(run: &Run) -> String {
    let Some(attempt) = run.attempts.last() else {
        return String::new();
    };
    let clock = &attempt.clock;
    let name = match clock.source {
        ClockSource::Counter => format!(
            "the processor's counter at {}",
            Unit::Hertz.display(clock.hz)
        ),
        ClockSource::Monotonic => "CLOCK_MONOTONIC".to_owned(),
    };
    let mut text = format!(
        "Clock: {name}: {}; a reading takes {}\n",
        clock.because,
        Unit::Nanoseconds.display(clock.read_ns)
    );
    if let Some(reason) = attempt.counters.absent.get("cycles") {
        let _ = writeln!(text, "No counted cycles: {reason}");
    }
    paragraph(&text)
}

/// Text set off by a blank line; nothing for nothing.
fn paragraph(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\n{text}")
    }
}

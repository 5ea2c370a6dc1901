//! The names and counts of points.

use costof_model::link::mark;
use costof_model::metric::is_share;
use costof_model::{Axis, AxisValue, Estimate, Point, ProbeInfo, Run, counted, span};
use std::fmt::Write;

/// A value of an estimate as it is shown: in its unit, or in percent.
pub(crate) fn shown(estimate: &Estimate, value: f64) -> String {
    match is_share(&estimate.name, estimate.unit) {
        true => format!("{} %", estimate.unit.display(100.0 * value)),
        false => estimate.unit.display(value),
    }
}

/// The median of an estimate as it is shown, or what is known without a usable interval.
pub(crate) fn shown_median(estimate: &Estimate) -> String {
    let ends = |ends| shown_interval(estimate, ends);
    match is_share(&estimate.name, estimate.unit) {
        true => (estimate.unusable(ends)).unwrap_or_else(|| shown(estimate, estimate.median)),
        false => estimate.display(),
    }
}

/// An interval of an estimate as it is shown.
pub(crate) fn shown_interval(estimate: &Estimate, (low, high): (f64, f64)) -> String {
    match is_share(&estimate.name, estimate.unit) {
        true => span(&shown(estimate, low), " – ", &shown(estimate, high)),
        false => estimate.unit.display_interval((low, high)),
    }
}

/// The same in the unit of its upper end, where it stands beside the median.
pub(crate) fn shown_range(estimate: &Estimate, ends: (f64, f64)) -> String {
    match is_share(&estimate.name, estimate.unit) {
        true => shown_interval(estimate, ends),
        false => estimate.unit.display_range(ends),
    }
}

/// A point with all its axes: `cpu.call type=int args=0`.
pub fn point(point: &Point, info: Option<&ProbeInfo>) -> String {
    named(point, &axes(point, info, |_, _| true))
}

/// A point with those axes that are not at their default: `cpu.call`.
pub fn short_point(point: &Point, info: Option<&ProbeInfo>) -> String {
    named(point, &axes(point, info, |axis, value| *value != axis.default()))
}

/// The label of a point in the latency table, or else the point.
pub(crate) fn label(run: &Run, point: &Point) -> String {
    // Few points have a label, and a plan may have many points.
    let mut labels = run.run.plan.blocks.iter().flat_map(|block| {
        let labels = block.labels.iter();
        labels.filter_map(|(position, label)| Some((block.points.get(*position)?, label)))
    });
    labels
        .find(|(planned, _)| *planned == point)
        .map_or_else(|| short_point(point, run.probe(&point.probe)), |(_, label)| label.clone())
}

fn named(point: &Point, axes: &str) -> String {
    let mut text = point.probe.to_string();
    if !axes.is_empty() {
        let _ = write!(text, " {axes}");
    }
    if point.link != "none" {
        let _ = write!(text, " over {}{}", point.link, mark(&point.link));
    }
    text
}

/// The description of the probe that measured a point.
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

/// `1 point`, `2 points`.
pub fn points_counted(count: usize) -> String {
    counted(count, "point")
}

/// The number of points of each probe: `os.syscall (1), memory.latency (4)`.
pub(crate) fn by_probe<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let probes = by_reason(points.map(|point| (&point.probe, String::new())))
        .into_iter()
        .map(|(probe, points)| format!("{probe} ({})", points.len()));
    probes.collect::<Vec<_>>().join(", ")
}

/// Items grouped by reason, in the order in which the reasons first appear.
pub(crate) fn by_reason<R: PartialEq>(
    named: impl Iterator<Item = (R, String)>,
) -> Vec<(R, Vec<String>)> {
    let mut reasons: Vec<(R, Vec<String>)> = Vec::new();
    for (reason, name) in named {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons
}

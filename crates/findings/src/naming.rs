//! Names points in findings.

use crate::text;
use costof_model::{Axes, Point, PointRow, ProbeInfo, Run};

/// The name of a row: its label, or else its point by its axes.
pub(crate) fn row_name(run: &Run, row: &PointRow) -> String {
    label(row).unwrap_or_else(|| by_axes(run, &row.point))
}

/// The probe of a point, the axes that are not at their defaults, and its link.
pub(crate) fn by_axes(run: &Run, point: &Point) -> String {
    format!("{}{}{}", point.probe, circumstances(run, point), over(point))
}

/// The label of a row in quotation marks, since many labels have commas and colons.
pub(crate) fn label(row: &PointRow) -> Option<String> {
    row.label.as_ref().map(|label| format!("\"{label}\""))
}

/// ` over veth`; empty if the point has only one end.
pub(crate) fn over(point: &Point) -> String {
    match &*point.link {
        "none" => String::new(),
        link => format!(" over {}", text::link(link)),
    }
}

/// The link, and the axes that are not at their defaults: `veth (source=cold)`.
pub(crate) fn place(run: &Run, point: &Point) -> String {
    text::link(&point.link) + &circumstances(run, point)
}

/// The axes of a point that are not at their defaults, as ` (source=cold, pages=2MiB)`.
pub(crate) fn circumstances(run: &Run, point: &Point) -> String {
    let defaults = run.probe(&point.probe).map(ProbeInfo::defaults);
    differing(run, point, &defaults.unwrap_or_default())
}

/// The axes in which some of these rows differ from this one, except `but`, as ` (threads=8)`.
pub(crate) fn varying(run: &Run, row: &PointRow, rows: &[&PointRow], but: &str) -> String {
    let mut shared = row.axes().clone();
    let value_of = |row: &PointRow, name: &str| row.axes().0.get(name).cloned();
    shared.0.retain(|name, value| {
        let mut others = rows.iter().map(|other| value_of(other, name));
        &**name == but || others.all(|other| other.as_ref() == Some(value))
    });
    differing(run, &row.point, &shared)
}

/// The axes of a point that differ from these.
fn differing(run: &Run, point: &Point, from: &Axes) -> String {
    let Some(probe) = run.probe(&point.probe) else {
        return String::new();
    };
    let others = probe.axes.iter().filter_map(|axis| {
        let value = point.axes.0.get(&axis.name)?;
        let differs = from.0.get(&axis.name) != Some(value);
        differs.then(|| format!("{}={}", axis.name, axis.display(value)))
    });
    match others.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        others => format!(" ({})", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, point_row, run};
    use costof_model::List;
    use costof_model::testing::{probe_info, words_axis};

    #[test]
    fn what_varies_is_named_and_what_all_share_is_not() {
        let mut run = run(&[]);
        let axes = ["over", "way"].map(|name| words_axis(name, &["one", "other"]));
        run.probes.push(ProbeInfo { axes: List::Owned(axes.to_vec()), ..probe_info("a.x") });
        let row = |way| point_row("a.x", "cost", axes!(over = "other", way), 1.0, (1.0, 1.0));
        let (one, other) = (row("one"), row("other"));
        assert_eq!(varying(&run, &one, &[&one, &other], "size"), " (way=one)");
        assert_eq!(varying(&run, &one, &[&one, &other], "way"), "");
        assert_eq!(varying(&run, &one, &[&one], "size"), "");
    }
}

//! The results of `costof send`, metric by metric.

use crate::grid::Align::{Left, Right};
use crate::grid::Grid;
use crate::text::{paragraph, wrapped};
use crate::{names, notes};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::Run;

/// What is sent: the axes that are not at their defaults.
pub fn what(point: &Point, info: &ProbeInfo) -> String {
    names::short_point(point, Some(info))
}

/// `1 message (64 B)`, `2000 messages (8.2 MB)`.
pub fn counted(messages: u64, bytes: u64) -> String {
    let plural = if messages == 1 { "" } else { "s" };
    let bytes = match bytes {
        0..1_000_000 => format!("{bytes} B"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    format!("{messages} message{plural} ({bytes})")
}

/// The width of a metric's name and value in the table.
const NAME_AND_VALUE: usize = 36;

/// Each metric of the run's only point with its description, then the findings and the setup of the
/// link. Lines have about this many columns.
pub fn metrics(run: &Run, info: &ProbeInfo, columns: usize) -> String {
    let mut grid = Grid::new([("", Left), ("measured", Right), ("", Left)]);
    let room = columns.saturating_sub(NAME_AND_VALUE);
    for estimate in run.points.iter().flat_map(|row| &row.metrics) {
        let shown = |value| estimate.unit.display(value);
        let mut metrics = info.metrics.iter();
        let metric = metrics.find(|metric| metric.name == estimate.name);
        let about = metric.map_or_else(String::new, |metric| wrapped(room, &metric.about, ""));
        let about = about.trim_end().to_owned();
        grid.add([estimate.name.to_string(), shown(estimate.median), about]);
        for percentile in estimate.percentiles.iter().filter(|at| at.percent > 50.0) {
            let name = format!("{} p{}", estimate.name, percentile.percent);
            grid.add([name, shown(percentile.value), String::new()]);
        }
    }
    let mut text = grid.text();
    text.push_str(&paragraph(&notes::links(run)));
    text.push_str(&paragraph(&notes::findings(run)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_in_words() {
        assert_eq!(counted(1, 64), "1 message (64 B)");
        assert_eq!(counted(0, 0), "0 messages (0 B)");
        assert_eq!(counted(2000, 8_192_000), "2000 messages (8.2 MB)");
    }
}

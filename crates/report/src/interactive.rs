//! The results of `costof send`, metric by metric.

use crate::grid::Align::{Left, Right};
use crate::grid::Grid;
use crate::text::{paragraph, wrapped};
use crate::{names, notes};
use costof_model::{Point, ProbeInfo, Run, plural};

/// What is sent: the axes that are not at their defaults.
pub fn what(point: &Point, info: &ProbeInfo) -> String {
    names::short_point(point, Some(info))
}

/// `1 message (64 B)`, `2000 messages (8.2 MB)`.
pub fn counted(messages: u64, bytes: u64) -> String {
    let bytes = match bytes {
        0..1_000_000 => format!("{bytes} B"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    };
    format!("{} ({bytes})", plural::counted(messages, "message"))
}

/// The width of a metric's name and values in the table.
const NAME_AND_VALUES: usize = 47;

/// Each metric of the run's only point with its description, then the findings and the setup of the
/// link. Lines have about this many columns.
pub fn metrics(run: &Run, info: &ProbeInfo, columns: usize) -> String {
    let columns_of = [("", Left), ("median", Right), ("mean", Right), ("", Left)];
    let mut grid = Grid::new(columns_of);
    let room = columns.saturating_sub(NAME_AND_VALUES);
    for estimate in run.points.iter().flat_map(|row| &row.metrics) {
        let shown = |value| names::shown(estimate, value);
        let mut metrics = info.metrics.iter();
        let metric = metrics.find(|metric| metric.name == estimate.name);
        let about = metric.map_or_else(String::new, |metric| wrapped(room, &metric.about, ""));
        let about = about.trim_end().to_owned();
        let name = estimate.name.to_string();
        // One sample is its own mean.
        let mean = if estimate.n > 1 { shown(estimate.mean) } else { String::new() };
        grid.add([name, shown(estimate.median), mean, about]);
        for percentile in estimate.percentiles.iter().filter(|at| at.percent > 50.0) {
            let name = format!("{} p{}", estimate.name, percentile.percent);
            grid.add([name, shown(percentile.value), String::new(), String::new()]);
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
    use costof_model::Unit;
    use costof_model::testing::{RowExt, probe_info, run_without_facts, sized_row};

    #[test]
    fn the_mean_of_several_samples_stands_beside_their_median() {
        let mut run = run_without_facts();
        let row = sized_row("a.x", 1, 5.0).metric("sender_running", 0.25);
        run.points.push(row);
        run.points[0].metrics[0].mean = 7.0;
        run.points[0].metrics[1].unit = Unit::One;
        run.points[0].metrics[1].n = 1;
        let text = metrics(&run, &probe_info("a.x"), 80);
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cells("mean"), ["median", "mean"]);
        assert_eq!(cells("cost"), ["cost", "5.00", "ns", "7.00", "ns"]);
        assert_eq!(cells("sender"), ["sender_running", "25.0", "%"]);
    }

    #[test]
    fn messages_are_counted_in_words() {
        assert_eq!(counted(1, 64), "1 message (64 B)");
        assert_eq!(counted(0, 0), "0 messages (0 B)");
        assert_eq!(counted(2000, 8_192_000), "2000 messages (8.2 MB)");
    }
}

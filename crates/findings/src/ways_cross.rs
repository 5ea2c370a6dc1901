//! Two ways of doing the same thing, one better for small sizes and the other for large ones: finds the size
//! at which they cross. Ways of sending have a finding of their own.

use crate::crossover::{Crossover, compare};
use crate::naming::by_axes;
use crate::sends::PROBE as SENDS;
use crate::{Finding, Kind};
use costof_model::{Group, Run, Select};
use std::collections::HashMap;

/// Fewer sizes make no curve.
const SIZES: usize = 3;
/// At most this many ways are compared with each other, so that a hostile file cannot make millions of pairs.
const WAYS_MAX: usize = 16;
/// The axes whose words are ways of doing the same thing; those of other axes are circumstances.
const WAYS: [&str; 5] = ["over", "stack", "engine", "how", "kernel"];

/// A finding for each pair of ways that surely cross within the measured sizes.
pub(crate) fn ways_cross(run: &Run) -> Vec<Finding> {
    // Rows of any grade: ways that took turns are compared however busy the machine was.
    let rows =
        run.points.iter().filter(|row| row.point.probe != SENDS && row.number("size").is_some());
    let rows: Select<'_> = rows.collect();
    let mut findings = Vec::new();
    for axis in WAYS {
        let with_it = rows.clone().filter(|row| row.word(axis).is_some());
        for group in with_it.group_by(&[axis, "size"]) {
            let ways = ways(&group.rows, axis);
            for better in &ways {
                for other in ways.iter().filter(|other| *other != better) {
                    findings.extend(finding(run, &group, axis, (better, other)));
                }
            }
        }
    }
    findings
}

/// The words on an axis that have enough points for a curve.
fn ways<'a>(rows: &Select<'a>, axis: &str) -> Vec<&'a str> {
    let mut points: HashMap<&str, usize> = HashMap::new();
    let words = rows.iter().filter_map(|row| row.word(axis));
    let with_a_curve = words.filter(|way| {
        let points = points.entry(way).or_default();
        *points += 1;
        *points == SIZES
    });
    with_a_curve.take(WAYS_MAX).collect()
}

fn finding(
    run: &Run,
    group: &Group<'_>,
    axis: &str,
    (better, other): (&str, &str),
) -> Option<Finding> {
    let metric = &group.rows.one()?.primary;
    let (crossover, rows) = compare(run, &group.rows, axis, (better, other), metric, SIZES)?;
    // The other way is surely better at the smallest size.
    let smallest = rows.iter().filter_map(|row| row.number("size")).min()? as f64;
    let crosses = matches!(crossover, Crossover::From { low: Some(low), .. } if low >= smallest);
    let (what, from) = (by_axes(run, &group.common), crossover.text());
    let sentence = format!("{axis}={better} beats {axis}={other} for {what} by {metric} {from}");
    crosses.then(|| Finding::new(Kind::WaysCross, rows, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, reads, sentences};
    use costof_model::{Better, PointRow};

    fn row(over: &'static str, size: u64, ns: f64) -> PointRow {
        let axes = axes!(over, size);
        known_row("ipc.latency", "cost", axes, ns, 0.02)
    }

    /// A pipe, and another way that costs less at first and grows faster, with these costs.
    fn shown(unix: [f64; 4]) -> Vec<String> {
        let sizes = [64, 256, 1024, 4096];
        let rows = sizes
            .iter()
            .zip(unix)
            .flat_map(|(&size, unix)| [row("pipe", size, 100.0), row("unix", size, unix)]);
        sentences(ways_cross, &rows.collect::<Vec<_>>())
    }

    #[test]
    fn ways_that_change_places_are_reported_with_where() {
        let shown = shown([50.0, 80.0, 120.0, 200.0]);
        reads!(shown);
    }

    #[test]
    fn ways_that_do_not_are_not() {
        assert!(shown([50.0, 60.0, 70.0, 80.0]).is_empty());
        assert!(shown([100.0; 4]).is_empty());
        let on_pages = |pages: &'static str, size, ns| {
            let mut row = row("pipe", size, ns);
            row.point.axes = row.point.axes.clone().with("pages", pages);
            row
        };
        let costs = [(64, 50.0), (256, 80.0), (1024, 120.0), (4096, 200.0)];
        let pages = costs
            .into_iter()
            .flat_map(|(size, ns)| [on_pages("4KiB", size, 100.0), on_pages("2MiB", size, ns)]);
        assert!(sentences(ways_cross, &pages.collect::<Vec<_>>()).is_empty());
        let few = [row("pipe", 64, 100.0), row("unix", 64, 50.0)];
        assert!(sentences(ways_cross, &few).is_empty());
    }

    #[test]
    fn of_what_is_neither_better_more_nor_less_no_way_is_better() {
        let costs = [(64, 50.0), (256, 80.0), (1024, 120.0), (4096, 200.0)];
        let rows = costs.into_iter().flat_map(|(size, ns)| {
            [row("pipe", size, 100.0), row("unix", size, ns)].map(|mut row| {
                row.metrics[0].better = Better::Neither;
                row
            })
        });
        assert!(sentences(ways_cross, &rows.collect::<Vec<_>>()).is_empty());
    }

    #[test]
    fn of_many_ways_so_many_are_compared() {
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q",
            "r", "s", "t",
        ];
        let ways = (0..).zip(names).flat_map(|(position, name)| {
            // The steeper a way is, the cheaper it is at the smallest size.
            let steepness = 1.0 + f64::from(position);
            [(64, 0.5), (256, 0.8), (1024, 1.2), (4096, 2.0)]
                .map(|(size, more): (u64, f64)| row(name, size, 100.0 * more.powf(steepness)))
        });
        // A way without a curve is ignored.
        let rows: Vec<PointRow> = std::iter::once(row("z", 64, 1.0)).chain(ways).collect();
        let shown = sentences(ways_cross, &rows);
        assert_eq!(shown.len(), WAYS_MAX * (WAYS_MAX - 1) / 2);
        assert!(shown.iter().any(|shown| shown.contains("over=a beats over=p")));
    }
}

//! Merges two runs into one, so that each plot has a line for each of them.

use super::place::RUN;
use super::sweeps;
use crate::plot::Figure;
use crate::rows::Rows;
use costof_model::axis::Choice;
use costof_model::{Axis, Domain, Point, PointRow, Run};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The names of the two runs.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// The figures for what both runs varied, with the runs as series.
pub(crate) fn overlaid(before: &Run, after: &Run) -> Vec<Figure> {
    let both = both(before, after);
    let rows = Rows::new(&both);
    let by_probe = rows.by_probe().into_iter();
    let mut figures: Vec<Figure> = by_probe
        .flat_map(|(probe, positions)| {
            let drawable = super::drawable(&rows, &positions);
            sweeps::sweeps(&rows, probe, &drawable)
        })
        // The table already shows that the runs differ.
        .filter(|figure| figure.axis != RUN)
        .collect();
    let lines =
        figures.iter_mut().flat_map(|figure| &mut figure.panels).flat_map(|panel| &mut panel.lines);
    // The page has no row for a row of this merged run.
    lines.flat_map(|line| &mut line.dots).for_each(|dot| dot.row = None);
    figures
}

/// A run with the points that both runs measured by the same method. Each point is there twice, with an extra
/// axis that says which run it is from.
fn both(before: &Run, after: &Run) -> Run {
    let old: HashMap<&Point, &PointRow> =
        before.points.iter().map(|row| (&row.point, row)).collect();
    let new: HashMap<&Point, &PointRow> =
        after.points.iter().map(|row| (&row.point, row)).collect();
    let mut both = Run::new(after.run.clone());
    both.run.plan.blocks.clear();
    let mut known: HashSet<&str> = HashSet::new();
    for info in after.probes.iter().filter(|info| known.insert(&info.id)) {
        let mut info = info.clone();
        info.axes.to_mut().push(axis());
        both.probes.push(info);
    }
    let planned = after.run.plan.points();
    let mut shown: HashSet<&Point> = HashSet::new();
    for point in planned.filter(|point| shown.insert(point)) {
        if let (Some(old), Some(new)) = (old.get(point), new.get(point))
            && old.method == new.method
            && old.primary == new.primary
        {
            both.points.extend([in_run(old, BEFORE), in_run(new, AFTER)]);
        }
    }
    both
}

fn axis() -> Axis {
    let choice = |value| Choice { value: Cow::Borrowed(value), about: Cow::Borrowed("") };
    Axis {
        name: Cow::Borrowed(RUN),
        about: Cow::Borrowed("which run"),
        domain: Domain::Choice(vec![choice(BEFORE), choice(AFTER)].into()),
    }
}

fn in_run(row: &PointRow, run: &'static str) -> PointRow {
    let mut row = row.clone();
    row.point.axes = row.point.axes.with(RUN, run);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts as run, sized_row as row};

    fn sized(ns: f64) -> Run {
        let mut run = run();
        run.points = [64, 128, 256].map(|size| row("a.x", size, ns)).into();
        run.points.push(row("a.y", 64, ns));
        run.run.plan.blocks[0].points = run.points.iter().map(|row| row.point.clone()).collect();
        run
    }

    #[test]
    fn what_was_varied_has_a_line_of_either_run() {
        let found = overlaid(&sized(5.0), &sized(6.0));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "a.x-cost-by-size");
        assert_eq!(found[0].series, ["before", "after"]);
        let lines = &found[0].panels[0].lines;
        let heights = |line: usize| lines[line].dots.iter().map(|dot| dot.y).collect::<Vec<_>>();
        assert_eq!((heights(0), heights(1)), (vec![5.0; 3], vec![6.0; 3]));
    }

    #[test]
    fn runs_stay_in_one_panel_however_much_else_differs() {
        let many = |ns: f64| {
            let mut run = sized(ns);
            let ways = ["one", "two", "three", "four", "five", "six"];
            run.points = ways
                .iter()
                .flat_map(|way| {
                    [64, 128, 256].map(|size| {
                        let mut row = row("a.x", size, ns);
                        row.point.axes = row.point.axes.with("way", *way);
                        row
                    })
                })
                .collect();
            run.run.plan.blocks[0].points =
                run.points.iter().map(|row| row.point.clone()).collect();
            run
        };
        let found = overlaid(&many(5.0), &many(6.0));
        let figure = &found[0];
        assert_eq!(figure.series, ["before", "after"]);
        assert_eq!(figure.panels.len(), 6);
    }

    #[test]
    fn what_one_run_lacks_or_measures_otherwise_is_not_drawn() {
        let (before, mut after) = (sized(5.0), sized(6.0));
        after.points[0].method = 2;
        after.points.remove(1);
        assert!(overlaid(&before, &after).is_empty());
    }
}

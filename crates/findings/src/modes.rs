//! Costs that come in two modes.

use crate::naming::row_name;
use crate::prelude::*;
use costof_model::Estimate;
use costof_model::metric::Mode;

/// At most this many rows are named.
const NAMED: usize = 6;

/// One finding about all rows that have two modes.
pub(crate) fn modes(run: &Run) -> Vec<Finding> {
    let found = run.select_all().into_iter().filter_map(|row| {
        let estimate = row.primary()?;
        let [lesser, greater] = two_modes(estimate)?.map(|mode| {
            format!("{} in {} %", estimate.unit.display(mode.median), percent(mode.share))
        });
        Some((row, row_name(run, row), format!("{lesser} and {greater}")))
    });
    let found: Vec<(&PointRow, String, String)> = found.collect();
    let sentence = match &found[..] {
        [] => return Vec::new(),
        [(_, name, both)] => format!("{name} has two modes, {both}"),
        several => {
            let shown =
                several.iter().take(NAMED).map(|(_, name, both)| format!("{name} ({both})"));
            let shown = shown.collect::<Vec<_>>().join("; ");
            let (count, more) = (several.len(), several.len().saturating_sub(NAMED));
            let more = maybe((more > 0).then_some(more), |more| format!("; and {more} more"));
            format!("{count} rows have two modes each: {shown}{more}")
        }
    };
    vec![Finding::new(Kind::Modes, found.iter().map(|(row, ..)| *row), sentence)]
}

/// The modes of an estimate that has two, the lower one first.
pub(crate) fn two_modes(estimate: &Estimate) -> Option<[&Mode; 2]> {
    match estimate.modes.as_slice() {
        [one, other] if one.median <= other.median => Some([one, other]),
        [one, other] => Some([other, one]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, begins, ends, point_row, reads, run};
    use costof_model::Axes;

    #[test]
    fn rows_with_two_modes_are_reported_together() {
        let mut run = run(&[]);
        for (probe, ns) in [("os.pin", 100.0), ("os.getpid", 50.0)] {
            let mut row = point_row(probe, "cost", Axes::default(), ns, (ns, ns));
            row.metrics[0].modes =
                [ns, 2.0 * ns].map(|median| Mode { median, share: 0.5 }).to_vec();
            run.points.push(row);
        }
        let found = modes(&run);
        assert_eq!((found.len(), found[0].evidence.len()), (1, 2));
        run.points.pop();
        reads!([found, modes(&run)].concat());
    }

    #[test]
    fn of_many_answers_some_are_named() {
        let mut run = run(&[]);
        for ns in (1..=9).map(f64::from) {
            let mut row = point_row("os.pin", "cost", Axes::default(), ns, (ns, ns));
            row.point.axes = axes!(size = ns as u64);
            row.metrics[0].modes =
                [ns, 2.0 * ns].map(|median| Mode { median, share: 0.5 }).to_vec();
            run.points.push(row);
        }
        let found = modes(&run);
        assert_eq!((found.len(), found[0].evidence.len()), (1, 9));
        let shown = found[0].sentence.clone();
        begins(&shown, "9 rows ");
        ends(&shown, "; and 3 more");
        assert_eq!(shown.matches("os.pin").count(), 6);
    }
}

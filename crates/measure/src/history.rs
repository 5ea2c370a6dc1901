//! Which rows changed for good over a series of runs. Pure.
//!
//! Each row is a sequence of logarithms of its medians, with the errors that their intervals imply
//! ([`costof_stats::shift`]). The limit is chosen for all rows together. A change is explained by the facts that
//! changed with the first run after it.

use crate::fleet::{facts_of, reading};
use costof_model::history::{Change, History};
use costof_model::metric::Estimate;
use costof_model::point::Point;
use costof_model::rows::{MetricOfPoint, PointRow};
use costof_model::run_file::Run;
use costof_model::unit::Better;
use costof_stats::median;
use costof_stats::shift::{Detector, Shift, delay, limit};
use std::collections::BTreeMap;

/// A row whose runs agree better than this is taken to scatter by this much, as a share: the core clock alone
/// moves as much.
const LEAST: f64 = 0.005;
/// A row is followed from this many runs on.
const LEAST_RUNS: usize = 5;

/// One value of a row: the position of its run, and what it is.
type Values<'a> = Vec<(usize, &'a PointRow, &'a Estimate, f64, f64)>;

/// The changes in these runs, which are sorted by their time. One false alarm is raised in about this many runs.
pub fn history(runs: &mut [Run], false_alarm_runs: u32) -> History {
    runs.sort_by(|one, other| one.run.started.cmp(&other.run.started));
    let mut rows: BTreeMap<(&Point, u32), Values<'_>> = BTreeMap::new();
    for (position, run) in runs.iter().enumerate() {
        for row in &run.points {
            if let Some((estimate, reading)) = reading(row) {
                let values = rows.entry((&row.point, row.method)).or_default();
                values.push((position, row, estimate, reading.value, reading.error));
            }
        }
    }
    rows.retain(|_, values| values.len() >= LEAST_RUNS);
    let limit = limit(f64::from(false_alarm_runs), rows.len());
    let facts: Vec<_> = runs.iter().map(|run| facts_of(&[run])).collect();
    let mut changes: Vec<Change> = Vec::new();
    let mut scatters = Vec::new();
    for values in rows.values() {
        let (shifts, scatter) = shifts(values, limit);
        scatters.push(scatter);
        changes.extend(shifts.iter().enumerate().map(|(number, shift)| {
            let end = shifts.get(number + 1).map_or(values.len(), |next| next.at);
            change(values, *shift, end, runs, &facts)
        }));
    }
    changes.sort_by(|one, other| {
        let by_time = other.at.cmp(&one.at);
        by_time.then(other.worse.abs().total_cmp(&one.worse.abs()))
    });
    // The shift that is found soonest.
    let detectable = median(&scatters).map(|scatter| {
        let runs = delay(limit, 3.0);
        ((3.0 * scatter).exp_m1(), runs as u32)
    });
    History {
        runs: runs.iter().map(|run| run.run.started.clone()).collect(),
        rows: rows.len(),
        false_alarm_runs,
        detectable,
        changes,
    }
}

/// The shifts of a row, and how much it scatters.
fn shifts(values: &Values<'_>, limit: f64) -> (Vec<Shift>, f64) {
    let mut detector = Detector::new(limit, LEAST);
    let values = values.iter();
    let shifts = values.filter_map(|(_, _, _, value, error)| detector.push(*value, *error));
    let shifts = shifts.collect();
    (shifts, detector.scatter())
}

fn change(
    values: &Values<'_>,
    shift: Shift,
    end: usize,
    runs: &[Run],
    facts: &[BTreeMap<String, String>],
) -> Change {
    let (first, row, estimate, ..) = values[shift.at];
    let after: Vec<f64> = values[shift.at..end]
        .iter()
        .map(|(_, _, _, value, _)| *value)
        .collect();
    let to = median(&after).unwrap_or(shift.before);
    let off = match estimate.better {
        Better::Higher => shift.before - to,
        Better::Lower | Better::Neither => to - shift.before,
    };
    let last_before = values[shift.at - 1].0;
    let (old, new) = (&facts[last_before], &facts[first]);
    let whats = old
        .keys()
        .chain(new.keys().filter(|what| !old.contains_key(*what)));
    let differ = whats.filter(|what| old.get(*what) != new.get(*what));
    let value = |of: &BTreeMap<String, String>, what: &str| {
        of.get(what)
            .cloned()
            .unwrap_or_else(|| "unknown".to_owned())
    };
    Change {
        of: MetricOfPoint::new(row, estimate),
        at: runs[first].run.started.clone(),
        found: runs[values[shift.found].0].run.started.clone(),
        from: shift.before.exp(),
        to: to.exp(),
        worse: off.exp_m1(),
        facts: differ
            .map(|what| (what.clone(), value(old, what), value(new, what)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::noise::MEASURED;
    use costof_model::testing::{RowExt, run, sized_row};

    /// Runs of which one row becomes a fifth dearer with the 20th, which has another kernel.
    fn runs() -> Vec<Run> {
        let mut random = fastrand::Rng::with_seed(5);
        let run = |position: usize| {
            let mut run = run(&[]);
            run.run.started = format!("2026-11-{:02}T00:00:00Z", 1 + position);
            let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
            let release = if position < 20 { "6.1" } else { "6.2" };
            facts.kernel.release = Some(release.to_owned());
            for size in 1..=10 {
                let usual = if size == 3 && position >= 20 {
                    12.0
                } else {
                    10.0
                };
                let spike = if size == 5 && position == 11 {
                    3.0
                } else {
                    1.0
                };
                let value = usual * spike * (1.0 + 0.02 * (random.f64() - 0.5));
                run.points
                    .push(sized_row("a.x", size, value).known_within(0.01));
            }
            run
        };
        (0..30).map(run).collect()
    }

    #[test]
    fn a_lasting_change_is_found_with_what_else_changed_and_a_spike_is_none() {
        let mut runs = runs();
        runs.reverse();
        let found = history(&mut runs, 1000);
        assert_eq!((found.rows, found.runs.len()), (10, 30));
        let [change] = &found.changes[..] else {
            panic!("{:?}", found.changes);
        };
        assert_eq!(change.at, "2026-11-21T00:00:00Z");
        assert!((0.18..0.22).contains(&change.worse), "{change:?}");
        assert_eq!(
            change.facts,
            [("kernel".into(), "6.1".into(), "6.2".into())]
        );
        let (share, after) = found.detectable.expect("rows scatter");
        assert!(share < 0.05 && after < 8, "{share} {after}");
    }

    #[test]
    fn too_few_runs_have_no_history() {
        let found = history(&mut runs()[..LEAST_RUNS - 1], 1000);
        assert_eq!((found.rows, found.changes), (0, Vec::new()));
    }
}

//! Which rows changed for good over a series of runs. Pure.
//!
//! Each row is a sequence of logarithms of its medians, with the errors that their intervals imply
//! ([`costof_stats::shift`]). The limit is chosen for all rows together. A change is explained by the facts that
//! changed with the first run after it.
//!
//! Machines of different classes cost different amounts, so a row has a sequence for each class: where runs land on one CPU
//! type or another by chance, that is no change of what they measure.

use crate::fleet::reading;
use crate::hosts::facts_of;
use costof_model::history::{Change, History, Machines, Reading, Series};
use costof_model::{Estimate, Facts, MetricOfPoint, Point, PointRow, Run};
use costof_stats::shift::{Detector, Shift, delay, limit};
use costof_stats::{Difference, median};
use std::collections::{BTreeMap, BTreeSet};

/// A row whose runs agree better than this is taken to scatter by this much, as a share: the core clock alone
/// moves as much.
const MIN: f64 = 0.005;
/// A row is followed from this many runs on.
const MIN_RUNS: usize = 5;

/// One value of a row: the position of its run, and what it is.
type Value<'a> = (usize, &'a PointRow, &'a Estimate, f64, f64);
type Values<'a> = Vec<Value<'a>>;

/// The changes in these runs, which are sorted by their time. One false alarm is raised in about this many runs.
pub fn history(runs: &mut [Run], false_alarm_runs: u32) -> History {
    runs.sort_by(|one, other| one.run.started.cmp(&other.run.started));
    let classes: Vec<String> = runs.iter().map(class).collect();
    let mut rows: BTreeMap<(&str, &Point, u32), Values<'_>> = BTreeMap::new();
    for (position, run) in runs.iter().enumerate() {
        for row in &run.points {
            if let Some((estimate, reading)) = reading(row) {
                let values = rows.entry((&classes[position], &row.point, row.method)).or_default();
                values.push((position, row, estimate, reading.value, reading.error));
            }
        }
    }
    rows.retain(|_, values| values.len() >= MIN_RUNS);
    let machines = machines(runs, &classes);
    // A run adds a value to each row of its own class.
    let rows_of_a_run = machines
        .iter()
        .map(|machines| rows.keys().filter(|(class, ..)| *class == machines.class).count());
    let limit = limit(f64::from(false_alarm_runs), rows_of_a_run.max().unwrap_or(0));
    let facts: Vec<_> = runs.iter().map(|run| facts_of(&[run])).collect();
    let mut changes: Vec<Change> = Vec::new();
    let mut scatters = Vec::new();
    for (row, values) in rows.values().enumerate() {
        let (shifts, scatter) = shifts(values, limit);
        scatters.push(scatter);
        changes.extend(shifts.iter().enumerate().map(|(number, shift)| {
            let start = number.checked_sub(1).map_or(0, |last| shifts[last].at);
            let end = shifts.get(number + 1).map_or(values.len(), |next| next.at);
            let levels = (&values[start..shift.at], &values[shift.at..end]);
            let (first, found) = (values[shift.at].0, values[shift.found].0);
            let machine = classes[first].clone();
            Change { row, machine, ..change(levels, found, shift.before, runs, &facts) }
        }));
    }
    changes.sort_by(|one, other| {
        let by_time = other.at.cmp(&one.at);
        by_time.then(other.worse.abs().total_cmp(&one.worse.abs()))
    });
    let longest = machines.iter().map(|machines| machines.runs).max().unwrap_or(0);
    // The shift that is found soonest.
    let detectable = median(&scatters).map(|scatter| {
        let runs = delay(limit, 3.0, longest);
        ((3.0 * scatter).exp_m1(), runs as u32)
    });
    History {
        runs: runs.iter().map(|run| run.run.started.clone()).collect(),
        machines,
        rows: rows.keys().map(|(_, point, method)| (point, method)).collect::<BTreeSet<_>>().len(),
        false_alarm_runs,
        detectable,
        changes,
        series: rows.iter().map(|((class, ..), values)| series(class, values)).collect(),
    }
}

/// The class of the machine that a run measured.
fn class(run: &Run) -> String {
    run.facts().map_or_else(|| Facts::default().machine_class(), Facts::machine_class)
}

/// The classes of these runs, in the order of their first ones.
fn machines(runs: &[Run], classes: &[String]) -> Vec<Machines> {
    let mut all: Vec<Machines> = Vec::new();
    for class in classes {
        if all.iter().any(|machines| machines.class == *class) {
            continue;
        }
        let measured = runs.iter().zip(classes).filter(|(_, other)| *other == class);
        let times: Vec<&String> = measured.map(|(run, _)| &run.run.started).collect();
        all.push(Machines {
            class: class.clone(),
            runs: times.len(),
            since: times[0].clone(),
            latest: times[times.len() - 1].clone(),
            is_followed: times.len() >= MIN_RUNS,
        });
    }
    all
}

fn series(class: &str, values: &Values<'_>) -> Series {
    let (_, row, estimate, ..) = values[values.len() - 1];
    let values = values.iter().map(|(run, _, estimate, ..)| Reading {
        run: *run,
        median: estimate.median,
        ci95: (estimate.usable_interval()).unwrap_or((estimate.median, estimate.median)),
    });
    let (of, machine) = (MetricOfPoint::new(row, estimate), class.to_owned());
    Series { of, machine, values: values.collect() }
}

/// The shifts of a row, and how much it scatters.
fn shifts(values: &Values<'_>, limit: f64) -> (Vec<Shift>, f64) {
    let mut detector = Detector::new(limit, MIN);
    let values = values.iter();
    let shifts =
        values.filter_map(|(_, _, _, value, error)| detector.push(*value, *error)).collect();
    (shifts, detector.scatter())
}

/// The change from the values of one level to those of the next, which this run showed.
fn change(
    (earlier, later): (&[Value<'_>], &[Value<'_>]),
    found: usize,
    before: f64,
    runs: &[Run],
    facts: &[BTreeMap<String, String>],
) -> Change {
    let (first, row, estimate, ..) = later[0];
    let [earlier_values, after] =
        [earlier, later].map(|of| of.iter().map(|it| it.3).collect::<Vec<_>>());
    let from = median(&earlier_values).unwrap_or(before);
    let to = median(&after).unwrap_or(before);
    let off = estimate.better.worse(to - from);
    let difference = Difference::welch(&earlier_values, &after);
    let half_width = difference.and_then(|it| it.half_width(0.95));
    let last_before = earlier.last().map_or(first, |value| value.0);
    let (old, new) = (&facts[last_before], &facts[first]);
    let whats = old.keys().chain(new.keys().filter(|what| !old.contains_key(*what)));
    let differ = whats.filter(|what| old.get(*what) != new.get(*what));
    let value = |of: &BTreeMap<String, String>, what: &str| {
        of.get(what).cloned().unwrap_or_else(|| "unknown".to_owned())
    };
    Change {
        of: MetricOfPoint::new(row, estimate),
        at: runs[first].run.started.clone(),
        found: runs[found].run.started.clone(),
        from: from.exp(),
        to: to.exp(),
        worse: off.exp_m1(),
        ci95: half_width.map(|half| ((off - half).exp_m1(), (off + half).exp_m1())),
        facts: differ.map(|what| (what.clone(), value(old, what), value(new, what))).collect(),
        machine: String::new(),
        row: 0,
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
                let usual = if size == 3 && position >= 20 { 12.0 } else { 10.0 };
                let spike = if size == 5 && position == 11 { 3.0 } else { 1.0 };
                let value = usual * spike * (1.0 + 0.02 * (random.f64() - 0.5));
                run.points.push(sized_row("a.x", size, value).known_within(0.01));
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
        assert_eq!(change.facts, [("kernel".into(), "6.1".into(), "6.2".into())]);
        let (low, high) = change.ci95.expect("an interval");
        assert!(low < change.worse && change.worse < high && high - low < 0.02);
        let changed = &found.series[change.row];
        assert_eq!((&changed.of, changed.values.len()), (&change.of, 30));
        let (share, after) = found.detectable.expect("rows scatter");
        assert!(share < 0.05 && after < 8, "{share} {after}");
    }

    /// The same runs, of which every third lands on another CPU, where everything takes 30 % longer.
    fn of_two_classes() -> Vec<Run> {
        let mut runs = runs();
        for (position, run) in runs.iter_mut().enumerate() {
            let is_other = position % 3 == 2;
            let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
            facts.cpu.model_name = Some(if is_other { "other" } else { "usual" }.to_owned());
            for estimate in run.points.iter_mut().flat_map(|row| &mut row.metrics) {
                let factor = if is_other { 1.3 } else { 1.0 };
                estimate.median *= factor;
                estimate.ci95 = estimate.ci95.map(|(low, high)| (low * factor, high * factor));
            }
        }
        runs
    }

    #[test]
    fn another_cpu_is_no_change_and_a_real_one_beside_it_is_found() {
        let found = history(&mut of_two_classes(), 1000);
        let classes: Vec<_> =
            found.machines.iter().map(|it| (&*it.class, it.runs, it.is_followed)).collect();
        assert_eq!(classes, [("usual, virtual", 20, true), ("other, virtual", 10, true)]);
        assert_eq!((found.rows, found.series.len()), (10, 20));
        // Row 3 became a fifth worse with the 21st run, on both.
        assert!(found.changes.iter().any(|it| it.machine == "usual, virtual"), "{found:?}");
        for change in &found.changes {
            let series = &found.series[change.row];
            assert_eq!((&series.of, &series.machine), (&change.of, &change.machine));
            assert!(change.of.name().contains('3') && &*change.at >= "2026-11-21");
            assert!((0.17..0.23).contains(&change.worse), "{change:?}");
        }
        assert_eq!(found.new_machines(), None);
        // Without classes, each of them is a change.
        let mut mixed = of_two_classes();
        for run in &mut mixed {
            run.attempts[0].hosts.get_mut(MEASURED).expect("its facts").cpu.model_name = None;
        }
        assert_ne!(history(&mut mixed, 1000).changes, found.changes);
    }

    #[test]
    fn from_one_class_to_another_for_good_is_a_new_class_and_no_shift() {
        let mut runs = of_two_classes();
        runs.truncate(20);
        runs.sort_by_key(|run| {
            let facts = run.facts().and_then(|facts| facts.cpu.model_name.clone());
            std::cmp::Reverse(facts)
        });
        for (position, run) in runs.iter_mut().enumerate() {
            run.run.started = format!("2026-11-{:02}T00:00:00Z", 1 + position);
        }
        // Fourteen on the usual CPU, six on the other.
        for count in [15, 18] {
            let found = history(&mut runs[..count].to_vec(), 1000);
            let new = found.new_machines().expect("a new class");
            assert_eq!((&*new.class, new.runs), ("other, virtual", count - 14));
            assert_eq!((&found.changes[..], found.series.len()), (&[][..], 10));
        }
        let found = history(&mut runs, 1000);
        assert_eq!((found.new_machines(), &found.changes[..]), (None, &[][..]));
    }

    #[test]
    fn too_few_runs_have_no_history() {
        let found = history(&mut runs()[..MIN_RUNS - 1], 1000);
        assert_eq!((found.rows, found.changes), (0, Vec::new()));
    }
}

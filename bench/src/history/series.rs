//! Series that are made of real runs, with a change planted in one row of some.

use super::FALSE_ALARM_RUNS;
use costof_measure::history::history;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_model::unit::Better;
use fastrand::Rng;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// Series without a step have all runs, the others so many.
pub(super) const SHORT: usize = 60;
/// A step begins with this run.
pub(super) const STEP_AT: usize = 30;
/// A change this many runs off is that of the step.
const NEAR: usize = 5;
/// A spike, and how many a series has.
const SPIKE: f64 = 0.5;
const SPIKES: usize = 3;

/// How a series is made.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    AsMeasured,
    AnyOrder(usize),
    Spikes,
    Step(f64),
}

/// A change that was reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) row: usize,
    /// The first run after it; none of a drift, which has no place.
    pub(super) at: Option<usize>,
    /// The run with which it was first reported, where that is known.
    pub(super) found: Option<usize>,
}

/// Some runs, with the values of each row, and what costof found.
pub(super) struct Series {
    pub(super) runs: usize,
    pub(super) rows: Vec<Row>,
    /// The row that has the step.
    pub(super) step: Option<usize>,
    pub(super) costof: Vec<Found>,
}

/// The median of a row in each run.
#[derive(Serialize)]
pub(super) struct Row {
    values: Vec<Option<f64>>,
    /// Whether more is better.
    rate: bool,
}

impl Kind {
    pub(super) fn name(self) -> String {
        match self {
            Kind::AsMeasured => "the runs as they came".to_owned(),
            Kind::AnyOrder(runs) => format!("{runs} in any order"),
            Kind::Spikes => {
                format!("{SHORT} with {SPIKES} single runs {:.0} % slower", 100.0 * SPIKE)
            }
            Kind::Step(share) => format!("{SHORT} with a step of {:.0} %", 100.0 * share),
        }
    }
}

/// Whether a change that is reported with this first run is that of the step. A drift is: it has no place.
pub(super) fn is_near_step(at: Option<usize>) -> bool {
    at.is_none_or(|at| at.abs_diff(STEP_AT) <= NEAR)
}

impl Series {
    pub(super) fn new(runs: &[Run], kind: Kind, random: &mut Rng) -> Series {
        let mut runs = runs.to_vec();
        let length = match kind {
            Kind::AsMeasured => runs.len(),
            Kind::AnyOrder(length) => length,
            Kind::Spikes | Kind::Step(_) => SHORT,
        };
        if !matches!(kind, Kind::AsMeasured) {
            random.shuffle(&mut runs);
        }
        runs.truncate(length);
        for (at, run) in runs.iter_mut().enumerate() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * at as u64);
            run.run.started = humantime::format_rfc3339_seconds(time).to_string();
        }
        let points: BTreeSet<Point> =
            runs.iter().flat_map(|run| &run.points).map(|row| row.point.clone()).collect();
        let chosen =
            random.choice(points).filter(|_| !matches!(kind, Kind::AsMeasured | Kind::AnyOrder(_)));
        if let Some(point) = &chosen {
            plant(&mut runs, kind, point, random);
        }
        let found = history(&mut runs, FALSE_ALARM_RUNS);
        let is_rate = |point: &Point| {
            let rows = runs.iter().flat_map(|run| &run.points).filter(|row| row.point == *point);
            rows.filter_map(|row| row.primary()).any(|it| it.better == Better::Higher)
        };
        let run = |time: &String| found.runs.iter().position(|run| run == time);
        let changes = found.changes.iter();
        let rows = found.series.iter().map(|row| {
            let mut values = vec![None; length];
            row.values.iter().for_each(|value| values[value.run] = Some(value.median));
            Row { values, rate: is_rate(&row.of.point) }
        });
        let step = match (kind, chosen) {
            (Kind::Step(_), Some(point)) => {
                found.series.iter().position(|row| row.of.point == point)
            }
            _ => None,
        };
        let costof = changes.map(|change| Found {
            row: change.row,
            at: run(&change.at),
            found: run(&change.found),
        });
        Series { runs: length, rows: rows.collect(), step, costof: costof.collect() }
    }

    /// Whether a change is that of the step. What was reported before the step is not.
    pub(super) fn is_step(&self, change: &Found) -> bool {
        Some(change.row) == self.step
            && is_near_step(change.at)
            && change.found.is_none_or(|found| found >= STEP_AT)
    }
}

/// Makes this point of these runs slower: from a run on, or in single ones.
fn plant(runs: &mut [Run], kind: Kind, point: &Point, random: &mut Rng) {
    let length = runs.len();
    let (share, slower): (f64, Vec<usize>) = match kind {
        Kind::Step(share) => (share, (STEP_AT..length).collect()),
        _ => (SPIKE, (0..SPIKES).map(|_| random.usize(..length)).collect()),
    };
    for at in BTreeSet::from_iter(slower) {
        let rows = runs[at].points.iter_mut().filter(|row| row.point == *point);
        for estimate in rows.flat_map(|row| &mut row.metrics) {
            let factor = match estimate.better {
                Better::Higher => 1.0 / (1.0 + share),
                Better::Lower | Better::Neither => 1.0 + share,
            };
            estimate.median *= factor;
            estimate.ci95 = estimate.ci95.map(|(low, high)| (low * factor, high * factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{RowExt, run, sized_row};

    /// Runs of three rows that scatter by a percent.
    fn runs() -> Vec<Run> {
        let mut random = Rng::with_seed(3);
        let one = |at: usize| {
            let mut run = run(&[]);
            run.run.started = format!("2026-11-01T00:{:02}:{:02}Z", at / 60, at % 60);
            run.points = (1..=3)
                .map(|size| {
                    let value = 10.0 + 0.1 * random.f64();
                    sized_row("a.x", size, value).known_within(0.01)
                })
                .collect();
            run
        };
        (0..2 * SHORT).map(one).collect()
    }

    #[test]
    fn a_step_is_planted_in_one_row_and_costof_finds_it_there() {
        let series = Series::new(&runs(), Kind::Step(0.5), &mut Rng::with_seed(1));
        let step = series.step.expect("a row has the step");
        for (at, row) in series.rows.iter().enumerate() {
            assert_eq!(row.values.len(), SHORT);
            let mean =
                |runs: &[Option<f64>]| runs.iter().flatten().sum::<f64>() / runs.len() as f64;
            let (before, after) = row.values.split_at(STEP_AT);
            let factor = if at == step { 1.5 } else { 1.0 };
            assert!((mean(after) / mean(before) / factor - 1.0).abs() < 0.01, "{at}");
        }
        let [change] = &series.costof[..] else { panic!("{:?}", series.costof) };
        assert!(series.is_step(change), "{change:?}");
        assert!(!series.is_step(&Found { row: step + 1, ..*change }));
        assert!(!series.is_step(&Found { at: Some(STEP_AT + NEAR + 1), ..*change }));
        assert!(!series.is_step(&Found { found: Some(STEP_AT - 1), ..*change }));
        assert!(series.is_step(&Found { row: step, at: None, found: None }));
    }

    #[test]
    fn spikes_are_no_step_and_only_a_shuffled_series_is_in_another_order() {
        let runs = runs();
        let spiked = Series::new(&runs, Kind::Spikes, &mut Rng::with_seed(2));
        let large = |row: &Row| row.values.iter().flatten().filter(|value| **value > 14.0).count();
        assert_eq!(spiked.rows.iter().map(large).sum::<usize>(), SPIKES);
        assert_eq!(spiked.step, None);
        let first = |kind| {
            let series = Series::new(&runs, kind, &mut Rng::with_seed(2));
            series.rows[0].values.iter().flatten().copied().collect::<Vec<f64>>()
        };
        let own: Vec<f64> = runs.iter().map(|run| run.points[0].metrics[0].median).collect();
        assert_eq!(first(Kind::AsMeasured), own);
        let mut shuffled = first(Kind::AnyOrder(runs.len()));
        assert_ne!(shuffled, own);
        shuffled.sort_by(f64::total_cmp);
        let mut sorted = own;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(shuffled, sorted);
    }
}

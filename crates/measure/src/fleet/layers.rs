//! The layers of a cohort: what the rows of a host say together.

use super::{Row, Values};
use costof_model::fleet::Statistic;
use costof_stats::outliers::{Population, Reading};
use std::collections::BTreeMap;

/// A layer is judged as a whole from this many rows on.
const LAYER_ROWS: usize = 3;
/// A row of a run counts as this many of its errors off at most, so that no single one makes a layer odd.
const MOST_ERRORS: f64 = 10.0;
/// Without the run that deviates most, the others are still this many errors off, to the same side.
const AGAIN: f64 = 2.0;

/// A layer of a cohort: how much worse the rows of each host are, in standard errors of their weighted mean. The rows
/// of a host depend on each other, so that hosts which belong scatter by more than one.
pub(super) struct Layer<'a> {
    pub(super) name: &'a str,
    pub(super) statistic: Statistic,
    pub(super) rows: usize,
    pub(super) values: Values,
    /// The standard error of each host's mean, in logarithms.
    errors: BTreeMap<usize, f64>,
}

impl Layer<'_> {
    /// How much worse than usual this host is, as a share.
    pub(super) fn worse(&self, host: usize, reading: Reading) -> f64 {
        let off = reading.value - self.values.population.centre;
        (off * self.errors[&host]).exp_m1()
    }
}

/// A sum of deviations that are weighted by their precision (the reciprocal of the squared error).
#[derive(Clone, Copy, Default)]
struct Weighted {
    sum: f64,
    precision: f64,
}

impl Weighted {
    fn plus(self, other: Weighted) -> Weighted {
        Weighted { sum: self.sum + other.sum, precision: self.precision + other.precision }
    }

    fn less(self, other: Weighted) -> Weighted {
        Weighted { sum: self.sum - other.sum, precision: self.precision - other.precision }
    }

    /// The mean, in its standard errors.
    fn in_errors(self) -> f64 {
        if self.precision > 0.0 { self.sum / self.precision.sqrt() } else { 0.0 }
    }
}

/// The layers that have enough rows.
pub(super) fn layers<'a>(rows: &[Row<'a>], hosts: usize) -> Vec<Layer<'a>> {
    let mut by_name: BTreeMap<(Statistic, &str), Vec<&Row<'a>>> = BTreeMap::new();
    for row in rows {
        let of = (row.statistic, row.row.point.layer());
        by_name.entry(of).or_default().push(row);
    }
    let layers = by_name.into_iter().filter_map(|((statistic, name), rows)| {
        let runs: BTreeMap<usize, Vec<Weighted>> =
            (0..hosts).filter_map(|host| Some((host, of_runs(&rows, host)?))).collect();
        let all =
            |runs: &[Weighted]| runs.iter().copied().fold(Weighted::default(), Weighted::plus);
        let readings = runs
            .iter()
            .map(|(host, runs)| (*host, Reading { value: all(runs).in_errors(), error: 1.0 }));
        let mut readings: BTreeMap<usize, Reading> = readings.collect();
        let members: Vec<Reading> = readings.values().copied().collect();
        let population = Population::of_sums(&members)?;
        for (host, reading) in &mut readings {
            if !deviates_again(&runs[host], all(&runs[host])) {
                reading.value = population.centre;
            }
        }
        let errors =
            runs.iter().map(|(host, runs)| (*host, all(runs).precision.sqrt().recip())).collect();
        let values = Values { readings, population };
        Some(Layer { name, statistic, rows: rows.len(), values, errors })
    });
    layers.collect()
}

/// The deviations of the rows of each run of a host; `None` of too few rows.
fn of_runs(rows: &[&Row<'_>], host: usize) -> Option<Vec<Weighted>> {
    let of_host = rows.iter().filter_map(|row| Some((row, row.runs.get(&host)?)));
    let of_host: Vec<_> = of_host.collect();
    if of_host.len() < LAYER_ROWS {
        return None;
    }
    let mut by_run: BTreeMap<usize, Weighted> = BTreeMap::new();
    for (row, runs) in of_host {
        for (run, reading) in runs.iter().filter(|(_, reading)| reading.error > 0.0) {
            let off = row.estimate.better.worse(reading.value - row.values.population.centre);
            let most = MOST_ERRORS * reading.error;
            let precision = reading.error.powi(2).recip();
            let weighted = Weighted { sum: off.clamp(-most, most) * precision, precision };
            let sum = by_run.entry(*run).or_default();
            *sum = sum.plus(weighted);
        }
    }
    Some(by_run.into_values().collect()).filter(|runs: &Vec<_>| !runs.is_empty())
}

/// Whether no single run of several makes this deviation.
fn deviates_again(runs: &[Weighted], all: Weighted) -> bool {
    let side = all.in_errors().signum();
    runs.len() == 1 || runs.iter().all(|run| side * all.less(*run).in_errors() > AGAIN)
}

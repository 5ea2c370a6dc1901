//! What each run has for a row, by hosts.

use super::{HALF_WIDTH, Row, Values};
use crate::compare::boot;
use crate::hosts::Named;
use costof_model::fleet::Statistic;
use costof_model::metric::Estimate;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_stats::outliers::{MIN_MEMBERS, Reading, scatter};
use costof_stats::sequential::MEDIAN_ERROR;
use costof_stats::{median, standard_deviation};
use std::collections::BTreeMap;

/// A row of one run.
pub(crate) struct OfRun<'a> {
    /// The boot during which it was measured, if that is known.
    pub(crate) boot: Option<&'a String>,
    /// Which of the host's runs.
    run: usize,
    /// Its value, with an error of at least what its grade leaves.
    pub(crate) reading: Reading,
    /// The error that its interval implies.
    own_error: f64,
    /// Whether something else used the core, or may have: grade C.
    is_disturbed: bool,
    /// Its mean.
    pub(super) mean: Option<Reading>,
    /// How far its launches scatter: a standard deviation, as its interval implies.
    pub(super) launch: f64,
}

/// A row, and what the runs of each host have for it.
pub(crate) struct OfHosts<'a> {
    pub(crate) row: &'a PointRow,
    pub(crate) estimate: &'a Estimate,
    pub(crate) runs: BTreeMap<usize, Vec<OfRun<'a>>>,
}

/// The rows that any run has with a number to conclude from.
pub(crate) fn of_hosts<'a>(hosts: &[Named<'a>]) -> impl Iterator<Item = OfHosts<'a>> + use<'a> {
    let mut all: BTreeMap<(&Point, u32), OfHosts<'a>> = BTreeMap::new();
    for (host, (_, runs)) in hosts.iter().enumerate() {
        let runs = runs.iter().enumerate();
        for (number, run, row) in
            runs.flat_map(|(number, run)| run.points.iter().map(move |row| (number, run, row)))
        {
            let Some((estimate, reading)) = reading(row) else {
                continue;
            };
            let of_hosts = all.entry((&row.point, row.method)).or_insert_with(|| OfHosts {
                row,
                estimate,
                runs: BTreeMap::new(),
            });
            of_hosts.runs.entry(host).or_default().push(OfRun {
                boot: boot(run),
                run: number,
                reading: graded(reading, row.grade),
                own_error: reading.error,
                is_disturbed: row.grade == Grade::C,
                mean: mean(estimate),
                launch: reading.error * f64::from(row.launches).sqrt() / MEDIAN_ERROR,
            });
        }
    }
    all.into_values()
}

/// The medians and the means of the rows that enough hosts have.
pub(super) fn rows<'a>(hosts: &[Named<'a>]) -> Vec<Row<'a>> {
    let rows = of_hosts(hosts)
        .flat_map(|of| [Statistic::Median, Statistic::Mean].map(|statistic| row(&of, statistic)));
    rows.flatten().collect()
}

/// The least error of a host's mean, in logarithms. Batches of a run depend on each other, since a neighbour or a queue
/// stays for seconds, and so do the runs of a host, so that their scatter says too little. What a mean is judged for
/// multiplies it by ten and more.
const MEAN_ERROR: f64 = 0.5;

fn row<'a>(of: &OfHosts<'a>, statistic: Statistic) -> Option<Row<'a>> {
    let mut runs = match statistic {
        Statistic::Median => of.by_state(),
        Statistic::Mean => of.readings(|run| run.mean),
    };
    runs.retain(|_, runs| !runs.is_empty());
    let mut readings = of_each_host(&runs)?;
    let repeated = runs.iter().filter(|(_, runs)| runs.len() > 1).map(|(host, _)| *host).collect();
    if statistic == Statistic::Mean {
        readings.values_mut().for_each(|reading| reading.error = reading.error.max(MEAN_ERROR));
        // The runs of a host do not add up.
        runs = readings.iter().map(|(host, reading)| (*host, vec![(0, *reading)])).collect();
    }
    let values = Values::new(readings)?;
    Some(Row { row: of.row, estimate: of.estimate, statistic, values, runs, repeated })
}

/// What each run of each host has for a row, with the number of the run.
pub(super) type Readings = BTreeMap<usize, Vec<(usize, Reading)>>;

/// What the runs of each host say together; `None` without a run.
fn of_each_host(runs: &Readings) -> Option<BTreeMap<usize, Reading>> {
    let of_host = |runs: &Vec<(usize, Reading)>| {
        median(&runs.iter().map(|(_, reading)| reading.value).collect::<Vec<_>>())
    };
    let centre = median(&runs.values().filter_map(of_host).collect::<Vec<_>>())?;
    let together = runs.iter().map(|(host, runs)| {
        let runs: Vec<Reading> = runs.iter().map(|(_, reading)| *reading).collect();
        (*host, together(&runs, centre))
    });
    Some(together.collect())
}

impl OfHosts<'_> {
    /// What the runs of each host say together, whatever their state.
    pub(super) fn of_each_host(&self) -> Option<BTreeMap<usize, Reading>> {
        of_each_host(&self.readings(|run| Some(run.reading)))
    }

    fn readings(&self, of_run: impl Fn(&OfRun<'_>) -> Option<Reading>) -> Readings {
        let runs = self.runs.iter().map(|(host, runs)| {
            let runs = runs.iter().filter_map(|run| Some((run.run, of_run(run)?)));
            (*host, runs.collect())
        });
        runs.collect()
    }

    /// The medians, each beside the runs of the cohort in the same state: what a neighbour on the core adds, and how
    /// much that differs from run to run, is the same for all hosts and is seen in their runs. So a disturbed run is moved
    /// by what disturbed ones usually cost more, and the error of each is at least the scatter of its state. Where too
    /// few hosts have a state, its runs keep the error that their grade leaves.
    fn by_state(&self) -> Readings {
        let states = [false, true].map(|is_disturbed| self.state(is_disturbed));
        let usual = states[0].or(states[1]).map(|state| state.value);
        self.readings(|run| {
            let state = states[usize::from(run.is_disturbed)].zip(usual);
            Some(state.map_or(run.reading, |(state, usual)| Reading {
                value: run.reading.value - state.value + usual,
                error: run.own_error.max(state.error),
            }))
        })
    }

    /// The usual value of runs in this state, and how far they scatter. Each host counts alike, however many runs it has.
    fn state(&self, is_disturbed: bool) -> Option<Reading> {
        let of_host = |runs: &Vec<OfRun<'_>>| {
            let runs = runs.iter().filter(|run| run.is_disturbed == is_disturbed);
            runs.map(|run| run.reading.value).collect::<Vec<f64>>()
        };
        let mut hosts: Vec<Vec<f64>> = self.runs.values().map(of_host).collect();
        hosts.retain(|values| !values.is_empty());
        if hosts.len() < MIN_MEMBERS {
            return None;
        }
        let (value, scatter) = scatter(&hosts)?;
        Some(Reading { value, error: scatter.max(MIN_SCATTER) })
    }
}

/// Runs scatter by this at least. Without a bound, one row that is the same everywhere outweighs its layer.
const MIN_SCATTER: f64 = 0.01;

/// The logarithm of a row's median, with the error that its interval implies.
pub(crate) fn reading(row: &PointRow) -> Option<(&Estimate, Reading)> {
    let estimate = row.primary().filter(|_| row.is_sound())?;
    let (low, high) = estimate.ci95.filter(|(low, _)| *low > 0.0)?;
    let reading =
        Reading { value: estimate.median.ln(), error: (high / low).ln() / (2.0 * HALF_WIDTH) };
    (reading.value.is_finite() && reading.error.is_finite()).then_some((estimate, reading))
}

/// The logarithm of a row's mean, which shows what the median hides: that a tenth of the reads wait for a limit. Its
/// error reaches down to the mean less a standard error of all batches, so that one long stall, which is as large as
/// the scatter that it makes, is one error off however long it is.
fn mean(estimate: &Estimate) -> Option<Reading> {
    let (mean, sd) = (estimate.mean, estimate.sd?);
    let share = sd / mean / (estimate.n as f64).sqrt();
    let reading = Reading { value: mean.ln(), error: -(-share).ln_1p() };
    (reading.value.is_finite() && reading.error.is_finite()).then_some(reading)
}

/// The reading with an error of at least what the grade leaves.
pub(crate) fn graded(reading: Reading, grade: Grade) -> Reading {
    Reading { error: reading.error.max(disturbance(grade)), ..reading }
}

/// The error that a grade leaves, as a share, however well the launches agree. A thread on the other half of a core
/// slows all of them alike, by tens of percent.
fn disturbance(grade: Grade) -> f64 {
    match grade {
        Grade::A => 0.002,
        Grade::B => 0.005,
        Grade::C | Grade::D => 0.1,
    }
}

/// A host's value from its runs: of all that deviate to one side, the one that deviates least, else the centre. So a
/// host deviates if each of its runs does. The error is at least that of their scatter.
pub(super) fn together(runs: &[Reading], centre: f64) -> Reading {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let squares: f64 = runs.iter().map(|run| run.error.powi(2)).sum();
    let count = runs.len() as f64;
    let scatter = standard_deviation(&values).unwrap_or(0.0) / count.sqrt();
    let (low, high) = (values.iter().copied())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (value.min(low), value.max(high))
        });
    Reading { value: centre.clamp(low, high), error: (squares.sqrt() / count).max(scatter) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::host;
    use super::*;
    use crate::hosts::hosts;

    /// One host has as many runs as all others together, and costs a third more.
    #[test]
    fn a_host_with_many_runs_does_not_say_what_is_usual() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut run = |name: &str, slower| host(&mut random, name, 0.01, slower);
        let mut runs: Vec<_> = (0..20).map(|number| run(&format!("n{number}"), |_| 1.0)).collect();
        runs.extend((0..20).map(|_| run("many", |_| 1.33)));
        for of in of_hosts(&hosts(&runs)) {
            let state = of.state(false).expect("a state");
            let one = of.runs.values().find(|runs| runs.len() == 1).expect("a host");
            let off = state.value - one[0].reading.value;
            assert!(off.abs() < 0.1 && state.error < 0.05, "{state:?}");
        }
    }
}

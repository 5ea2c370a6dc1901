//! The layers of a cohort: what the rows of a host say together.

use super::{Row, Values};
use costof_model::fleet::Statistic;
use costof_stats::outliers::{Population, Reading};
use std::collections::BTreeMap;

/// A layer is judged as a whole from this many rows on.
const LAYER_ROWS: usize = 3;
/// A row of a run counts as this many of its errors off at most, so that no single one makes a layer odd.
const MOST_ERRORS: f64 = 10.0;
/// Without the run of several that deviates most, or the row of one run, the others are still this many errors off, to
/// the same side.
const AGAIN: f64 = 3.0;

// METHOD 23
/// A layer of a cohort: how much worse the rows of each host are, in standard errors of their weighted mean. The rows
/// of a host depend on each other, so that hosts which belong scatter by more than one.
pub(super) struct Layer<'a> {
    pub(super) name: &'a str,
    pub(super) statistic: Statistic,
    pub(super) rows: usize,
    pub(super) values: Values,
    sums: BTreeMap<usize, Sum>,
}

impl Layer<'_> {
    /// How much worse than usual this host is, as a share.
    pub(super) fn worse(&self, host: usize) -> f64 {
        let sum = &self.sums[&host];
        (sum.off / sum.whole.precision).exp_m1()
    }
}

/// A sum of deviations that are weighted by their precision (the reciprocal of the squared error).
#[derive(Clone, Copy, Default)]
struct Weighted {
    sum: f64,
    precision: f64,
}

impl Weighted {
    fn add(&mut self, other: Weighted) {
        self.sum += other.sum;
        self.precision += other.precision;
    }

    fn less(self, other: Weighted) -> Weighted {
        Weighted { sum: self.sum - other.sum, precision: self.precision - other.precision }
    }

    /// The mean, in its standard errors.
    fn in_errors(self) -> f64 {
        if self.precision > 0.0 { self.sum / self.precision.sqrt() } else { 0.0 }
    }
}

/// What the rows of a host's layer say together.
struct Sum {
    whole: Weighted,
    /// The same sum, however far off its rows are.
    off: f64,
    /// Whether more than one run says so, or of one run more than one row.
    is_again: bool,
}

impl Sum {
    /// `None` of too few rows.
    fn of(rows: &[&Row<'_>], host: usize) -> Option<Sum> {
        let of_host = rows.iter().filter_map(|row| Some((row, row.runs.get(&host)?)));
        let of_host: Vec<_> = of_host.collect();
        if of_host.len() < LAYER_ROWS {
            return None;
        }
        let (mut whole, mut off_all) = (Weighted::default(), 0.0);
        let (mut by_row, mut by_run) = (Vec::new(), BTreeMap::<usize, Weighted>::new());
        for (row, runs) in of_host {
            let mut of_row = Weighted::default();
            for (run, reading) in runs.iter().filter(|(_, reading)| reading.error > 0.0) {
                let off = row.estimate.better.worse(reading.value - row.values.population.centre);
                let most = MOST_ERRORS * reading.error;
                let precision = reading.error.powi(2).recip();
                let weighted = Weighted { sum: off.clamp(-most, most) * precision, precision };
                off_all += off * precision;
                of_row.add(weighted);
                by_run.entry(*run).or_default().add(weighted);
            }
            whole.add(of_row);
            by_row.push(of_row);
        }
        let parts = if by_run.len() > 1 { by_run.into_values().collect() } else { by_row };
        let side = whole.in_errors().signum();
        let is_again = parts.iter().all(|part| side * whole.less(*part).in_errors() > AGAIN);
        (whole.precision > 0.0).then_some(Sum { whole, off: off_all, is_again })
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
        let sums: BTreeMap<usize, Sum> =
            (0..hosts).filter_map(|host| Some((host, Sum::of(&rows, host)?))).collect();
        let reading = |value: f64| Reading { value, error: 1.0 };
        let members: Vec<Reading> =
            sums.values().map(|sum| reading(sum.whole.in_errors())).collect();
        let population = Population::of_sums(&members)?;
        let readings = sums.iter().map(|(host, sum)| {
            let value = if sum.is_again { sum.whole.in_errors() } else { population.centre };
            (*host, reading(value))
        });
        let values = Values { readings: readings.collect(), population };
        Some(Layer { name, statistic, rows: rows.len(), values, sums })
    });
    layers.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, normal, verdict};
    use super::super::{BY, HALF_WIDTH, fleet};
    use costof_model::fleet::Verdict;
    use costof_model::noise::Grade;
    use costof_model::rows::PointRow;
    use costof_model::run_file::Run;
    use costof_model::testing::RowExt;

    /// Forty hosts, each row of each run changed. The last is `slow`: its memory takes a tenth longer.
    fn hosts(seed: u64, runs: usize, change: fn(&mut fastrand::Rng, &mut PointRow)) -> Vec<Run> {
        let mut random = fastrand::Rng::with_seed(seed);
        let slow = |probe: &str| if probe == "memory.x" { 1.1 } else { 1.0 };
        let mut all = Vec::new();
        for number in (0..40).flat_map(|number| vec![number; runs]) {
            let (name, slower) = match number {
                39 => ("slow".to_owned(), slow as fn(&str) -> f64),
                _ => (format!("n{number:02}"), (|_| 1.0) as fn(&str) -> f64),
            };
            let mut run = host(&mut random, &name, 0.01, slower);
            run.points.iter_mut().for_each(|row| change(&mut random, row));
            all.push(run);
        }
        all
    }

    fn times(row: &mut PointRow, times: f64) {
        row.metrics[0].median *= times;
        *row = row.clone().known_within(HALF_WIDTH * 0.01);
    }

    /// The hosts that are called odd.
    fn odd(runs: &[Run]) -> Vec<String> {
        let found = fleet(runs, &BY);
        let hosts = found.cohorts.iter().flat_map(|cohort| &cohort.hosts);
        let odd = hosts.filter(|host| host.verdict.is_odd());
        odd.map(|host| host.name.clone()).collect()
    }

    /// Most rows differ from run to run by a third. The two that do not show what the layer's median hides.
    #[test]
    fn a_layer_is_judged_by_its_precise_rows() {
        let noisy = |random: &mut fastrand::Rng, row: &mut PointRow| {
            // The first two of a layer cost 10 and 20 ns.
            if row.metrics[0].median > 25.0 {
                times(row, (0.3 * normal(random)).exp());
            }
        };
        let runs = hosts(1, 3, noisy);
        assert_eq!(odd(&runs), ["slow"]);
        let found = fleet(&runs, &BY);
        let slow = verdict(&found, "slow");
        assert_eq!(slow.verdict, Verdict::Slower, "{slow:?}");
        assert!((0.05..0.15).contains(&slow.layers[0].worse), "{slow:?}");
    }

    /// A neighbour on the core takes a third, of half of the rows: beside each other, these show a tenth.
    #[test]
    fn a_run_is_judged_beside_runs_in_the_same_state() {
        let shared = |random: &mut fastrand::Rng, row: &mut PointRow| {
            if random.bool() {
                times(row, 1.5);
                row.grade = Grade::C;
            }
        };
        assert_eq!(odd(&hosts(2, 3, shared)), ["slow"]);
    }

    /// The row of net that differs least from run to run decides what its layer says, and is anything in one run.
    #[test]
    fn one_row_of_one_run_makes_no_layer_odd() {
        let noisy = |random: &mut fastrand::Rng, row: &mut PointRow| {
            if row.point.probe == "net.x" && row.metrics[0].median > 15.0 {
                times(row, (0.3 * normal(random)).exp());
            }
        };
        let mut runs = hosts(3, 1, noisy);
        let row = runs[7].points.iter_mut().find(|row| row.point.probe == "net.x");
        times(row.expect("a row"), 1.5);
        assert_eq!(odd(&runs), ["slow"]);
    }

    #[test]
    fn a_layer_that_is_twice_as_dear_is_said_to_be() {
        let mut runs = hosts(4, 1, |_, _| ());
        let rows = runs[7].points.iter_mut().filter(|row| row.point.probe == "net.x");
        rows.for_each(|row| times(row, 2.0));
        let found = fleet(&runs, &BY);
        let worse = verdict(&found, "n07").layers[0].worse;
        assert!((0.9..1.1).contains(&worse), "{worse}");
    }
}

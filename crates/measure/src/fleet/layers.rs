//! The layers of a cohort: what the rows of a host say together.

use super::{Row, Values};
use costof_model::fleet::Statistic;
use costof_stats::median;
use costof_stats::outliers::{Population, Reading};
use std::collections::BTreeMap;

/// A layer is judged as a whole from this many rows on.
const MIN_ROWS: usize = 3;
/// A row of a run counts as this many of its errors at most, so that no single one makes a layer odd.
const MAX_ERRORS: f64 = 10.0;
/// A layer deviates only if it still does by this many errors, to the same side, without its strongest part.
const MIN_ERRORS_WITHOUT_PART: f64 = 3.0;

// METHOD 23
/// A layer of a cohort: the weighted mean of how much worse the rows of each host are, in logarithms. Hosts that belong
/// scatter by more than its error: the rows of a host depend on each other.
pub(super) struct Layer<'a> {
    pub(super) name: &'a str,
    pub(super) statistic: Statistic,
    pub(super) rows: usize,
    pub(super) values: Values,
    /// How much worse than usual each host is, however far its rows deviate: a logarithm.
    unbounded: BTreeMap<usize, f64>,
}

impl Layer<'_> {
    /// How much worse than the usual host this one is, as a share. Where a single row far on the other side would turn
    /// the sign of what was tested, it is what was tested.
    pub(super) fn worse(&self, host: usize) -> f64 {
        let tested = self.values.readings[&host].value - self.values.population.centre;
        let unbounded = self.unbounded[&host];
        let worse = if unbounded * tested > 0.0 { unbounded } else { tested };
        worse.exp_m1()
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

    fn without(self, part: Weighted) -> Weighted {
        Weighted { sum: self.sum - part.sum, precision: self.precision - part.precision }
    }

    /// The mean and its standard error; `None` if nothing is in it.
    fn mean(self) -> Option<Reading> {
        let error = self.precision.sqrt().recip();
        (self.precision > 0.0).then(|| Reading { value: self.sum / self.precision, error })
    }
}

/// What the rows of a host's layer say together.
struct HostMean {
    whole: Weighted,
    mean: Reading,
    /// The mean of deviations that are not bounded by [`MAX_ERRORS`].
    unbounded: f64,
    /// The runs, if these are several, else the rows.
    parts: Vec<Weighted>,
}

impl HostMean {
    /// `None` of too few rows.
    fn new(rows: &[&Row<'_>], host: usize) -> Option<HostMean> {
        let of_host = rows.iter().filter_map(|row| Some((row, row.runs.get(&host)?)));
        let of_host: Vec<_> = of_host.collect();
        if of_host.len() < MIN_ROWS {
            return None;
        }
        let (mut whole, mut unbounded) = (Weighted::default(), 0.0);
        let (mut by_row, mut by_run) = (Vec::new(), BTreeMap::<usize, Weighted>::new());
        for (row, runs) in of_host {
            let mut of_row = Weighted::default();
            for (run, reading) in runs.iter().filter(|(_, reading)| reading.error > 0.0) {
                let worse = row.estimate.better.worse(reading.value - row.values.population.centre);
                let max = MAX_ERRORS * reading.error;
                let precision = reading.error.powi(2).recip();
                let weighted = Weighted { sum: worse.clamp(-max, max) * precision, precision };
                unbounded += worse * precision;
                of_row.add(weighted);
                by_run.entry(*run).or_default().add(weighted);
            }
            whole.add(of_row);
            by_row.push(of_row);
        }
        let parts = if by_run.len() > 1 { by_run.into_values().collect() } else { by_row };
        let mean = whole.mean()?;
        Some(HostMean { whole, mean, unbounded: unbounded / whole.precision, parts })
    }

    /// Whether it deviates from this centre without any one of its parts, too.
    fn deviates_without_any_part(&self, centre: f64) -> bool {
        let side = (self.mean.value - centre).signum();
        let errors = |rest: Reading| side * (rest.value - centre) / rest.error;
        let mut rests = self.parts.iter().map(|part| self.whole.without(*part).mean());
        rests.all(|rest| rest.is_some_and(|rest| errors(rest) > MIN_ERRORS_WITHOUT_PART))
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
        let means = (0..hosts).filter_map(|host| Some((host, HostMean::new(&rows, host)?)));
        let means: BTreeMap<usize, HostMean> = means.collect();
        let members: Vec<Reading> = means.values().map(|of_host| of_host.mean).collect();
        let population = Population::of_sums(&members)?;
        let centre = population.centre;
        let readings = means.iter().map(|(host, of_host)| {
            let deviates = of_host.deviates_without_any_part(centre);
            let value = if deviates { of_host.mean.value } else { centre };
            (*host, Reading { value, ..of_host.mean })
        });
        let values = Values { readings: readings.collect(), population };
        let unbounded: Vec<f64> = means.values().map(|of_host| of_host.unbounded).collect();
        let usual = median(&unbounded)?;
        let unbounded = means.iter().map(|(host, of_host)| (*host, of_host.unbounded - usual));
        Some(Layer { name, statistic, rows: rows.len(), values, unbounded: unbounded.collect() })
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

    /// Each host is slower in all rows by its own 2 %, and each row of a run by 3 %: nine runs show of the host what
    /// one does not, and that is no reason to call it odd.
    #[test]
    fn a_host_with_more_runs_than_the_others_is_not_odd_for_it() {
        let mut random = fastrand::Rng::with_seed(11);
        let fleets = (0..100).filter(|_| {
            let numbers = (0..40).flat_map(|number| vec![number; if number == 7 { 9 } else { 1 }]);
            let own: Vec<f64> = (0..40).map(|_| (0.02 * normal(&mut random)).exp()).collect();
            let of_host = |number: usize| {
                let mut run = host(&mut random, &format!("n{number:02}"), 0.022, |_| 1.0);
                run.points.iter_mut().for_each(|row| times(row, own[number]));
                run
            };
            let runs: Vec<Run> = numbers.map(of_host).collect();
            odd(&runs).contains(&"n07".to_owned())
        });
        assert!(fleets.count() <= 2);
    }

    /// Noise that only adds has its mean above its median, on all hosts alike.
    #[test]
    fn a_layer_is_as_much_worse_as_beside_the_usual_host() {
        let added = |random: &mut fastrand::Rng, row: &mut PointRow| {
            times(row, (-0.1 * random.f64().max(1e-9).ln()).exp());
        };
        let found = fleet(&hosts(5, 16, added), &BY);
        let worse = verdict(&found, "slow").layers[0].worse;
        assert!((0.08..0.12).contains(&worse), "{worse}");
    }

    /// In one row it is a hundredth of the usual, in all others half more.
    #[test]
    fn one_row_does_not_turn_the_sign_of_its_layer() {
        let mut runs = hosts(6, 1, |_, _| ());
        let rows = runs[7].points.iter_mut().filter(|row| row.point.probe == "net.x");
        (0..).zip(rows).for_each(|(number, row)| times(row, if number == 0 { 0.01 } else { 1.5 }));
        let found = fleet(&runs, &BY);
        let layer = &verdict(&found, "n07").layers[0];
        assert!(layer.worse > 0.0, "{layer:?}");
    }
}

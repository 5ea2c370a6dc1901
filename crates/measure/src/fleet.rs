//! Which hosts of many are odd. Pure.
//!
//! A host's value of a row is the logarithm of its median, with the standard error that its interval implies
//! and, where the host has several runs, their scatter. Rows of hosts that belong scatter around the cohort's
//! centre by more than these errors ([`costof_stats::outliers`]). So a host is judged by what it deviates
//! beyond both: a noisy host is not odd for its noise.
//!
//! The median hides a fault that is there only now and then: a disk's limit lets most reads pass and stops one in
//! ten for a tenth of a second. So a row's mean is judged as well, with an error so large that only such faults are
//! seen. What a host's median shows already is not said again of its mean.
//!
//! A fault seldom slows one row alone. So each layer is judged as well, by all of its rows in all runs of a host
//! together, each weighted by its precision. A host's tests are taken together by Simes' procedure, and Benjamini
//! and Hochberg's bounds the share of hosts that are called odd and are not. The rows named of an odd host are
//! bounded by the same rate for the hosts selected (Y. Benjamini and M. Bogomolov, "Selective inference on
//! multiple families of hypotheses", JRSS B 76, 2014).
//!
//! A quota of CPU time is known, not found: a host that alone has one is odd, whatever its rows say.

mod entry;
mod groups;
mod layers;
mod mixture;
mod reference;
mod rows;

use crate::compare::groups::compare_hosts;
use crate::compare::{MATTERS, machine_facts};
use crate::hosts::{Named, facts_of, hosts};
use costof_model::comparison::Comparison;
use costof_model::fleet::{
    Cohort, Deviation, Differing, Fleet, Host, LayerDeviation, Statistic, UNKNOWN, Verdict,
    own_quota,
};
use costof_model::metric::Estimate;
use costof_model::plural::counted;
use costof_model::rows::{MetricOfPoint, PointRow};
use costof_model::run_file::Run;
use costof_stats::median;
use costof_stats::outliers::{Population, Reading, simes, threshold};
pub(crate) use entry::class;
pub use entry::entry;
use layers::{Layer, layers};
pub use reference::{Candidates, Populations, choose, reference};
pub(crate) use rows::{OfHosts, OfRun, graded, of_hosts, reading};
use rows::{Readings, rows};
use std::collections::{BTreeMap, BTreeSet};

/// Of the hosts called odd, at most this share is not.
pub(crate) const FALSE_SHARE: f64 = 0.05;
/// A host that could have shown only deviations this many times as large as the others is undecided.
const NOISY: f64 = 2.0;
/// Unless it could have shown this deviation.
const SMALL: f64 = 0.1;
/// Half the width of a 95 % interval of a normal distribution, in standard deviations.
pub(crate) const HALF_WIDTH: f64 = 1.96;

/// The facts by which hosts are sorted into cohorts unless the user names others.
pub const BY: [&str; 3] = ["processor", "processors", "hypervisor"];

/// What the hosts of a cohort have in common, and how it is with them.
type Facts = Vec<(String, String)>;

/// Judges the hosts of these runs, each beside the hosts that have the same values of these facts and, if any
/// facts are named, are of the same population.
pub fn fleet(runs: &[Run], by: &[&str]) -> Fleet {
    let (cohorts, partings) = cohorts(runs, by);
    let cohorts = cohorts.into_iter();
    let judged: Vec<(Facts, Judged<'_>)> =
        cohorts.map(|(facts, hosts)| (facts, Judged::new(hosts))).collect();
    let tests: Vec<f64> =
        judged.iter().flat_map(|(_, judged)| &judged.hosts).map(|host| host.p).collect();
    let limit = threshold(&tests, FALSE_SHARE);
    let odd = tests.iter().filter(|p| limit.is_some_and(|limit| **p <= limit));
    let rate = FALSE_SHARE * odd.count() as f64 / tests.len().max(1) as f64;
    let mut cohorts: Vec<Cohort> = judged
        .into_iter()
        .map(|(facts, judged)| judged.cohort(facts, limit, rate, tests.len()))
        .collect();
    cohorts.sort_by_key(|cohort| std::cmp::Reverse(cohort.hosts.len()));
    Fleet { false_share: FALSE_SHARE, cohorts, partings }
}

/// What differs between the runs with one value of this fact and those with the other, among hosts that are alike in
/// the facts `by`. A host that has runs of both is compared with itself.
///
/// # Errors
/// If the runs have one value, or more than two.
pub fn versus(runs: &[Run], by: &[&str], fact: &str) -> Result<Vec<Comparison>, String> {
    let values = |run: &Run, by: &[&str]| values_of(&facts_of(&[run]), by);
    let by: Vec<&str> = by.iter().copied().filter(|by| *by != fact).collect();
    let mut cohorts: BTreeMap<Facts, BTreeMap<String, Vec<&Run>>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for run in runs {
        let value = values(run, &[fact]).remove(0).1;
        all.insert(value.clone());
        cohorts.entry(values(run, &by)).or_default().entry(value).or_default().push(run);
    }
    if all.len() != 2 {
        return Err(format!(
            "the hosts have {} of `{fact}`, not two: {}",
            counted(all.len(), "value"),
            all.iter().take(4).cloned().collect::<Vec<_>>().join(", ")
        ));
    }
    let compared = cohorts.into_values().filter_map(|sides| {
        let mut sides: [Vec<&Run>; 2] = sides.into_values().collect::<Vec<_>>().try_into().ok()?;
        sides.sort_by_key(|runs| runs.iter().map(|run| run.run.started.clone()).min());
        Some(compare_hosts(sides.map(hosts), MATTERS))
    });
    Ok(compared.filter(|comparison| !comparison.rows.is_empty()).collect())
}

/// The names of the facts of these runs, also of those whose value is unknown.
pub fn names_of_facts(runs: &[Run]) -> BTreeSet<String> {
    let facts = runs.iter().filter_map(Run::facts).flat_map(machine_facts);
    facts.map(|(what, _)| what).collect()
}

/// The hosts of these runs, those together that are alike in these facts and of the same population, and what differs
/// between populations.
fn cohorts<'r>(runs: &'r [Run], by: &[&str]) -> (Vec<(Facts, Vec<Named<'r>>)>, Vec<Comparison>) {
    let cohorts = alike(hosts(runs), by);
    if by.is_empty() {
        return (cohorts.into_iter().collect(), Vec::new());
    }
    let mut partings = Vec::new();
    let cohorts = cohorts.into_iter().flat_map(|(facts, hosts)| {
        partings.extend(groups::by_facts(&hosts));
        let (populations, parting) = mixture::populations(facts, hosts);
        partings.extend(parting);
        populations
    });
    (cohorts.collect(), partings)
}

/// These hosts, those together that are alike in these facts.
fn alike<'r>(hosts: Vec<Named<'r>>, by: &[&str]) -> BTreeMap<Facts, Vec<Named<'r>>> {
    let mut alike: BTreeMap<Facts, Vec<Named<'r>>> = BTreeMap::new();
    for (name, runs) in hosts {
        alike.entry(values_of(&facts_of(&runs), by)).or_default().push((name, runs));
    }
    alike
}

/// How it is with these facts, on a host with all of those.
fn values_of(all: &BTreeMap<String, String>, by: &[&str]) -> Facts {
    let value = |what: &&str| {
        let value = all.get(*what).cloned();
        ((*what).to_owned(), value.unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    by.iter().map(value).collect()
}

/// What the hosts of a cohort have for a row or a layer.
struct Values {
    /// The value of each host that has one.
    readings: BTreeMap<usize, Reading>,
    population: Population,
}

impl Values {
    /// `None` of too few hosts.
    fn new(readings: BTreeMap<usize, Reading>) -> Option<Values> {
        let population = Population::of(&readings.values().copied().collect::<Vec<_>>())?;
        Some(Values { readings, population })
    }

    /// The probability that a host that belongs deviates as much as this one.
    fn p(&self, host: usize) -> Option<f64> {
        let reading = self.readings.get(&host)?;
        Some(self.population.p(*reading))
    }
}

/// What this host has of these, each with its probability, that is found at this rate of false ones.
fn found<T>(
    all: &[T],
    values: fn(&T) -> &Values,
    host: usize,
    rate: f64,
) -> Vec<(&T, Reading, f64)> {
    let tested = all.iter().filter_map(|of| {
        let values = values(of);
        Some((of, *values.readings.get(&host)?, values.p(host)?))
    });
    let mut tested: Vec<_> = tested.collect();
    let limit = threshold(&tested.iter().map(|(_, _, p)| *p).collect::<Vec<_>>(), rate);
    tested.retain(|(_, _, p)| limit.is_some_and(|limit| *p <= limit));
    tested
}

/// A statistic of a row of a cohort.
struct Row<'a> {
    row: &'a PointRow,
    estimate: &'a Estimate,
    statistic: Statistic,
    values: Values,
    /// What each run of each host has.
    runs: Readings,
    /// The hosts that have it in several runs. One row of one run may be anything.
    repeated: BTreeSet<usize>,
}

impl<'a> Row<'a> {
    /// How much worse than usual a host is, and its error.
    fn deviation(&self, host: usize) -> Option<Reading> {
        let reading = self.values.readings.get(&host)?;
        Some(Reading {
            value: (self.estimate.better).worse(reading.value - self.values.population.centre),
            error: reading.error,
        })
    }
}

/// A host before it is known how many are odd.
struct Tested<'a> {
    name: String,
    runs: Vec<&'a Run>,
    facts: BTreeMap<String, String>,
    p: f64,
}

impl Tested<'_> {
    /// The facts in which it differs from these usual ones.
    fn differing(&self, usual: &BTreeMap<&str, &str>) -> Vec<Differing> {
        let differs = |(what, usual): (&&str, &&str)| {
            let here = self.facts.get(*what).map_or(UNKNOWN, String::as_str);
            (here != *usual).then(|| ((*what).to_owned(), here.to_owned(), (*usual).to_owned()))
        };
        usual.iter().filter_map(differs).collect()
    }
}

/// A cohort before it is known how many of all hosts are odd.
struct Judged<'a> {
    hosts: Vec<Tested<'a>>,
    rows: Vec<Row<'a>>,
    layers: Vec<Layer<'a>>,
}

impl<'a> Judged<'a> {
    fn new(hosts: Vec<Named<'a>>) -> Judged<'a> {
        let rows = rows(&hosts);
        let layers = layers(&rows, hosts.len());
        let tested = (0..).zip(hosts).map(|(host, (name, runs))| {
            let families = [Statistic::Median, Statistic::Mean].map(|statistic| {
                let of_rows = rows.iter().filter(|row| row.statistic == statistic);
                let of_rows = of_rows.filter(|row| row.repeated.contains(&host));
                let of_rows: Vec<f64> = of_rows.filter_map(|row| row.values.p(host)).collect();
                let of_layers = layers.iter().filter(|layer| layer.statistic == statistic);
                let of_layers = of_layers.filter_map(|layer| layer.values.p(host)).collect();
                [of_rows, of_layers]
            });
            let families = families.iter().flatten().filter(|tests| !tests.is_empty());
            let tests: Vec<f64> = families.map(|tests| simes(tests)).collect();
            Tested { name, facts: facts_of(&runs), runs, p: simes(&tests) }
        });
        Judged { hosts: tested.collect(), rows, layers }
    }

    /// The cohort: hosts with a probability up to `limit` are odd, and what deviates of them is named at
    /// this `rate`. `tests` is the number of all hosts.
    fn cohort(self, facts: Facts, limit: Option<f64>, rate: f64, tests: usize) -> Cohort {
        let p = FALSE_SHARE / (tests * self.medians().count()).max(1) as f64;
        let detectable: Vec<Option<f64>> =
            (0..self.hosts.len()).map(|host| self.detectable(host, p)).collect();
        let usual = median(&detectable.iter().flatten().copied().collect::<Vec<_>>());
        let usual_facts = usual_facts(&self.hosts);
        let mut hosts: Vec<Host> = (0..self.hosts.len())
            .map(|host| {
                let tested = &self.hosts[host];
                let facts = tested.differing(&usual_facts);
                let is_odd =
                    own_quota(&facts).is_some() || limit.is_some_and(|limit| tested.p <= limit);
                self.host(host, is_odd.then_some(rate), detectable[host], usual, facts)
            })
            .collect();
        hosts.sort_by(|one, other| {
            (other.verdict.is_odd().cmp(&one.verdict.is_odd()))
                .then(one.p.total_cmp(&other.p))
                .then_with(|| one.name.cmp(&other.name))
        });
        let name = |row: &Row<'_>| MetricOfPoint::new(row.row, row.estimate).name();
        Cohort { facts, rows: self.medians().map(name).collect(), detectable: usual, hosts }
    }

    fn medians(&self) -> impl Iterator<Item = &Row<'a>> {
        let rows = self.rows.iter();
        rows.filter(|row| row.statistic == Statistic::Median)
    }

    /// The smallest deviation that a typical row of a host could have shown at this probability, as a share.
    fn detectable(&self, host: usize, p: f64) -> Option<f64> {
        let rows = self.medians().filter_map(|row| {
            let reading = row.values.readings.get(&host)?;
            let population = row.values.population;
            Some(population.detectable(reading.error, p).exp_m1())
        });
        median(&rows.collect::<Vec<_>>())
    }

    fn host(
        &self,
        host: usize,
        odd: Option<f64>,
        detectable: Option<f64>,
        usual: Option<f64>,
        facts: Vec<Differing>,
    ) -> Host {
        let tested = &self.hosts[host];
        let worse_by_row: Vec<Option<f64>> =
            self.medians().map(|row| Some(row.deviation(host)?.value.exp_m1())).collect();
        let rows = worse_by_row.iter().flatten().count();
        let deviations = odd.map_or_else(Vec::new, |rate| self.deviations(host, rate));
        let layers = odd.map_or_else(Vec::new, |rate| self.layers(host, rate));
        let is_blind = match (detectable, usual) {
            (Some(own), Some(usual)) => own > (NOISY * usual).max(SMALL),
            _ => true,
        };
        let worse = deviations.iter().map(|row| row.worse);
        let worse: Vec<f64> = worse.chain(layers.iter().map(|layer| layer.worse)).collect();
        let verdict = match odd {
            Some(_) if worse.iter().all(|share| *share > 0.0) => Verdict::Slower,
            Some(_) if worse.iter().all(|share| *share < 0.0) => Verdict::Faster,
            Some(_) => Verdict::Different,
            None if is_blind || 2 * rows < worse_by_row.len() => Verdict::Undecided,
            None => Verdict::Normal,
        };
        Host {
            name: tested.name.clone(),
            runs: tested.runs.len(),
            verdict,
            p: tested.p,
            worse: worse_by_row,
            detectable,
            layers,
            deviations,
            facts,
        }
    }

    /// The rows in which a host deviates, at this rate of false ones; the largest deviation first.
    fn deviations(&self, host: usize, rate: f64) -> Vec<Deviation> {
        let rows = found(&self.rows, |row| &row.values, host, rate).into_iter();
        let named = rows.map(|(row, reading, p)| {
            let usual = row.values.population.centre;
            Deviation {
                of: MetricOfPoint::new(row.row, row.estimate),
                statistic: row.statistic,
                here: reading.value.exp(),
                usual: usual.exp(),
                worse: row.estimate.better.worse(reading.value - usual).exp_m1(),
                p,
            }
        });
        let mut named =
            once(named.collect(), |row: &Deviation| (row.statistic, row.of.point.clone()));
        named.sort_by(|one, other| other.worse.abs().total_cmp(&one.worse.abs()));
        named
    }

    fn layers(&self, host: usize, rate: f64) -> Vec<LayerDeviation> {
        let layers = found(&self.layers, |layer| &layer.values, host, rate).into_iter();
        let named = layers.map(|(layer, _, p)| LayerDeviation {
            layer: layer.name.to_owned(),
            statistic: layer.statistic,
            rows: layer.rows,
            worse: layer.worse(host),
            p,
        });
        once(named.collect(), |layer: &LayerDeviation| (layer.statistic, layer.layer.clone()))
    }
}

/// These without the means of which the median is there as well.
fn once<T, K: Ord>(all: Vec<T>, of: fn(&T) -> (Statistic, K)) -> Vec<T> {
    let medians = all.iter().map(of).filter(|(statistic, _)| *statistic == Statistic::Median);
    let medians: BTreeSet<K> = medians.map(|(_, key)| key).collect();
    let kept = all.into_iter().filter(|one| match of(one) {
        (Statistic::Median, _) => true,
        (Statistic::Mean, key) => !medians.contains(&key),
    });
    kept.collect()
}

/// The value of each fact that more than half of the hosts have.
fn usual_facts<'a>(hosts: &'a [Tested<'_>]) -> BTreeMap<&'a str, &'a str> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (what, value) in hosts.iter().flat_map(|host| &host.facts) {
        *counts.entry((what, value)).or_default() += 1;
    }
    let usual = counts.into_iter().filter(|(_, count)| 2 * count > hosts.len());
    usual.map(|(fact, _)| fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::noise::MEASURED;
    use costof_model::rows::EndRow;
    use costof_model::testing::{RowExt, run, sized_row};

    /// A number of a normal distribution, nearly.
    pub(super) fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// The runs of a host whose rows are `slower(probe)` times as dear as usual, and known to this share. Hosts
    /// differ by 2 % anyway.
    pub(super) fn host(
        random: &mut fastrand::Rng,
        name: &str,
        error: f64,
        slower: fn(&str) -> f64,
    ) -> Run {
        let mut run = run(&[]);
        let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
        facts.host_name = Some(name.to_owned());
        facts.cpu.model_name = Some("one model".to_owned());
        for probe in ["memory.x", "net.x"] {
            for size in 1..=8 {
                let usual = 10.0 * size as f64;
                let off = (0.02 * normal(random) + error * normal(random)).exp();
                let row = sized_row(probe, size, usual * off * slower(probe));
                run.points.push(row.known_within(HALF_WIDTH * error));
            }
        }
        run
    }

    pub(super) fn verdict<'a>(fleet: &'a Fleet, name: &str) -> &'a Host {
        let mut hosts = fleet.cohorts.iter().flat_map(|cohort| &cohort.hosts);
        hosts.find(|host| host.name == name).expect("the host")
    }

    #[test]
    fn a_host_is_odd_for_what_it_costs_and_undecided_for_its_noise() {
        let mut random = fastrand::Rng::with_seed(3);
        let belongs = |_: &str| 1.0;
        let mut runs: Vec<Run> = (0..40)
            .map(|number| host(&mut random, &format!("n{number:02}"), 0.01, belongs))
            .collect();
        let memory = |probe: &str| if probe == "memory.x" { 1.1 } else { 1.0 };
        runs.push(host(&mut random, "slow", 0.01, memory));
        runs.push(host(&mut random, "noisy", 0.3, memory));
        runs.push(host(&mut random, "held", 0.3, belongs));
        let kernel = |release: &str| Some(release.to_owned());
        for run in &mut runs {
            let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
            let is_held = facts.host_name.as_deref() == Some("held");
            facts.inherited.cgroup.version = Some("v2".to_owned());
            facts.inherited.cgroup.cpu_quota_cpus = is_held.then_some(0.5);
            facts.kernel.release =
                kernel(if facts.host_name.as_deref() == Some("slow") { "6.2" } else { "6.1" });
        }
        let found = fleet(&runs, &BY);
        let slow = verdict(&found, "slow");
        assert_eq!(slow.verdict, Verdict::Slower, "{slow:?}");
        let layers: Vec<&str> = slow.layers.iter().map(|layer| &*layer.layer).collect();
        assert_eq!(layers, ["memory"], "{slow:?}");
        assert!((0.07..0.13).contains(&slow.layers[0].worse), "{slow:?}");
        assert!(slow.deviations.iter().all(|row| row.of.point.probe == "memory.x"));
        assert_eq!(slow.facts, [("kernel".into(), "6.2".into(), "6.1".into())]);
        let held = verdict(&found, "held");
        assert_eq!(
            (held.verdict, own_quota(&held.facts)),
            (Verdict::Slower, Some("0.5 CPUs")),
            "{held:?}"
        );
        assert_eq!(verdict(&found, "noisy").verdict, Verdict::Undecided);
        let normal = found.cohorts[0].hosts.iter().filter(|host| host.verdict == Verdict::Normal);
        assert_eq!(normal.count(), 40);
        // A host with another processor is a cohort of its own, too small to judge.
        let facts = runs[0].attempts[0].hosts.get_mut(MEASURED).expect("its facts");
        facts.cpu.model_name = Some("another model".to_owned());
        let found = fleet(&runs, &BY);
        assert_eq!(found.cohorts.len(), 2);
        assert_eq!(verdict(&found, "n00").verdict, Verdict::Undecided);
        // Sorted by nothing, it is one cohort again.
        assert_eq!(fleet(&runs, &[]).cohorts.len(), 1);
    }

    #[test]
    fn boots_of_one_name_that_overlap_are_different_machines() {
        let found = |minutes: usize| {
            let mut random = fastrand::Rng::with_seed(5);
            let memory = |probe: &str| if probe == "memory.x" { 1.5 } else { 1.0 };
            let mut runs: Vec<Run> = (0..12)
                .map(|number| {
                    let slower = if number == 7 { memory } else { |_: &str| 1.0 };
                    let mut run = host(&mut random, "localhost", 0.01, slower);
                    run.attempts[0].boot = Some(format!("b007{number:04}-1234"));
                    run.run.started = format!("2026-01-01T{number:02}:00:00Z");
                    let finished = format!("2026-01-01T{number:02}:{minutes:02}:00Z");
                    run.end = Some(EndRow { finished, points: 16, failures: 0 });
                    run
                })
                .collect();
            // Measured twice, so that boots lie within each other, or not.
            if minutes == 59 {
                let mut again = runs[0].clone();
                let end = again.end.as_mut().unwrap();
                again.run.started = "2026-01-02T00:00:00Z".to_owned();
                end.finished = "2026-01-02T00:01:00Z".to_owned();
                runs.push(again);
            }
            fleet(&runs, &BY)
        };
        let hosts =
            |found: &Fleet| found.cohorts.iter().map(|cohort| cohort.hosts.len()).sum::<usize>();
        assert_eq!(hosts(&found(1)), 1, "it was restarted");
        let found = found(59);
        assert_eq!(hosts(&found), 12);
        assert_eq!(verdict(&found, "localhost (boot b0070007)").verdict, Verdict::Slower);
    }

    #[test]
    fn what_the_median_hides_the_mean_shows() {
        let mut random = fastrand::Rng::with_seed(7);
        let runs = (0..20).flat_map(|number| [number; 3]).map(|number| {
            let mut run = host(&mut random, &format!("n{number:02}"), 0.02, |_| 1.0);
            for row in &mut run.points {
                let cost = &mut row.metrics[0];
                let (late, times) = match (&*row.point.probe, number) {
                    // One batch in ten takes a thousand times as long.
                    ("memory.x", 11) => (5, 1000.0),
                    // One batch of a few hosts did, once.
                    ("memory.x", 12..16) if random.bool() => (1, 1000.0),
                    _ => (1, 1.1),
                };
                let share = f64::from(late) / 50.0;
                cost.n = 50;
                cost.mean = cost.median * (1.0 + share * (times - 1.0));
                cost.sd = Some(cost.median * (times - 1.0) * (share * (1.0 - share)).sqrt());
            }
            run
        });
        let found = fleet(&runs.collect::<Vec<_>>(), &BY);
        let odd: Vec<&Host> =
            found.cohorts[0].hosts.iter().filter(|host| host.verdict.is_odd()).collect();
        assert_eq!(odd.len(), 1, "{odd:?}");
        let late = odd[0];
        assert_eq!((&*late.name, late.verdict), ("n11", Verdict::Slower));
        let [layer] = &late.layers[..] else {
            panic!("{late:?}");
        };
        assert_eq!((&*layer.layer, layer.statistic, layer.rows), ("memory", Statistic::Mean, 8));
        let is_memory =
            |row: &Deviation| row.of.point.probe == "memory.x" && row.statistic == Statistic::Mean;
        assert!(!late.deviations.is_empty() && late.deviations.iter().all(is_memory), "{late:?}");
    }

    #[test]
    fn a_host_deviates_if_each_of_its_runs_does() {
        let run = |value| Reading { value, error: 0.1 };
        for (runs, expected) in [
            (&[1.0, 1.0, 1.0, 1.0][..], (1.0, 0.05)),
            (&[1.0, 3.0], (1.0, 1.0)),
            (&[-1.0, 1.0], (0.5, 1.0)),
            (&[0.0, -2.0], (0.0, 1.0)),
        ] {
            let runs: Vec<Reading> = runs.iter().map(|value| run(*value)).collect();
            let of = rows::together(&runs, 0.5);
            assert_eq!((of.value, of.error), expected, "{runs:?}");
        }
    }

    #[test]
    fn where_none_is_odd_one_fleet_in_twenty_names_a_host() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut wrong = 0;
        for _ in 0..100 {
            let runs: Vec<Run> = (0..30)
                .map(|number| host(&mut random, &format!("n{number:02}"), 0.02, |_| 1.0))
                .collect();
            let found = fleet(&runs, &BY);
            let mut hosts = found.cohorts.iter().flat_map(|cohort| &cohort.hosts);
            wrong += u32::from(hosts.any(|host| host.verdict.is_odd()));
        }
        assert!(wrong <= 10, "{wrong}");
    }
}

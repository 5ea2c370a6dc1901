//! What the hosts of a fleet cost, learnt from their runs, and which of its cohorts a host belongs to.
//!
//! A host that is qualified later is measured once. So it is held against single runs: their spread is that
//! between hosts and that between the runs of a host in one.

use super::{Facts, cohorts, rows, values_of};
use crate::hosts::{Named, known};
use costof_model::facts as machine;
use costof_model::fleet::UNKNOWN;
use costof_model::harmless::beginning;
use costof_model::metric::Estimate;
use costof_model::plural::counted;
use costof_model::reference::{Cohort, Reference, Row, SCHEMA};
use costof_model::rows::MetricOfPoint;
use costof_model::run_file::Run;
use costof_stats::median;
use costof_stats::outliers::{MIN_MEMBERS, Population, Reading};
use std::collections::BTreeMap;

/// At most this many cohorts are listed, and so much of a fact, in characters.
const LISTED: usize = 20;
const FACT: usize = 120;

/// The reference of these runs, its hosts sorted by these facts. A cohort or a row of too few hosts is left out.
pub fn reference(runs: &[Run], by: &[&str]) -> Reference {
    let of_facts = |(facts, hosts): (Facts, Vec<Named<'_>>)| Cohort {
        facts,
        hosts: hosts.len(),
        runs: hosts.iter().map(|(_, runs)| runs.len()).sum(),
        rows: rows::of_hosts(&hosts).filter_map(|of| row(&of)).collect(),
    };
    let mut cohorts: Vec<Cohort> = cohorts(runs, by).0.into_iter().map(of_facts).collect();
    cohorts.retain(|cohort| !cohort.rows.is_empty());
    cohorts.sort_by_key(|cohort| std::cmp::Reverse(cohort.hosts));
    Reference {
        reference_schema: SCHEMA,
        costof: env!("CARGO_PKG_VERSION").to_owned(),
        precision: usual_precision(runs),
        by: by.iter().map(|fact| (*fact).to_owned()).collect(),
        cohorts,
    }
}

/// `None` of too few hosts.
fn row(of: &rows::OfHosts<'_>) -> Option<Row> {
    if of.runs.len() < MIN_MEMBERS {
        return None;
    }
    let runs = || of.runs.values().flatten();
    let readings: Vec<Reading> = runs().map(|run| run.reading).collect();
    let launches: Vec<f64> = runs().map(|run| run.launch).collect();
    let population = Population::of(&readings)?;
    Some(Row {
        of: MetricOfPoint::new(of.row, of.estimate),
        method: of.row.method,
        better: of.estimate.better,
        usual: population.centre.exp(),
        spread: population.spread,
        degrees: population.degrees,
        error: population.error,
        launch: median(&launches)?,
        hosts: of.runs.len(),
        runs: readings.len(),
    })
}

fn usual_precision(runs: &[Run]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(&run.run.plan.precision).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or("default", |(precision, _)| precision).to_owned()
}

/// What a reference has for a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Candidates<'r> {
    /// Its cohort.
    One(&'r Cohort),
    /// Populations of hosts that are alike in their facts; a row shows to which one the host belongs.
    Populations(Populations<'r>),
}

/// Populations that a row separates: its usual value in each.
#[derive(Clone, Debug, PartialEq)]
pub struct Populations<'r>(Vec<(&'r Cohort, &'r Row)>);

impl<'r> Populations<'r> {
    /// Those of these cohorts that have the row that the last of their facts names; `None` if fewer
    /// than two have it, so that no row separates them.
    fn new(cohorts: &[&'r Cohort]) -> Option<Populations<'r>> {
        let (name, _) = cohorts.first()?.facts.last()?;
        let of_cohort = |cohort: &&'r Cohort| {
            let row = cohort.rows.iter().find(|row| row.of.name() == *name)?;
            Some((*cohort, row))
        };
        let found: Vec<(&Cohort, &Row)> = cohorts.iter().filter_map(of_cohort).collect();
        let differ = found.windows(2).any(|pair| pair[0].1.usual != pair[1].1.usual);
        (differ && found.len() > 1).then_some(Populations(found))
    }

    /// The row that separates them.
    pub fn row(&self) -> &'r Row {
        self.0[0].1
    }

    /// The population whose usual value is nearest to this one by its ratio, if the whole interval says
    /// so.
    pub fn nearest(&self, measured: &Estimate) -> Option<&'r Cohort> {
        let nearest = |value: f64| {
            let off = |(_, row): &&(&Cohort, &Row)| (value / row.usual).ln().abs();
            let nearest = self.0.iter().min_by(|one, other| off(one).total_cmp(&off(other)));
            nearest.map(|(cohort, _)| *cohort)
        };
        let (low, high) = measured.usable_interval()?;
        nearest(low).filter(|cohort| nearest(high) == Some(*cohort))
    }
}

/// The cohorts of a reference for a host with these facts, or the one with this number, from 1.
///
/// # Errors
/// There is none, or more than one that no row separates: the cohorts, and in which facts the nearest
/// differs.
pub fn choose<'r>(
    reference: &'r Reference,
    facts: &machine::Facts,
    number: Option<usize>,
) -> Result<Candidates<'r>, String> {
    let all = &reference.cohorts;
    let listed = || {
        let named = (1..).zip(all).take(LISTED).map(|(number, cohort)| {
            let facts =
                cohort.facts.iter().map(|(what, how)| beginning(&format!("{what} {how}"), FACT));
            let facts = facts.collect::<Vec<_>>().join(", ");
            format!("\n  {number}: {}, {facts}", counted(cohort.hosts, "host"))
        });
        format!("; its cohorts, for --cohort:{}", named.collect::<String>())
    };
    if let Some(number) = number {
        let chosen = number.checked_sub(1).and_then(|at| all.get(at)).map(Candidates::One);
        return chosen.ok_or_else(|| format!("it has no cohort {number}{}", listed()));
    }
    let by: Vec<&str> = reference.by.iter().map(String::as_str).collect();
    let own = values_of(&known(facts), &by);
    let differ = |cohort: &Cohort| -> Vec<String> {
        let own = own.iter().filter(|fact| !cohort.facts.contains(fact));
        own.map(|(what, how)| {
            let there = cohort.facts.iter().find(|(other, _)| other == what);
            let there = there.map_or(UNKNOWN, |(_, how)| how);
            let fact = format!("{what} is {how} here and {there} there");
            beginning(&fact, FACT)
        })
        .collect()
    };
    let same: Vec<&Cohort> = all.iter().filter(|it| differ(it).is_empty()).collect();
    match (&same[..], all.iter().map(differ).min_by_key(Vec::len)) {
        ([one], _) => Ok(Candidates::One(one)),
        (_, None) => Err("it has no cohort: a row needs five hosts".to_owned()),
        ([], Some(nearest)) => Err(format!(
            "it has no hosts like this one; of the nearest, {}{}",
            beginning(&nearest.join(", "), 10 * FACT),
            listed()
        )),
        (several, _) => {
            let populations = Populations::new(several).map(Candidates::Populations);
            populations.ok_or_else(|| {
                format!(
                    "it has {} populations of hosts like this one, and no row that separates them{}",
                    several.len(),
                    listed()
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BY;
    use super::super::tests::host;
    use super::*;
    use costof_model::noise::MEASURED;
    use costof_model::testing::estimate;

    #[test]
    fn a_row_shows_to_which_of_two_populations_a_host_belongs() {
        let mut random = fastrand::Rng::with_seed(9);
        let runs: Vec<Run> = (0..40)
            .map(|number| {
                let slower = |probe: &str| if probe == "memory.x" { 1.5 } else { 1.0 };
                let slower: fn(&str) -> f64 = if number % 2 == 0 { |_| 1.0 } else { slower };
                host(&mut random, &format!("n{number}"), 0.005, slower)
            })
            .collect();
        let reference = reference(&runs, &BY);
        assert_eq!(reference.cohorts.len(), 2);
        let facts = &runs[0].attempts[0].hosts[MEASURED];
        let Ok(Candidates::Populations(found)) = choose(&reference, facts, None) else {
            panic!("two populations, which a row separates");
        };
        let usual = |cohort: &Cohort| {
            let mut rows = cohort.rows.iter();
            let row = rows.find(|row| row.of == found.row().of);
            row.expect("the row").usual
        };
        let near = |ns: f64| found.nearest(&estimate("cost", ns)).map(usual);
        let (one, other) = (usual(found.0[0].0), usual(found.0[1].0));
        assert_eq!((near(one), near(other)), (Some(one), Some(other)));
        // An interval that reaches to both shows nothing.
        assert_eq!(near((one * other).sqrt()), None);
        let chosen = choose(&reference, facts, Some(2));
        assert_eq!(chosen, Ok(Candidates::One(&reference.cohorts[1])));
    }
}

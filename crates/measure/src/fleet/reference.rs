//! What the hosts of a fleet cost, learnt from their runs, and which of its cohorts a host belongs to.
//!
//! A host that is qualified later is measured once. So it is held against single runs: their spread is that
//! between hosts and that between the runs of a host in one.

use super::{Facts, Named, cohorts, known, rows, values_of};
use costof_model::facts as machine;
use costof_model::fleet::UNKNOWN;
use costof_model::harmless::beginning;
use costof_model::plural::counted;
use costof_model::reference::{Cohort, Reference, Row, SCHEMA};
use costof_model::rows::MetricOfPoint;
use costof_model::run_file::Run;
use costof_stats::median;
use costof_stats::outliers::{LEAST_MEMBERS, Population, Reading};
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
    let mut cohorts: Vec<Cohort> = cohorts(runs, by).into_iter().map(of_facts).collect();
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
    if of.runs.len() < LEAST_MEMBERS {
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
    most.map_or("default", |(precision, _)| precision)
        .to_owned()
}

/// The cohort of a reference for a host with these facts, or the one with this number, from 1.
///
/// # Errors
/// There is none, or more than one: the cohorts, and in which facts the nearest differs.
pub fn choose<'r>(
    reference: &'r Reference,
    facts: &machine::Facts,
    number: Option<usize>,
) -> Result<&'r Cohort, String> {
    let all = &reference.cohorts;
    let listed = || {
        let named = (1..).zip(all).take(LISTED).map(|(number, cohort)| {
            let facts = cohort.facts.iter();
            let facts = facts.map(|(what, how)| beginning(&format!("{what} {how}"), FACT));
            let facts = facts.collect::<Vec<_>>().join(", ");
            format!("\n  {number}: {}, {facts}", counted(cohort.hosts, "host"))
        });
        format!("; its cohorts, for --cohort:{}", named.collect::<String>())
    };
    if let Some(number) = number {
        let chosen = number.checked_sub(1).and_then(|at| all.get(at));
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
        ([one], _) => Ok(one),
        (_, None) => Err("it has no cohort: a row needs five hosts".to_owned()),
        ([], Some(nearest)) => Err(format!(
            "it has no hosts like this one; of the nearest, {}{}",
            beginning(&nearest.join(", "), 10 * FACT),
            listed()
        )),
        (several, _) => Err(format!(
            "it has {} populations of hosts like this one, and only measuring shows to which it belongs{}",
            several.len(),
            listed()
        )),
    }
}

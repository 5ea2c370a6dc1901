//! Populations of hosts that are alike by their facts: cohorts of their own, not outliers.
//!
//! Two groups of values in one row may be a state that differs from run to run, such as where code lies. So two
//! rows must part the hosts alike.

use super::{Facts, groups, of_hosts};
use crate::compare::groups::Units;
use crate::hosts::Named;
use costof_model::comparison::{Comparison, Level};
use costof_model::rows::MetricOfPoint;
use costof_stats::outliers::parting;
use std::collections::BTreeMap;

/// Two rows part hosts alike if this share of the hosts that have both is on the same sides.
const ALIKE: f64 = 0.95;

/// A row whose values lie in two groups.
struct Parted {
    row: String,
    /// Between the groups.
    at: String,
    is_above: BTreeMap<usize, bool>,
}

impl Parted {
    /// Whether the other row parts the hosts as this one does. What is slower in one may be faster in the other.
    fn is_like(&self, other: &Parted) -> bool {
        let both =
            self.is_above.iter().filter_map(|(host, side)| Some(side == other.is_above.get(host)?));
        let both: Vec<bool> = both.collect();
        let same = both.iter().filter(|is_same| **is_same).count();
        same.max(both.len() - same) as f64 > ALIKE * both.len() as f64
    }

    fn side(&self, host: usize) -> String {
        match self.is_above.get(&host) {
            Some(true) => format!("above {}", self.at),
            Some(false) => format!("up to {}", self.at),
            None => "unknown".to_owned(),
        }
    }
}

/// These hosts as one cohort, or as the two populations into which rows part them, with what differs between these.
pub(super) fn populations(
    facts: Facts,
    hosts: Vec<Named<'_>>,
) -> (Vec<(Facts, Vec<Named<'_>>)>, Option<Comparison>) {
    let Some(parted) = most_alike(&hosts) else {
        return (vec![(facts, hosts)], None);
    };
    let above = parted.is_above.iter().filter(|(_, is_above)| **is_above);
    let second = groups::in_order(&hosts, above.map(|(host, _)| *host).collect());
    let mut comparison =
        groups::compared(&Units::new(hosts.clone(), Level::Hosts), hosts.len(), &second);
    if let Some(groups) = &mut comparison.groups {
        groups.row = Some(parted.row.clone());
    }
    // Groups that a fact parts are found by it.
    let comparison = Some(comparison).filter(|comparison| comparison.facts.is_empty());
    let mut sides: BTreeMap<String, Vec<Named<'_>>> = BTreeMap::new();
    for (host, named) in hosts.into_iter().enumerate() {
        sides.entry(parted.side(host)).or_default().push(named);
    }
    let of_side = |(side, hosts)| {
        let facts = facts.iter().cloned().chain([(parted.row.clone(), side)]);
        (facts.collect(), hosts)
    };
    (sides.into_iter().map(of_side).collect(), comparison)
}

/// The row that parts the hosts as most others do, if another does.
fn most_alike(hosts: &[Named<'_>]) -> Option<Parted> {
    let rows = of_hosts(hosts).filter_map(|row| {
        let readings = row.of_each_host()?;
        let at = parting(&readings.values().copied().collect::<Vec<_>>())?;
        Some(Parted {
            row: MetricOfPoint::new(row.row, row.estimate).name(),
            at: row.estimate.unit.display(at.exp()),
            is_above: readings.iter().map(|(host, it)| (*host, it.value > at)).collect(),
        })
    });
    let rows: Vec<Parted> = rows.collect();
    let alike = |row: &Parted| rows.iter().filter(|other| row.is_like(other)).count();
    let alike: Vec<usize> = rows.iter().map(alike).collect();
    let most =
        (alike.iter().copied().zip(rows)).max_by_key(|(alike, row)| (*alike, row.is_above.len()));
    most.filter(|(alike, _)| *alike > 1).map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, verdict};
    use super::super::{BY, fleet};
    use costof_model::fleet::Verdict;
    use costof_model::run_file::Run;

    /// Forty hosts, the memory of each this many times as dear, and one host whose network is slower.
    fn cohorts(memory: fn(usize) -> bool) -> (usize, usize) {
        let mut random = fastrand::Rng::with_seed(9);
        let of_memory = |probe: &str| if probe == "memory.x" { 1.3 } else { 1.0 };
        let mut runs: Vec<Run> = (0..40)
            .map(|number| {
                let slower = if memory(number) { of_memory } else { |_: &str| 1.0 };
                host(&mut random, &format!("n{number:02}"), 0.01, slower)
            })
            .collect();
        let of_net = |probe: &str| if probe == "net.x" { 1.3 } else { 1.0 };
        runs.push(host(&mut random, "slow", 0.01, of_net));
        let found = fleet(&runs, &BY);
        assert_eq!(verdict(&found, "slow").verdict, Verdict::Slower);
        let hosts = found.cohorts.iter().flat_map(|cohort| &cohort.hosts);
        let odd = hosts.filter(|host| host.verdict.is_odd()).count();
        (found.cohorts.len(), odd)
    }

    #[test]
    fn two_populations_are_two_cohorts_and_few_hosts_are_odd() {
        assert_eq!(cohorts(|number| number % 2 == 0), (2, 1));
        assert_eq!(cohorts(|number| number % 3 == 0), (2, 1));
        assert_eq!(cohorts(|number| number % 20 == 0), (1, 3));
        assert_eq!(cohorts(|_| false), (1, 1));
    }
}

//! Two groups of hosts: by how much the second is slower than the first, layer by layer and row by row.
//!
//! A host counts once, whatever it has of runs and launches, so that one host's quirk is not its group's. The interval is
//! Welch's t on the logarithms, over hosts.

use super::rows::{OfHosts, of_hosts};
use super::{Facts, HALF_WIDTH, Named, facts_of, values_of};
use crate::compare::machine_facts;
use costof_model::fleet::{GroupChange, Parting};
use costof_model::rows::MetricOfPoint;
use costof_stats::{CONFIDENCE, Difference, median};
use std::collections::{BTreeMap, BTreeSet};

/// A group has at least this many hosts.
const HOSTS_MIN: usize = 3;
/// A group that is found by a fact has at least this share of its cohort's hosts.
const SHARE_MIN: f64 = 0.1;
/// A difference below this ratio is no change.
const MIN_RATIO: f64 = 1.01;
/// A layer is compared from this many rows on.
const LAYER_ROWS: usize = 2;
/// Hosts are parted by a fact if this share of them lies on its side.
const ALIKE: f64 = 0.95;

/// The rows of these hosts.
pub(super) fn rows(hosts: &[Named<'_>]) -> Vec<RowOfHosts> {
    of_hosts(hosts).map(RowOfHosts::new).collect()
}

/// These hosts with these [`rows`] as two groups, with what differs between them. `second` are the positions of those in
/// the second group.
pub(super) fn parting(
    hosts: &[Named<'_>],
    rows: &[RowOfHosts],
    second: &BTreeSet<usize>,
    row: Option<String>,
) -> Parting {
    let mut layers: BTreeMap<&str, Vec<&RowOfHosts>> = BTreeMap::new();
    for row in rows {
        layers.entry(&row.layer).or_default().push(row);
    }
    let layers = layers.into_iter().filter_map(|(name, rows)| {
        let worse = (0..hosts.len()).filter_map(|host| {
            let worse: Vec<f64> =
                rows.iter().filter_map(|row| row.worse.get(&host).copied()).collect();
            let is_enough = worse.len() >= LAYER_ROWS;
            is_enough.then(|| Some((host, median(&worse)?)))?
        });
        change(name.to_owned(), rows.len(), &worse.collect(), second)
    });
    let of_rows = rows.iter().filter_map(|row| change(row.name.clone(), 1, &row.worse, second));
    let mut rows: Vec<GroupChange> = of_rows.collect();
    rows.sort_by(|one, other| other.worse.abs().total_cmp(&one.worse.abs()));
    Parting {
        facts: facts(hosts, second),
        row,
        hosts: (hosts.len() - second.len(), second.len()),
        layers: layers.collect(),
        rows,
    }
}

/// The groups into which facts of two values part these hosts, if a layer of one surely costs more than that of the other:
/// of twenty cohorts in which no fact matters, one has such groups. Facts that part the hosts alike are named together.
pub(super) fn by_facts(hosts: &[Named<'_>]) -> Vec<Parting> {
    let mut parted: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
    let all: Vec<BTreeMap<String, String>> = hosts.iter().map(|(_, runs)| facts_of(runs)).collect();
    let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
    for what in names {
        let mut sides: BTreeMap<Facts, BTreeSet<usize>> = BTreeMap::new();
        for (host, facts) in all.iter().enumerate() {
            sides.entry(values_of(facts, &[what])).or_default().insert(host);
        }
        let least = (hosts.len() as f64 * SHARE_MIN).max(HOSTS_MIN as f64);
        let is_enough = sides.values().all(|side| side.len() as f64 >= least);
        if let [_, second] = &sides.into_values().collect::<Vec<_>>()[..]
            && is_enough
        {
            parted.insert(in_order(hosts, second.clone()));
        }
    }
    if parted.is_empty() {
        return Vec::new();
    }
    let rows = rows(hosts);
    let partings: Vec<Parting> =
        parted.iter().map(|second| parting(hosts, &rows, second, None)).collect();
    let tests: usize = partings.iter().map(|parting| parting.layers.len()).sum();
    let is_rare = |layer: &GroupChange| layer.p < (1.0 - CONFIDENCE) / tests as f64;
    partings.into_iter().filter(|parting| parting.layers.iter().any(is_rare)).collect()
}

/// The side of these two that began to be measured later, so that a change reads from old to new.
pub(super) fn in_order(hosts: &[Named<'_>], second: BTreeSet<usize>) -> BTreeSet<usize> {
    let first: BTreeSet<usize> = (0..hosts.len()).filter(|host| !second.contains(host)).collect();
    let began = |side: &BTreeSet<usize>| {
        let runs = side.iter().flat_map(|host| &hosts[*host].1);
        runs.map(|run| run.run.started.clone()).min()
    };
    if began(&first) <= began(&second) { second } else { first }
}

/// The facts in which nearly all hosts of one group have one value and those of the other another.
fn facts(hosts: &[Named<'_>], second: &BTreeSet<usize>) -> Vec<(String, String, String)> {
    let all: Vec<BTreeMap<String, String>> = hosts.iter().map(|(_, runs)| facts_of(runs)).collect();
    // The kernel and the processor first, what they were configured with last.
    let names = hosts.iter().flat_map(|(_, runs)| runs.last()).find_map(|run| run.facts());
    let names = names.map(machine_facts).unwrap_or_default();
    let usual = |what: &str, of_second: bool| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let side = (0..hosts.len()).filter(|host| second.contains(host) == of_second);
        let side: Facts = side.flat_map(|host| values_of(&all[host], &[what])).collect();
        for (_, value) in &side {
            *counts.entry(value.clone()).or_default() += 1;
        }
        let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        (count as f64 >= ALIKE * side.len() as f64).then_some(value)
    };
    let apart = names.into_iter().filter_map(|(what, _)| {
        let (one, other) = (usual(&what, false)?, usual(&what, true)?);
        (one != other).then_some((what, one, other))
    });
    apart.collect()
}

/// A row: how much worse than the middle host each is, as a logarithm.
pub(super) struct RowOfHosts {
    name: String,
    layer: String,
    worse: BTreeMap<usize, f64>,
}

impl RowOfHosts {
    fn new(of: OfHosts<'_>) -> RowOfHosts {
        let value = |runs: &Vec<super::rows::OfRun>| {
            runs.iter().map(|run| run.reading.value).sum::<f64>() / runs.len() as f64
        };
        let values: BTreeMap<usize, f64> =
            of.runs.iter().map(|(host, runs)| (*host, value(runs))).collect();
        let centre = median(&values.values().copied().collect::<Vec<_>>()).unwrap_or(0.0);
        let better = of.estimate.better;
        RowOfHosts {
            name: MetricOfPoint::new(of.row, of.estimate).name(),
            layer: of.row.point.layer().to_owned(),
            worse: values
                .into_iter()
                .map(|(host, value)| (host, better.worse(value - centre)))
                .collect(),
        }
    }
}

/// By how much the second group is worse; `None` with too few hosts on a side.
fn change(
    name: String,
    rows: usize,
    worse: &BTreeMap<usize, f64>,
    second: &BTreeSet<usize>,
) -> Option<GroupChange> {
    let of_side = |of_second: bool| -> Vec<f64> {
        let side = worse.iter().filter(|(host, _)| second.contains(host) == of_second);
        side.map(|(_, worse)| *worse).collect()
    };
    let (one, two) = (of_side(false), of_side(true));
    if one.len().min(two.len()) < HOSTS_MIN {
        return None;
    }
    let difference = Difference::welch(&one, &two)?;
    let half = difference.half_width(CONFIDENCE).unwrap_or(HALF_WIDTH * difference.error);
    let share = |log: f64| log.exp_m1();
    let at = difference.of_means;
    let ci95 = (share(at - half), share(at + half));
    Some(GroupChange { name, rows, worse: share(at), ci95, p: difference.p(MIN_RATIO.ln()) })
}

#[cfg(test)]
mod tests {
    use super::super::tests::host;
    use super::super::{BY, fleet};
    use costof_model::noise::MEASURED;
    use costof_model::run_file::Run;

    #[test]
    fn a_fact_that_costs_nothing_is_hardly_ever_named() {
        let mut random = fastrand::Rng::with_seed(12);
        let mut named = 0;
        for _ in 0..100 {
            let runs = (0..20).map(|number| {
                let mut run = host(&mut random, &format!("n{number:02}"), 0.02, |_| 1.0);
                let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
                facts.kernel.release = Some(format!("6.{}", number % 2));
                facts.cpu.microcode = Some(format!("0x{}", number / 4 % 2));
                run
            });
            named += fleet(&runs.collect::<Vec<Run>>(), &BY).partings.len();
        }
        assert!(named <= 10, "{named} of 100");
    }

    #[test]
    fn the_fact_that_parts_two_populations_is_named_with_what_it_costs() {
        let mut random = fastrand::Rng::with_seed(11);
        let new = |probe: &str| if probe == "memory.x" { 1.12 } else { 1.0 };
        let runs = (0..20).map(|number| {
            let is_new = number % 2 == 1;
            let slower = if is_new { new } else { |_: &str| 1.0 };
            let mut run = host(&mut random, &format!("n{number:02}"), 0.005, slower);
            let facts = run.attempts[0].hosts.get_mut(MEASURED).expect("its facts");
            let [release, microcode] = if is_new { ["6.20", "0x2"] } else { ["6.18", "0x1"] };
            facts.kernel.release = Some(release.to_owned());
            facts.cpu.microcode = Some(microcode.to_owned());
            // A fact in which hosts differ anyway.
            facts.kernel.command_line = Some(format!("root={number}"));
            run.run.started = format!("2026-01-{:02}T00:00:00Z", if is_new { 2 } else { 1 });
            run
        });
        let found = fleet(&runs.collect::<Vec<Run>>(), &BY);
        let [parting] = &found.partings[..] else {
            panic!("{found:?}");
        };
        let named: Vec<(&str, &str, &str)> =
            parting.facts.iter().map(|(what, one, other)| (&**what, &**one, &**other)).collect();
        assert_eq!(named, [("kernel", "6.18", "6.20"), ("microcode", "0x1", "0x2")]);
        assert_eq!(parting.hosts, (10, 10));
        let of = |name: &str| parting.layers.iter().find(|layer| layer.name == name).unwrap();
        let (memory, net) = (of("memory"), of("net"));
        assert!((0.10..0.14).contains(&memory.worse), "{memory:?}");
        assert!(memory.ci95.0 > 0.08 && memory.ci95.1 < 0.16, "{memory:?}");
        assert!(net.ci95.0 > -0.05 && net.ci95.1 < 0.05, "{net:?}");
        assert!(parting.rows[0].name.contains("memory.x"), "{:?}", parting.rows[0]);
    }
}

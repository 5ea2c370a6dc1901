//! Facts of two values that part the hosts of a cohort: by how much the second group costs more than the first.

use super::{Facts, values_of};
use crate::compare::MATTERS;
use crate::compare::groups::Units;
use crate::hosts::{Named, facts_of};
use costof_model::comparison::{Comparison, Level};
use costof_stats::CONFIDENCE;
use std::collections::{BTreeMap, BTreeSet};

/// A group that is found by a fact has at least this many hosts.
const HOSTS_MIN: usize = 3;
/// And at least this share of its cohort's hosts.
const SHARE_MIN: f64 = 0.1;

/// The groups into which facts of two values part these hosts, if a layer of one surely costs more than that of the other:
/// of twenty cohorts in which no fact matters, one has such groups. Facts that part the hosts alike are named together.
pub(super) fn by_facts(hosts: &[Named<'_>]) -> Vec<Comparison> {
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
    let units = Units::new(hosts.to_vec(), Level::Hosts);
    let found: Vec<Comparison> =
        parted.iter().map(|second| compared(&units, hosts.len(), second)).collect();
    let tests: usize = found.iter().map(|comparison| comparison.layers.len()).sum();
    let least = (1.0 - CONFIDENCE) / tests as f64;
    let is_sure = |comparison: &Comparison| comparison.layers.iter().any(|layer| layer.p < least);
    found.into_iter().filter(is_sure).collect()
}

/// Compares these hosts, of which so many are in the cohort, with the others of it.
pub(super) fn compared(units: &Units<'_>, hosts: usize, second: &BTreeSet<usize>) -> Comparison {
    let (second, first): (Vec<usize>, Vec<usize>) =
        (0..hosts).partition(|host| second.contains(host));
    units.compare([&first, &second], false, MATTERS)
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

#[cfg(test)]
mod tests {
    use super::super::tests::host;
    use super::super::{BY, fleet};
    use costof_model::comparison::Verdict;
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
        let named = parting.facts.iter().map(|fact| {
            (&*fact.what, fact.before.as_deref().unwrap(), fact.after.as_deref().unwrap())
        });
        let named: Vec<(&str, &str, &str)> = named.collect();
        assert_eq!(named, [("kernel", "6.18", "6.20"), ("microcode", "0x1", "0x2")]);
        let groups = parting.groups.as_ref().unwrap();
        assert_eq!((groups.before, groups.after), (10, 10));
        let of = |name: &str| parting.layers.iter().find(|layer| layer.layer == name).unwrap();
        let (memory, net) = (of("memory"), of("net"));
        assert!((0.10..0.14).contains(&memory.worse), "{memory:?}");
        assert!(memory.ci95.0 > 0.08 && memory.ci95.1 < 0.16, "{memory:?}");
        assert!(net.ci95.0 > -0.05 && net.ci95.1 < 0.05, "{net:?}");
        let worse = parting.rows.iter().filter(|row| row.verdict == Verdict::Worse);
        let worse: Vec<_> = worse.map(|row| &*row.point.probe).collect();
        assert!(worse.len() > 4 && worse.iter().all(|probe| *probe == "memory.x"), "{worse:?}");
    }
}

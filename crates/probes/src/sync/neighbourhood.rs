//! How near two CPUs are, as the machine claims it.

use crate::prelude::*;
use costof_model::CpuSet;
use costof_model::facts::CacheKind;

/// What two CPUs share, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Neighbourhood {
    /// Two threads of one core.
    Core,
    /// Two cores that share the last cache level.
    LastCache,
    /// Two last-level caches of one socket, or of a machine that names no sockets.
    Socket,
    /// Nothing but the machine.
    Machine,
    /// The machine does not say which caches they share.
    Unknown,
}

/// The neighbourhood of two CPUs.
pub(crate) fn between(facts: &Facts, from: u64, to: u64) -> Neighbourhood {
    let share = |sets: &[CpuSet]| {
        sets.iter().any(|set| set.contains(from as u32) && set.contains(to as u32))
    };
    let last = facts.last_level_cache().map_or(0, |cache| cache.level);
    // Caches of one level that differ in size are entries of their own.
    let mut last_caches = facts
        .cpu
        .caches
        .iter()
        .filter(|cache| cache.level == last && cache.kind != CacheKind::Instruction)
        .filter(|cache| !cache.shared_by.is_empty())
        .peekable();
    if share(&facts.cpu.cores) {
        Neighbourhood::Core
    } else if facts.cpu.sockets.len() > 1 && !share(&facts.cpu.sockets) {
        Neighbourhood::Machine
    } else if last_caches.peek().is_none() {
        Neighbourhood::Unknown
    } else if last_caches.any(|cache| share(&cache.shared_by)) {
        Neighbourhood::LastCache
    } else {
        Neighbourhood::Socket
    }
}

/// One pair for each neighbourhood of the run's first CPU, nearest first, and of several equally
/// near ones the one that the run uses first. A line goes both ways, so the lower number always
/// comes first.
pub(crate) fn pairs(facts: &Facts) -> Vec<(Neighbourhood, u64, u64)> {
    let mut processors = facts.planned_cpus().into_iter().map(u64::from);
    let Some(first) = processors.next() else {
        return Vec::new();
    };
    let mut pairs: Vec<(Neighbourhood, u64, u64)> = processors
        .map(|other| (between(facts, first, other), first.min(other), first.max(other)))
        .collect();
    pairs.sort_by_key(|(neighbourhood, ..)| *neighbourhood);
    pairs.dedup_by_key(|(neighbourhood, ..)| *neighbourhood);
    pairs
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use costof_model::facts::Cache;

    pub(crate) fn sets(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| CpuSet::parse(list).unwrap()).collect()
    }

    /// Two sockets with two last-level caches each, of two cores with two threads each.
    pub(crate) fn two_sockets() -> Facts {
        let cache = |size_bytes, lists: &[&str]| Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes,
            shared_by: sets(lists),
            ..Cache::default()
        };
        let mut facts = Facts::default();
        facts.cpu.online = CpuSet::parse("0-15").unwrap();
        facts.cpu.cores = sets(&["0,8", "1,9", "2,10", "3,11", "4,12", "5,13", "6,14", "7,15"]);
        facts.cpu.sockets = sets(&["0-3,8-11", "4-7,12-15"]);
        // One of the caches is larger.
        facts.cpu.caches = vec![
            cache(96 << 20, &["0-1,8-9"]),
            cache(32 << 20, &["2-3,10-11", "4-5,12-13", "6-7,14-15"]),
        ];
        facts
    }

    #[test]
    fn each_neighbourhood_has_its_nearest_pair() {
        use Neighbourhood::{Core, LastCache, Machine, Socket, Unknown};
        let facts = two_sockets();
        assert_eq!(
            pairs(&facts),
            [(Core, 0, 8), (LastCache, 0, 1), (Socket, 0, 2), (Machine, 0, 4)]
        );
        assert_eq!(between(&facts, 11, 2), LastCache, "a cache of another entry");
        let mut facts = Facts::default();
        assert_eq!(pairs(&facts), []);
        facts.cpu.online = CpuSet::parse("3").unwrap();
        assert_eq!(pairs(&facts), []);
        facts.cpu.online = CpuSet::parse("3,5-6").unwrap();
        assert_eq!(pairs(&facts), [(Unknown, 3, 5)]);
    }

    #[test]
    fn a_run_has_pairs_of_its_own_processors_in_its_order() {
        use Neighbourhood::{Core, LastCache, Machine, Socket};
        let mut facts = two_sockets();
        facts.run_cpus = vec![5, 1, 4, 6, 3, 0, 13];
        assert_eq!(
            pairs(&facts),
            [(Core, 5, 13), (LastCache, 4, 5), (Socket, 5, 6), (Machine, 1, 5)]
        );
        facts.run_cpus = vec![2];
        assert_eq!(pairs(&facts), []);
    }
}

//! In which order the CPUs of a machine are measured, and which may take each other's place.

use std::cmp::Reverse;

use super::{CpuSet, Facts};
use crate::bill::Distance;

impl Facts {
    /// The last of the CPUs of the fastest kind, because the first ones usually handle the machine's
    /// interrupts. If the kernel reports the capacity of CPUs, the fastest kind is the one with the highest.
    /// Otherwise it is the first kind in the facts, which name the fast ones first (Intel's core, atom,
    /// lowpower).
    pub fn quietest(&self, allowed: &[usize]) -> usize {
        let speed = |cpu: usize| {
            let mut kinds = self.cpu.core_kinds.iter().enumerate();
            let (position, kind) = kinds.find(|(_, kind)| kind.cpus.contains(cpu as u32))?;
            Some((kind.capacity.unwrap_or(0), Reverse(position)))
        };
        let cpus = allowed.iter().copied();
        cpus.max_by_key(|cpu| (speed(*cpu), *cpu)).unwrap_or(0)
    }

    /// First `first`, then the CPUs of its kind that share its last-level cache, then those of its memory node
    /// and of its socket, then the others of its kind, then the other kinds. A CPU that shares a core with an
    /// earlier one in the list comes last, since the two share execution units.
    pub fn nearest_first(&self, first: usize, allowed: &[usize]) -> Vec<usize> {
        let is_second_thread = |cpu: usize| {
            let comes_before = |other: &&usize| before(**other, cpu, first);
            let mut others = allowed.iter().filter(comes_before);
            others.any(|other| share(&self.cpu.cores, *other, cpu))
        };
        let mut others = allowed.to_vec();
        others.retain(|cpu| *cpu != first);
        others.sort_by_cached_key(|cpu| (is_second_thread(*cpu), self.apart(first, *cpu), *cpu));
        std::iter::once(first).chain(others).collect()
    }

    /// Those of these CPUs that may take the place of one of them: of its kind of core, with caches of the same
    /// sizes, and at its memory node and socket, which have the same distance to memory and devices.
    pub fn interchangeable(&self, cpu: usize, allowed: &[usize]) -> Vec<usize> {
        let caches = |cpu: usize| -> Vec<bool> {
            let has = |set: &CpuSet| set.contains(cpu as u32);
            let caches = self.cpu.caches.iter().map(|cache| cache.shared_by.iter().any(has));
            caches.collect()
        };
        let is_alike = |other: &usize| {
            let [of_another_kind, _, another_node, another_socket] = self.apart(cpu, *other);
            let is_near = !of_another_kind
                && (self.numa.is_empty() || !another_node)
                && (self.cpu.sockets.is_empty() || !another_socket);
            *other == cpu || is_near && caches(cpu) == caches(*other)
        };
        allowed.iter().copied().filter(is_alike).collect()
    }

    /// Whether two pairs of CPUs are equally far apart, as far as the machine reports it.
    pub fn are_equally_far(&self, [one, other]: [usize; 2], [third, fourth]: [usize; 2]) -> bool {
        self.apart(one, other) == self.apart(third, fourth)
            && share(&self.cpu.cores, one, other) == share(&self.cpu.cores, third, fourth)
    }

    /// How far two CPUs are apart, as far as the machine reports it.
    pub fn distance(&self, one: usize, other: usize) -> Distance {
        let [_, another_cache, another_node, _] = self.apart(one, other);
        match () {
            () if one == other => Distance::SameCpu,
            () if share(&self.cpu.cores, one, other) => Distance::Sibling,
            () if !another_cache => Distance::SameCache,
            () if self.numa.is_empty() || !another_node => Distance::SameNode,
            () => Distance::OtherNode,
        }
    }

    /// Whether two CPUs are of two kinds, share no last-level cache, no memory node, no socket, in this order.
    fn apart(&self, one: usize, other: usize) -> [bool; 4] {
        let last_level = self.last_level_cache().map(|cache| cache.level);
        let last_level = self.cpu.caches.iter().filter(|cache| Some(cache.level) == last_level);
        let last_level: Vec<CpuSet> =
            last_level.flat_map(|cache| cache.shared_by.clone()).collect();
        let kinds = &self.cpu.core_kinds;
        let kinds: Vec<CpuSet> = kinds.iter().map(|kind| kind.cpus.clone()).collect();
        let nodes: Vec<CpuSet> = self.numa.iter().map(|node| node.cpus.clone()).collect();
        [
            !kinds.is_empty() && !share(&kinds, one, other),
            !share(&last_level, one, other),
            !share(&nodes, one, other),
            !share(&self.cpu.sockets, one, other),
        ]
    }
}

/// Whether one of the sets has both CPUs.
fn share(sets: &[CpuSet], a: usize, b: usize) -> bool {
    let both = |set: &CpuSet| set.contains(a as u32) && set.contains(b as u32);
    sets.iter().any(both)
}

/// Whether `other` of the same core comes before `cpu` in the list.
fn before(other: usize, cpu: usize, first: usize) -> bool {
    other != cpu && (other == first || (cpu != first && other < cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Cache, CacheKind, CoreKind, NumaNode};

    #[test]
    fn of_several_kinds_the_fastest_is_measured() {
        let kind = |name: &str, cpus: &str, capacity| CoreKind {
            name: name.to_owned(),
            cpus: CpuSet::parse(cpus).unwrap(),
            capacity,
        };
        let allowed: Vec<usize> = (0..8).collect();
        let mut facts = Facts::default();
        assert_eq!(facts.quietest(&allowed), 7);
        // Hybrid Intel, whose kernel tells no capacity, or the same one.
        for capacity in [None, Some(1024)] {
            facts.cpu.core_kinds = vec![
                kind("core", "0-3", capacity),
                kind("atom", "4-5", capacity),
                kind("lowpower", "6-7", capacity),
            ];
            assert_eq!(facts.quietest(&allowed), 3);
        }
        // Arm lists the small ones first, and tells.
        facts.cpu.core_kinds =
            vec![kind("little", "0-3", Some(400)), kind("big", "4-6", Some(1024))];
        assert_eq!(facts.quietest(&allowed), 6);
    }

    fn sets(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| CpuSet::parse(list).unwrap()).collect()
    }

    #[test]
    fn only_cpus_of_one_kind_cache_and_node_take_each_others_place() {
        let allowed: Vec<usize> = (0..10).collect();
        let mut facts = Facts::default();
        assert_eq!(facts.interchangeable(3, &allowed), allowed, "nothing is known");
        facts.numa = ["0-7", "8-9"]
            .map(|cpus| NumaNode { cpus: CpuSet::parse(cpus).unwrap(), ..NumaNode::default() })
            .into();
        let kind =
            |cpus: &str| CoreKind { cpus: CpuSet::parse(cpus).unwrap(), ..CoreKind::default() };
        facts.cpu.core_kinds = vec![kind("0-5,8-9"), kind("6-7")];
        assert_eq!(facts.interchangeable(3, &allowed), [0, 1, 2, 3, 4, 5]);
        let cache = |size_bytes, lists: &[&str]| Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes,
            shared_by: sets(lists),
            ..Cache::default()
        };
        facts.cpu.caches = vec![cache(96 << 20, &["0-1"]), cache(32 << 20, &["2-3", "4-9"])];
        assert_eq!(facts.interchangeable(3, &allowed), [2, 3, 4, 5]);
        assert_eq!(facts.interchangeable(3, &[5, 3, 0]), [5, 3]);
        // Pairs within a cache, and across caches.
        assert!(facts.are_equally_far([2, 3], [5, 4]) && facts.are_equally_far([2, 4], [5, 3]));
        assert!(!facts.are_equally_far([2, 3], [3, 4]));
        facts.cpu.cores = sets(&["2-3"]);
        assert!(!facts.are_equally_far([2, 3], [5, 4]), "one is a core");
        let distances = [3, 2, 4, 8].map(|other| facts.distance(3, other));
        let [same, sibling, another_cache, another_node] = distances;
        assert_eq!((same, sibling), (Distance::SameCpu, Distance::Sibling));
        assert_eq!((another_cache, another_node), (Distance::SameNode, Distance::OtherNode));
        assert_eq!(facts.distance(5, 4), Distance::SameCache);
    }

    #[test]
    fn further_processors_are_the_nearest_and_second_threads_come_last() {
        let mut facts = Facts::default();
        let allowed: Vec<usize> = (0..8).collect();
        assert_eq!(facts.nearest_first(7, &allowed), [7, 0, 1, 2, 3, 4, 5, 6], "nothing is known");
        // Two threads a core, two last-level caches.
        facts.cpu.cores = sets(&["0,4", "1,5", "2,6", "3,7"]);
        facts.cpu.caches = vec![Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes: 32 << 20,
            shared_by: sets(&["0-1,4-5", "2-3,6-7"]),
            ..Cache::default()
        }];
        assert_eq!(
            facts.nearest_first(7, &allowed),
            [7, 2, 0, 1, 3, 6, 4, 5],
            "a core of the same cache, other cores, then second threads"
        );
    }
}

//! In which order the CPUs of a machine are measured.

use std::cmp::Reverse;

use super::{CpuSet, Facts};

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
        let last_level = self
            .last_level_cache()
            .map_or(&[][..], |cache| &cache.shared_by);
        let kinds = &self.cpu.core_kinds;
        let kinds: Vec<CpuSet> = kinds.iter().map(|kind| kind.cpus.clone()).collect();
        let nodes: Vec<CpuSet> = self.numa.iter().map(|node| node.cpus.clone()).collect();
        let distance = |cpu: usize| {
            let mut cores = self.cpu.cores.iter();
            let core = cores.find(|core| core.contains(cpu as u32));
            let comes_before = |other: &usize| {
                before(*other, cpu, first) && core.is_some_and(|core| core.contains(*other as u32))
            };
            let is_second_thread = allowed.iter().any(comes_before);
            let is_of_another_kind = !kinds.is_empty() && !share(&kinds, first, cpu);
            (
                is_second_thread,
                is_of_another_kind,
                !share(last_level, first, cpu),
                !share(&nodes, first, cpu),
                !share(&self.cpu.sockets, first, cpu),
            )
        };
        let mut others = allowed.to_vec();
        others.retain(|cpu| *cpu != first);
        others.sort_by_cached_key(|cpu| (distance(*cpu), *cpu));
        std::iter::once(first).chain(others).collect()
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
    use crate::facts::{Cache, CacheKind, CoreKind};

    #[test]
    fn of_several_kinds_the_fastest_is_measured() {
        let kind = |name: &str, cpus: &str, capacity| CoreKind {
            name: name.to_owned(),
            cpus: CpuSet::parse(cpus).unwrap(),
            capacity,
            ..CoreKind::default()
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
        facts.cpu.core_kinds = vec![
            kind("little", "0-3", Some(400)),
            kind("big", "4-6", Some(1024)),
        ];
        assert_eq!(facts.quietest(&allowed), 6);
    }

    #[test]
    fn further_processors_are_the_nearest_and_second_threads_come_last() {
        let sets = |lists: &[&str]| -> Vec<CpuSet> {
            lists
                .iter()
                .map(|list| CpuSet::parse(list).unwrap())
                .collect()
        };
        let mut facts = Facts::default();
        let allowed: Vec<usize> = (0..8).collect();
        assert_eq!(
            facts.nearest_first(7, &allowed),
            [7, 0, 1, 2, 3, 4, 5, 6],
            "nothing is known"
        );
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

//! The memory nodes of the machine: which pairs of them are measured, and what a role needs of a pair.

use crate::memory::latency::role::warm;
use crate::prelude::*;
use costof_measure::facts;
use costof_model::facts::NumaNode;
use costof_os::memory::chase::Ring;

/// The CPUs of a run that are near to one memory node, and the node whose memory they use.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) cpus: Vec<usize>,
    /// The node of the memory; without one, whatever each CPU's thread gets by touching it first.
    pub(super) memory: Option<u32>,
    /// Bytes that this node has to give, where that is known.
    pub(super) room: Option<u64>,
}

impl Pair {
    /// Refuses what would not fit: the kernel ends some process to make room on a node that memory is bound to.
    pub(super) fn ensure_fits(&self, bytes: u64) -> Result {
        arenas::ensure_fits(bytes)?;
        if let Some((node, room)) = self.memory.zip(self.room).filter(|(_, room)| *room < bytes) {
            let (needed, room) = (display_bytes(bytes), display_bytes(room));
            unsupported!("this needs {needed} on memory node {node}, which has {room} free");
        }
        Ok(())
    }
}

/// The pairs of nodes in the plan of a machine: each with its own memory, and the first with that of all others. Where
/// there are not several, one pair, whose row says so.
pub(super) fn planned(facts: &Facts) -> Vec<(u64, u64)> {
    let cpus = facts.planned_cpus();
    let runs_on = |node: &&NumaNode| cpus.iter().any(|cpu| node.cpus.contains(*cpu));
    let with_memory = || facts.numa.iter().filter(|node| has_memory(node));
    let first = facts.numa.iter().find(runs_on).map(|node| node.id);
    let pairs = facts.numa.iter().filter(runs_on).flat_map(|from| {
        let is_first = first == Some(from.id);
        let used = with_memory().filter(move |node| is_first || node.id == from.id);
        used.map(|node| (from.id.into(), node.id.into()))
    });
    let pairs: Vec<(u64, u64)> = pairs.collect();
    if pairs.len() > 1 { pairs } else { vec![(0, 0)] }
}

/// A node without the file that names its memory may have some.
fn has_memory(node: &NumaNode) -> bool {
    node.total_bytes != Some(0)
}

/// The pair of a point on this machine.
///
/// # Errors
/// Why this machine does not have it.
pub(super) fn pair(from: u64, memory: u64, cpus: &[usize]) -> Result<Pair> {
    pair_of(&facts::memory_nodes(), from, memory, cpus)
}

fn pair_of(nodes: &[NumaNode], from: u64, memory: u64, cpus: &[usize]) -> Result<Pair> {
    let node = |id: u64| nodes.iter().find(|node| u64::from(node.id) == id);
    let used = node(memory).filter(|node| has_memory(node));
    let near = node(from).map(|node| &node.cpus);
    let is_near = |cpu: &usize| near.is_some_and(|near| near.contains(*cpu as u32));
    let own: Vec<usize> = cpus.iter().copied().filter(is_near).collect();
    match (nodes.iter().filter(|node| has_memory(node)).count(), used) {
        (0, _) => unsupported!("the kernel reports no memory nodes (/sys/devices/system/node)"),
        (1, _) => unsupported!(
            "this machine has one memory node, so no memory is far (memory.latency and node.bandwidth on=all measure it)"
        ),
        (_, None) => unsupported!("there is no memory node {memory} here, or it has no memory"),
        _ if own.is_empty() => unsupported!("no CPU of this run (--cpu) is at memory node {from}"),
        (_, Some(used)) => Ok(Pair { cpus: own, memory: Some(used.id), room: used.free_bytes }),
    }
}

/// One random cycle through all lines of an arena that is in memory, ready to be timed.
///
/// # Errors
/// If a lap does not visit each of them.
pub(super) fn random_ring<'a>(arena: &'a mut Arena, random: &mut Rng) -> Result<Ring<'a>> {
    let bytes = arena.len();
    let laid = Ring::lay_random(arena, bytes, 64, &mut |bound| random.u64(..bound));
    let mut ring = laid.or_fail("cannot lay a chain of loads")?;
    warm(&mut ring)?;
    Ok(ring)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use costof_model::facts::CpuSet;

    /// Two sockets of two CPUs with 1 GiB each, a memory without CPUs (HBM, CXL), and a CPU without memory.
    pub(in crate::node) fn nodes() -> Vec<NumaNode> {
        let node = |id, cpus: &str, total_bytes| NumaNode {
            id,
            cpus: CpuSet::parse(cpus).unwrap(),
            total_bytes: Some(total_bytes),
            ..NumaNode::default()
        };
        vec![
            node(0, "0-1", 1 << 30),
            node(1, "2-3", 1 << 30),
            node(4, "", 1 << 30),
            node(5, "8", 0),
        ]
    }

    fn facts(nodes: Vec<NumaNode>) -> Facts {
        let mut facts = Facts { numa: nodes, ..Facts::default() };
        facts.cpu.online = CpuSet::parse("0-3,8").unwrap();
        facts
    }

    #[test]
    fn each_node_has_its_own_memory_and_the_first_all_others() {
        let all = facts(nodes());
        assert_eq!(planned(&all), [(0, 0), (0, 1), (0, 4), (1, 1)]);
        let on_the_second = Facts { run_cpus: vec![3], ..all };
        assert_eq!(planned(&on_the_second), [(1, 0), (1, 1), (1, 4)]);
        assert_eq!(planned(&facts(nodes()[..1].to_vec())), [(0, 0)]);
        assert_eq!(planned(&facts(Vec::new())), [(0, 0)]);
        let one_has_memory = vec![nodes()[0].clone(), nodes()[3].clone()];
        assert_eq!(planned(&facts(one_has_memory)), [(0, 0)]);
    }

    #[test]
    fn a_pair_has_the_runs_cpus_of_its_node_or_a_reason() {
        let all = nodes();
        let at = |from, memory, cpus: &[usize]| pair_of(&all, from, memory, cpus);
        let pair = |cpus, memory| Ok(Pair { cpus, memory: Some(memory), room: None });
        assert_eq!(at(1, 1, &[3, 0, 2]), pair(vec![3, 2], 1));
        assert_eq!(at(0, 4, &[3, 0]), pair(vec![0], 4));
        assert_eq!(at(5, 0, &[8]), pair(vec![8], 0));
        let full = Pair { room: Some(1 << 20), ..at(0, 4, &[3, 0]).unwrap() };
        assert!(full.ensure_fits(1 << 20).is_ok());
        let refused = full.ensure_fits(2 << 20).unwrap_err();
        assert!(refused.reason.contains("node 4, which has 1MiB free"), "{refused}");
        for (nodes, from, memory, cpus, reason) in [
            (&all[..], 0, 7, &[0][..], "no memory node 7"),
            (&all, 0, 5, &[0], "no memory node 5"),
            (&all, 7, 0, &[0], "at memory node 7"),
            (&all, 1, 0, &[0, 1], "at memory node 1"),
            (&all, 4, 0, &[0], "at memory node 4"),
            (&all[..1], 0, 0, &[0], "one memory node"),
            (&[], 0, 0, &[0], "reports no memory nodes"),
        ] {
            let failure = pair_of(nodes, from, memory, cpus).unwrap_err();
            assert!(failure.reason.contains(reason), "{failure}");
        }
    }
}

//! `node.latency`: a load from each memory node.

use super::memory_node::{Pair, pair, planned, random_ring};
use crate::memory::latency;
use crate::prelude::*;

pub(crate) static PROBE: Probe = Probe::new::<NodeLatency>();

point! {
    /// What does a load cost from near memory, and from each other memory node?
    ///
    /// One thread on the first CPU of a memory node follows a random chain of loads, as memory.latency does, through
    /// memory of a node. Near memory is what the thread touches first; for another node's, the kernel is asked
    /// (mbind). A machine whose memory is interleaved by its firmware has one node, and half of its loads go far.
    ///
    /// # Predicted from
    /// the load of the run's own CPU from memory (memory.latency): the same within a third near, and 1.1 to 4 times
    /// that far
    ///
    /// # Sources
    /// - D. Molka, D. Hackenberg, R. Schöne, W. E. Nagel, Cache Coherence Protocol and Memory Performance of the Intel
    ///   Haswell-EP Architecture, ICPP 2015: 96 ns near, 146 ns from the other socket
    /// - mbind(2), Linux Documentation/admin-guide/mm/numa_memory_policy.rst
    /// - Linux Documentation/ABI/stable/sysfs-devices-node
    ///
    /// # Needs
    /// - several memory nodes; in a container CAP_SYS_NICE, which Docker's seccomp filter wants of mbind(2)
    pub(crate) struct NodeLatency of "node.latency" {
        /// the memory node whose CPUs run, by the kernel's number
        from: u64 = count(0..=1023, &[0]),
        /// the memory node whose memory they use
        memory: u64 = count(0..=1023, &[0]),
        /// the memory that is visited repeatedly
        size: u64 = bytes(1 << 20..=1 << 40, &[256 << 20]),
    }
}

impl Measure for NodeLatency {
    const METRICS: &'static [Metric] = metrics! {
        /// one load
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["memory.latency"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 0, 60));
    const PROCESSORS: usize = usize::MAX;
    const ROLES: &'static [StartRole] = &[alone::<_, Chase>];

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        let size = sizes::beyond(facts);
        let pairs = planned(facts).into_iter();
        Planned::all(pairs.map(|(from, memory)| NodeLatency { from, memory, size }))
    }

    /// The default size may fit into caches.
    fn can_exist(point: &At<Self>, facts: &Facts) -> bool {
        point.size >= sizes::beyond(facts) && planned(facts).contains(&(point.from, point.memory))
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        if facts.numa.len() < 2 {
            return None;
        }
        let load = expect::measured_cost(measured, &latency::load(point.size), "for a load")?;
        let times = if point.from == point.memory { (0.75, 1.33) } else { (1.1, 4.0) };
        (load * times).predict("cost")
    }
}

struct Chase {
    pair: Pair,
    random: Rng,
}

impl Setup<NodeLatency> for Chase {
    fn set_up(point: &At<NodeLatency>, launch: &Launch) -> Result<Chase> {
        let pair = pair(point.from, point.memory, &threads::of_run(launch)?)?;
        pair.ensure_fits(point.size)?;
        Ok(Chase { pair, random: Rng::with_seed(launch.seed) })
    }

    fn measure(&mut self, point: &At<NodeLatency>, meter: &mut Meter<'_>) -> Result {
        let _moved = threads::Moved::to(self.pair.cpus[0])?;
        let pages = arenas::Pages::Base;
        let mut arena = arenas::map(point.size, pages)?;
        self.pair.memory.map_or(Ok(()), |node| arenas::bind(&arena, node))?;
        arena.populate().map_err(|error| arenas::failed("touch", point.size, pages, &error))?;
        let mut ring = random_ring(&mut arena, &mut self.random)?;
        meter.repeatable("cost", |n| ring.walk(n));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::memory_node::tests::nodes;
    use crate::testing::{at, measured};
    use costof_model::facts::CpuSet;

    #[test]
    fn far_memory_is_expected_to_cost_more() {
        let mut facts = Facts { numa: nodes(), ..Facts::default() };
        facts.cpu.online = CpuSet::parse("0-3").unwrap();
        let size = sizes::beyond(&facts);
        let rows = [measured(latency::load(size), 100.0)];
        let range = |facts: &Facts, from, memory| {
            let point = NodeLatency { from, memory, size }.into();
            let expected = NodeLatency::predict(&point, facts, &MeasuredRows::new(&rows))?;
            Some((expected.low.round(), expected.high.round()))
        };
        assert_eq!(range(&facts, 1, 1), Some((75.0, 133.0)));
        assert_eq!(range(&facts, 0, 1), Some((110.0, 400.0)));
        assert_eq!(range(&Facts::default(), 0, 0), None);
        assert_eq!(NodeLatency::more_points(&facts).len(), 4);
    }

    #[test]
    fn one_row_says_that_there_is_one_node() {
        assert_eq!(NodeLatency::more_points(&Facts::default()).len(), 1);
        let exists = |values, facts: &Facts| {
            NodeLatency::can_exist(&at::<NodeLatency>(values).into(), facts)
        };
        assert!(exists("", &Facts::default()));
        assert!(!exists("size=128MiB", &Facts::default()), "caches may hold it");
        assert!(!exists("memory=1", &Facts::default()));
    }
}

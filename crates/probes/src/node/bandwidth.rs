//! `node.bandwidth`: what all CPUs read together, and the CPUs of each memory node.

use super::memory_node::{Pair, pair, planned};
use crate::memory::bandwidth::team::Team;
use crate::memory::bandwidth::{self, Op};
use crate::prelude::*;
use costof_model::facts::Cache;
use costof_os::memory::streams::{Kernel, Operation, Stream};

/// Memory is read in blocks of this size.
const BLOCK_BYTES: u64 = 1 << 20;
/// No thread is given more memory than this, whatever the caches hold.
const MAX_BYTES: u64 = 1 << 30;

words! {
    /// Which CPUs read which memory.
    pub(crate) enum On {
        /// every CPU of the run, memory near to it
        All = "all",
        /// the CPUs of the memory node `from`, that of the node `memory`
        Node = "node",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<NodeBandwidth>();

point! {
    /// How many bytes per second do all CPUs read from memory together, and those of each memory node?
    ///
    /// A thread on each CPU reads its own memory in ascending order, with the widest vectors that the CPU has; all
    /// begin each batch together, and the last one ends it. Each has so much memory that all together have four times
    /// what the last-level caches hold. With on=all, that is memory which its thread touches first; with on=node, the
    /// kernel is asked for memory of that node alone (mbind). Where a module is missing, or sits in the wrong channel,
    /// its node reads less than the others, though one thread sees nothing of it (memory.bandwidth).
    ///
    /// # Predicted from
    /// what one thread reads (memory.bandwidth) times the CPUs, a sixteenth of that or more, at most the bandwidth of
    /// the memory modules by the firmware
    ///
    /// # Sources
    /// - J. McCalpin, Memory Bandwidth and Machine Balance in Current High Performance Computers, IEEE TCCA Newsletter
    ///   1995 (STREAM)
    /// - mbind(2), Linux Documentation/admin-guide/mm/numa_memory_policy.rst
    /// - U. Drepper, What Every Programmer Should Know About Memory, 2007, section 5: NUMA
    ///
    /// # Needs
    /// - free memory of the size for each CPU
    /// - for on=node, several memory nodes; in a container CAP_SYS_NICE, which Docker's seccomp filter wants of mbind(2)
    pub(crate) struct NodeBandwidth of "node.bandwidth" {
        /// which CPUs read which memory
        on: On = words(),
        /// the memory node whose CPUs run, by the kernel's number
        from: u64 = count(0..=1023, &[0]),
        /// the memory node whose memory they use
        memory: u64 = count(0..=1023, &[0]),
        /// the memory that each thread reads repeatedly
        size: u64 = bytes(1 << 20..=1 << 40, &[64 << 20]),
    }
}

impl Measure for NodeBandwidth {
    const METRICS: &'static [Metric] = metrics! {
        /// bytes read, all threads together
        throughput: BytesPerSecond Higher,
        /// each thread reading a block of 1 MiB
        cost: Nanoseconds Lower,
        /// the threads, one on each CPU
        threads: One Neither,
    };
    const AFTER: NameList = &["memory.bandwidth"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 0, 60));
    const PROCESSORS: usize = usize::MAX;
    const ROLES: &'static [StartRole] = &[alone::<_, Reading>];

    /// Of one thread: how many there are is not known before.
    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn check_axes(point: &At<Self>) -> Result {
        ensure!(
            point.on == On::Node || (point.from, point.memory) == (0, 0),
            "from and memory are for on=node: with on=all, every CPU reads memory near to it"
        );
        Ok(())
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        let size = size(facts);
        let all = NodeBandwidth { size, ..NodeBandwidth::default() };
        let nodes = planned(facts).into_iter();
        let nodes = nodes.map(|(from, memory)| NodeBandwidth { on: On::Node, from, memory, size });
        Planned::all(std::iter::once(all).chain(nodes))
    }

    /// A size of which the caches hold a good part is none of memory.
    fn can_exist(point: &At<Self>, facts: &Facts) -> bool {
        let has_nodes = point.on == On::All || planned(facts).contains(&(point.from, point.memory));
        point.size >= size(facts) && has_nodes
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let nodes = match point.on {
            On::All => 1.0,
            On::Node if facts.numa.len() < 2 => return None,
            On::Node => facts.numa.len() as f64,
        };
        let cpus = threads::processors(facts) as f64 / nodes;
        let one = measured.at(&bandwidth::stream(Op::Read, sizes::beyond(facts)))?;
        // The link between two nodes has a fraction of their memory's bandwidth.
        let far = if point.from == point.memory { 1.0 } else { 4.0 };
        let least = (cpus / 16.0).max(1.0) / far;
        let rate = |rate| Unit::BytesPerSecond.display(rate);
        let because =
            format!("{least} to {cpus} times the {} of one thread (memory.bandwidth)", rate(one));
        let prediction = expect::throughput(0.9 * least * one, 1.1 * cpus.max(1.0) * one, because)?;
        let Some(limit) = facts.memory.modules_bytes_per_s().map(|limit| limit / nodes) else {
            return Some(prediction);
        };
        Some(prediction.at_most(limit, 0.3, format!("the {} of the memory modules", rate(limit))))
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        if let Some(threads) = derived::value(&report, "threads") {
            derived::add_throughput(&mut report, BLOCK_BYTES * threads as u64);
        }
        report
    }
}

/// How much each thread reads: at least the default, a power of two, so that hosts with as many CPUs have the same.
fn size(facts: &Facts) -> u64 {
    let of_all = |cache: &Cache| cache.size_bytes * cache.shared_by.len().max(1) as u64;
    let cached = facts.last_level_cache().map_or(0, of_all);
    let each = (4 * cached).div_ceil(threads::processors(facts).max(1));
    each.next_power_of_two().clamp(NodeBandwidth::default().size, MAX_BYTES)
}

struct Reading(Pair);

impl Setup<NodeBandwidth> for Reading {
    fn set_up(point: &At<NodeBandwidth>, launch: &Launch) -> Result<Reading> {
        let cpus = threads::of_run(launch)?;
        let pair = match point.on {
            On::All => Pair { cpus, memory: None, room: None },
            On::Node => pair(point.from, point.memory, &cpus)?,
        };
        pair.ensure_fits(point.size.saturating_mul(pair.cpus.len() as u64))?;
        Ok(Reading(pair))
    }

    fn measure(&mut self, point: &At<NodeBandwidth>, meter: &mut Meter<'_>) -> Result {
        let Pair { cpus, memory, .. } = &self.0;
        let _moved = threads::Moved::to(cpus[0])?;
        let (threads, pages) = (cpus.len() as u64, arenas::Pages::Base);
        let team = Team::start(threads, cpus, point.size, point.size, pages, *memory)?;
        let blocks = (point.size / BLOCK_BYTES) as usize;
        team.each(move |stream| {
            let aimed = stream.aim(Operation::Read, BLOCK_BYTES as usize, blocks);
            aimed.or_fail("cannot read through memory")
        })?;
        let widest = Kernel::all(Operation::Read).max_by_key(|kernel| kernel.vector_bytes);
        team.take(widest.expect("every CPU can read"));
        meter.crew("cost", &mut team.crew(Stream::run)?);
        meter.value("threads", threads as f64);
        team.each(|stream| stream.check().map_err(Failure::error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::memory_node::tests::nodes;
    use crate::testing::{at, measured, number, report, samples};
    use costof_model::facts::{CacheKind, CpuSet, Dimm};
    use costof_model::metric::Data;

    /// A machine of two nodes and this many CPUs, with a last-level cache of 32 MiB for each of two sockets.
    fn facts(cpus: u32) -> Facts {
        let mut facts = Facts { numa: nodes()[..2].to_vec(), ..Facts::default() };
        facts.cpu.online = (0..cpus).collect();
        facts.cpu.caches = vec![Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes: 32 << 20,
            shared_by: vec![CpuSet::default(), CpuSet::default()],
            ..Cache::default()
        }];
        facts
    }

    #[test]
    fn all_threads_together_read_more_than_the_caches_hold() {
        assert_eq!([256, 4, 3, 1].map(|cpus| size(&facts(cpus)) >> 20), [64, 64, 128, 256]);
        assert_eq!(size(&Facts::default()), 64 << 20);
        let exists = |values, cpus| {
            NodeBandwidth::can_exist(&at::<NodeBandwidth>(values).into(), &facts(cpus))
        };
        assert!(exists("", 4) && exists("size=256MiB", 1) && !exists("", 1));
    }

    #[test]
    fn the_plan_has_all_cpus_and_the_nodes() {
        let planned = |facts: &Facts| -> Vec<String> {
            let points = NodeBandwidth::more_points(facts).into_iter();
            points.map(|planned| planned.axes.to_string()).collect()
        };
        let planned_here = planned(&facts(4));
        assert_eq!(planned_here.len(), 4, "{planned_here:?}");
        assert_eq!(planned(&Facts::default()).len(), 2, "the second says that there is one node");
    }

    #[test]
    fn modules_limit_what_many_cpus_read() {
        let rows =
            |facts: &Facts| [measured(bandwidth::stream(Op::Read, sizes::beyond(facts)), 10e9)];
        let range = |facts: &Facts, values: &str| {
            let point = at::<NodeBandwidth>(values).into();
            let rows = rows(facts);
            let expected = NodeBandwidth::predict(&point, facts, &MeasuredRows::new(&rows))?;
            Some((expected.low.round(), expected.high.round()))
        };
        let mut many = facts(64);
        assert_eq!(range(&many, ""), Some((36e9, 704e9)));
        assert_eq!(range(&many, "on=node memory=1"), Some((4.5e9, 352e9)));
        let dimm = Dimm { speed_transfers_per_s: Some(3_200_000_000), ..Dimm::default() };
        many.memory.dimms = vec![dimm];
        many.memory.channel_count = Some(8);
        assert_eq!(range(&many, "").map(|range| range.1), Some(204.8e9));
        assert_eq!(range(&many, "on=node").map(|range| range.1), Some(102.4e9));
        let one = Facts { numa: Vec::new(), ..facts(64) };
        assert_eq!(range(&one, "on=node"), None);
    }

    #[test]
    fn the_throughput_is_that_of_all_threads() {
        let point = at::<NodeBandwidth>("").into();
        let reported = report(vec![samples("cost", &[(1, 1e6)]), number("threads", 8.0)]);
        let report = NodeBandwidth::derive(&point, vec![reported]);
        let throughput = report.metrics.iter().find(|metric| metric.name == "throughput");
        let expected = Data::Value((8 * BLOCK_BYTES) as f64 * 1e3);
        assert_eq!(throughput.map(|metric| &metric.data), Some(&expected));
    }

    #[test]
    fn nodes_are_for_the_cpus_of_a_node() {
        let check = |values| NodeBandwidth::check_axes(&at::<NodeBandwidth>(values).into());
        assert!(check("memory=1").is_err() && check("on=node memory=1").is_ok());
    }
}

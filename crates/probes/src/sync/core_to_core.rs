//! `sync.core_to_core`: how long a cache line takes to another CPU and back.

mod role;

use crate::prelude::*;
use crate::sync::neighbourhood::{self, Neighbourhood};
use role::Pair;

/// Up to this many CPUs, the probe's own plan has every pair of them: 28 pairs.
const PROCESSORS_IN_ALL_PAIRS: usize = 8;
/// With more CPUs, the first one is paired with this many others.
const PARTNERS_OF_THE_FIRST: usize = 24;

pub(crate) static PROBE: Probe = Probe::new::<CoreToCore>();

point! {
    /// How long does a cache line take to another CPU and back?
    ///
    /// A thread runs on each CPU. One writes an odd number into a word that has a cache line to
    /// itself, and polls until it is even; the other polls until it is odd, and writes the next
    /// even one. So there is one line, which moves twice in each direction: the polling thread
    /// fetches a copy of what was written, and then takes the line over to write in turn. Neither
    /// thread pauses between two polls, because the pause instruction takes as long as the journey
    /// on some cores. In a virtual machine the hypervisor may move both CPUs to other cores during
    /// a run, which makes modes. The word's last value shows that every round trip was made. The
    /// probe's own plan has every pair of up to 8 CPUs of the run. With more CPUs it has one pair
    /// for each neighbourhood (a core's two threads, one last-level cache, one socket, two
    /// sockets), and the first CPU with up to 24 others, evenly chosen.
    ///
    /// # Predicted from
    /// what the two CPUs share, by the machine's own account, which a hypervisor may invent: a core
    /// 20 to 80 cycles, a last-level cache 60 to 180 ns, a socket 100 to 300 ns, the machine 200 to
    /// 700 ns
    ///
    /// # Sources
    /// - D. Molka, D. Hackenberg, R. Schöne, W. E. Nagel, Cache Coherence Protocol and Memory
    ///   Performance of the Intel Haswell-EP Architecture, ICPP 2015
    /// - T. David, R. Guerraoui, V. Trigonakis, Everything You Always Wanted to Know About
    ///   Synchronization but Were Afraid to Ask, SOSP 2013
    /// - Core to Core Latency Data on Large Systems, chipsandcheese.com 2023: meshes of many cores
    ///
    /// # Needs
    /// - two CPUs, both among those of the run (--cpu)
    pub(crate) struct CoreToCore of "sync.core_to_core" {
        /// the CPU that sends the line and waits
        from: u64 = processor(0..=65_535, &[0]),
        /// the CPU that sends it back
        to: u64 = processor(0..=65_535, &[1]),
    }
}

impl Measure for CoreToCore {
    const METRICS: &'static [Metric] = metrics! {
        /// one round trip: a store that the other CPU sees, and its store seen in return
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const ROUNDS: u32 = 2;
    /// The axes name the CPUs, so all of them must be available.
    const PROCESSORS: usize = usize::MAX;
    const ROLES: &'static [StartRole] = &[alone::<_, Pair>];

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let mut pairs = neighbourhood::pairs(facts);
        if pairs.is_empty() {
            // A run on one CPU gives a row with its reason; so does one whose CPUs are unknown.
            pairs.push((Neighbourhood::Unknown, 0, 1));
        }
        let headline = |(neighbourhood, from, to)| {
            Headline::new(label(neighbourhood), CoreToCore { from, to })
        };
        pairs.into_iter().map(headline).collect()
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        Planned::all(more_pairs(facts))
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let claims = if facts.virtualization.virtual_machine == Some(true) {
            "as the hypervisor claims"
        } else {
            "as the machine claims"
        };
        let (range, two, journeys) = match neighbourhood::between(facts, point.from, point.to) {
            Neighbourhood::Core => {
                let because = format!("two threads of one core, {claims}, share its first cache");
                return cost_cycles(measured, (20.0, 80.0), &because);
            }
            Neighbourhood::Unknown => {
                let because = "the machine does not say which caches the two share";
                return cost_ns((30.0, 300.0), because);
            }
            Neighbourhood::LastCache => {
                ((60.0, 180.0), "cores of one last-level cache", "through it")
            }
            Neighbourhood::Socket => {
                ((100.0, 300.0), "last-level caches of one socket", "between them")
            }
            Neighbourhood::Machine => ((200.0, 700.0), "sockets", "over the link between them"),
        };
        cost_ns(range, format!("two {two}, {claims}: two journeys {journeys}"))
    }
}

fn label(neighbourhood: Neighbourhood) -> &'static str {
    match neighbourhood {
        Neighbourhood::Core => "cache line round trip: same core",
        Neighbourhood::LastCache => "cache line round trip: another core",
        Neighbourhood::Socket => "cache line round trip: another cache",
        Neighbourhood::Machine => "cache line round trip: another socket",
        Neighbourhood::Unknown => "cache line round trip: another CPU",
    }
}

fn more_pairs(facts: &Facts) -> Vec<CoreToCore> {
    let processors: Vec<u64> = facts.planned_cpus().into_iter().map(u64::from).collect();
    let Some((&first, others)) = processors.split_first() else {
        return Vec::new();
    };
    if processors.len() <= PROCESSORS_IN_ALL_PAIRS {
        return processors
            .iter()
            .flat_map(|&from| processors.iter().map(move |&to| (from, to)))
            .filter(|(from, to)| from < to)
            .map(|(from, to)| CoreToCore { from, to })
            .collect();
    }
    let partners = PARTNERS_OF_THE_FIRST.min(others.len());
    (0..partners)
        .map(|position| others[position * others.len() / partners])
        .map(|other| CoreToCore { from: first.min(other), to: first.max(other) })
        .collect()
}

/// The round trip to the CPU on which a second thread runs: the nearest one on another core.
pub(crate) fn to_the_neighbour(facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let pairs = neighbourhood::pairs(facts);
    let other_core = |pair: &&(Neighbourhood, u64, u64)| pair.0 != Neighbourhood::Core;
    let &(_, from, to) = pairs.iter().find(other_core).or(pairs.first())?;
    let name = format_args!("for a line from CPU {from} to {to} and back");
    expect::measured_cost(measured, &CoreToCore { from, to }, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::neighbourhood::tests::two_sockets;
    use costof_model::facts::CpuSet;

    #[test]
    fn a_machine_of_any_size_has_some_pairs_of_two_and_all_neighbourhoods() {
        for (online, pairs) in [("0", 0), ("0-1", 1), ("2-9", 28), ("0-8", 8), ("0-255", 24)] {
            let mut facts = Facts::default();
            facts.cpu.online = CpuSet::parse(online).unwrap();
            let points = more_pairs(&facts);
            assert_eq!(points.len(), pairs, "{online}");
            for CoreToCore { from, to } in points {
                assert!(from < to);
            }
        }
        let labels: Vec<String> = CoreToCore::headlines(&two_sockets())
            .into_iter()
            .map(|headline| headline.label)
            .collect();
        assert_eq!(labels.len(), 4);
        assert!(labels[0].contains("same core"), "{labels:?}");
        assert!(labels[3].contains("another socket"), "{labels:?}");
    }
}

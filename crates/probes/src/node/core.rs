//! `node.core`: each CPU in turn, so that a bad one has a name.

use super::memory_node::random_ring;
use crate::memory::latency;
use crate::prelude::*;
use costof_measure::core_clock::{ROTATE_CYCLES, rotate};
use costof_measure::gauge::Gauge;

words! {
    /// What a core does.
    pub(crate) enum Work {
        /// a step of a chain of dependent instructions, which takes one cycle
        Loop = "loop",
        /// a load from the core's second-level cache that depends on the one before
        L2 = "l2",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Core>();

point! {
    /// Is one of the cores slower than the others?
    ///
    /// One thread visits each CPU of the run in turn, pins itself there, and measures the same two things as it did on
    /// the CPU before: a chain of dependent rotations, which shows the core's clock, and a random chain of loads
    /// through memory that fits into the second-level cache. Meanwhile the other CPUs are left alone. running compares
    /// the thread's CPU time with the time that passed: another process on that CPU takes some of it, and so do a
    /// quota and, where the kernel counts it, a hypervisor. The costs leave out batches in which something else used
    /// the core. A finding names a CPU that is slower than the median of the others of its kind.
    ///
    /// # Predicted from
    /// the clock of the run's first CPU (cpu.frequency), and its load from the same size (memory.latency); within a
    /// tenth where all cores are of one kind
    ///
    /// # Sources
    /// - A. Abel, J. Reineke, uops.info: Characterizing Latency, ASPLOS 2019: rotations take one cycle
    /// - S. Sattolo, An Algorithm to Generate a Random Cyclic Permutation, 1986
    /// - P. H. Hochschild et al., Cores that don't count, HotOS 2021: single cores go bad
    ///
    /// # Needs
    /// - the CPU, among those of the run (--cpu)
    pub(crate) struct Core of "node.core" {
        /// the CPU
        cpu: u64 = processor(0..=65_535, &[0]),
        /// what it does
        work: Work = words(),
        /// the memory that is visited with work=l2; half of a second-level cache or less
        size: u64 = bytes(4 << 10..=64 << 20, &[128 << 10]),
    }
}

impl Measure for Core {
    const METRICS: &'static [Metric] = metrics! {
        /// one step of the chain, or one load
        cost: Nanoseconds Lower,
        /// the share of the time for which the thread had the CPU, from 0 to 1
        running: One Higher,
    };
    const AFTER: NameList = &["cpu.frequency", "memory.latency"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 0, 60));
    /// The axis names the CPU, so all of them must be available.
    const PROCESSORS: usize = usize::MAX;
    const ROLES: &'static [StartRole] = &[alone::<_, OnCore>];

    fn more_points(facts: &Facts) -> Vec<Planned> {
        let works = [Work::Loop, Work::L2];
        let cpus = facts.planned_cpus();
        Planned::all(cpus.iter().flat_map(|cpu| works.map(|work| planned(facts, *cpu, work))))
    }

    /// The default size may not be one that the CPU's second-level cache serves.
    fn can_exist(point: &At<Self>, facts: &Facts) -> bool {
        point.axes == planned(facts, point.cpu as u32, point.work)
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        // Kinds of cores differ by more than a factor of two.
        let times = if facts.cpu.core_kinds.is_empty() { (0.9, 1.1) } else { (0.8, 3.0) };
        let cost = match point.work {
            Work::Loop => expect::cycles(measured, (ROTATE_CYCLES, ROTATE_CYCLES), "a step")?,
            Work::L2 => {
                let load = latency::load(point.size);
                expect::measured_cost(measured, &load, "for a load on the run's own CPU")?
            }
        };
        (cost * times).predict("cost")
    }
}

fn planned(facts: &Facts, cpu: u32, work: Work) -> Core {
    let l2 = sizes::inside_of(facts, 2, cpu).filter(|_| work == Work::L2);
    let size = l2.unwrap_or(Core::default().size);
    Core { cpu: u64::from(cpu), work, size }
}

struct OnCore {
    cpu: usize,
    /// The floor of the gauge, where all cores have one.
    floor: Option<f64>,
    arena: Option<Arena>,
    random: Rng,
}

impl Setup<Core> for OnCore {
    fn set_up(point: &At<Core>, launch: &Launch) -> Result<OnCore> {
        let cpu = point.cpu as usize;
        threads::is_of_run(cpu, &threads::of_run(launch)?)?;
        let arena = match point.work {
            Work::Loop => None,
            Work::L2 => Some(arenas::in_memory(point.size, arenas::Pages::Base)?),
        };
        let (floor, random) = (launch.clock.core_floor, Rng::with_seed(launch.seed));
        Ok(OnCore { cpu, floor, arena, random })
    }

    fn measure(&mut self, _: &At<Core>, meter: &mut Meter<'_>) -> Result {
        let _moved = threads::Moved::to(self.cpu)?;
        let gauge = Gauge::for_this_core(self.floor);
        let mut gauged = meter.share(1).gauged(gauge.as_ref());
        let share = running(|| {
            match &mut self.arena {
                None => gauged.repeatable("cost", |n| {
                    black_box(rotate(n));
                }),
                Some(arena) => {
                    let mut ring = random_ring(arena, &mut self.random)?;
                    gauged.repeatable("cost", |n| ring.walk(n));
                }
            }
            Ok(())
        })?;
        meter.value("running", share);
        Ok(())
    }
}

/// The share of the time of some work for which the calling thread had its CPU, from 0 to 1.
pub(super) fn running(work: impl FnOnce() -> Result) -> Result<f64> {
    let (began, had_ns) = (Instant::now(), now_ns(ClockId::ThreadCpu));
    work()?;
    let had_ns = now_ns(ClockId::ThreadCpu) - had_ns;
    Ok((had_ns as f64 / began.elapsed().as_nanos() as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::{at, measured};
    use costof_model::facts::{Cache, CacheKind, CoreKind, CpuSet};

    fn cpus(list: &str) -> CpuSet {
        CpuSet::parse(list).unwrap()
    }

    /// Two fast cores with second-level caches of their own, and four slow ones that share one.
    fn hybrid() -> Facts {
        let cache = |level, kib: u64, shared_by: &[&str]| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: kib << 10,
            shared_by: shared_by.iter().map(|list| cpus(list)).collect(),
            ..Cache::default()
        };
        let kind = |list: &str| CoreKind { cpus: cpus(list), ..CoreKind::default() };
        let mut facts = Facts::default();
        facts.cpu.online = cpus("0-5");
        facts.cpu.core_kinds = vec![kind("0-1"), kind("2-5")];
        facts.cpu.caches = vec![
            cache(1, 48, &["0", "1"]),
            cache(1, 32, &["2", "3", "4", "5"]),
            cache(2, 2048, &["0", "1"]),
            cache(2, 192, &["2-5"]),
        ];
        facts
    }

    #[test]
    fn every_cpu_of_the_run_is_visited_with_the_size_of_its_own_cache() {
        let points = |facts: &Facts| -> Vec<String> {
            let points = Core::more_points(facts).into_iter();
            let read = points.map(|planned| Core::read(&planned.axes).unwrap());
            let exist = read.filter(|core| Core::can_exist(&core.clone().into(), facts));
            let exist = exist.filter(|core| core.work == Work::L2);
            exist.map(|core| format!("{} {}", core.cpu, core.size >> 10)).collect()
        };
        assert_eq!(points(&hybrid()), ["0 192", "1 192", "2 96", "3 96", "4 96", "5 96"]);
        let some = Facts { run_cpus: vec![5, 1], ..hybrid() };
        assert_eq!(points(&some), ["5 96", "1 192"]);
        // The default size, which the plan would vary, is none of these caches'.
        assert!(!Core::can_exist(&at::<Core>("work=l2").into(), &hybrid()));
        assert!(Core::can_exist(&at::<Core>("work=l2").into(), &Facts::default()));
    }

    #[test]
    fn a_core_is_expected_to_be_as_the_runs_own() {
        let rows = [measured(Frequency {}, 2e9), measured(latency::load(192 << 10), 5.0)];
        let range = |facts: &Facts, values: &str| {
            let point = at::<Core>(values).into();
            let expected = Core::predict(&point, facts, &MeasuredRows::new(&rows)).unwrap();
            (expected.low, expected.high)
        };
        assert_eq!(range(&Facts::default(), "cpu=7"), (0.45, 0.55));
        assert_eq!(range(&Facts::default(), "work=l2 size=192KiB"), (4.5, 5.5));
        assert_eq!(range(&hybrid(), "work=l2 size=192KiB"), (4.0, 15.0));
    }
}

//! `node.clock`: the clock that all CPUs hold together.

use super::core::running;
use crate::expect::at_the_clock;
use crate::prelude::*;
use costof_measure::core_clock::{ROTATE_CYCLES, rotate};
use std::thread;

/// How long a launch lasts. Its three launches follow each other at once, so the cores work for twenty seconds.
const LAUNCH: Duration = Duration::from_millis(6_700);
/// Steps of the chain that are timed together: 0.3 ms at 3 GHz, so that most are not interrupted.
const STEPS: u64 = 1_000_000;
/// The clock at the start and at the end of a launch is that of this share of its time, one second.
const EDGE: f64 = 0.15;

pub(crate) static PROBE: Probe = Probe::new::<Clock>();

point! {
    /// Which clock do all cores hold together, and does it fall?
    ///
    /// A thread on each CPU of the run works through the chain of dependent rotations for 6.7 seconds, all at the same
    /// time, and times every million steps. The three launches follow each other without a pause, so the cores work
    /// for 20 seconds: long enough for the power limit of a socket, and for the first heat. A CPU's clock is that of
    /// its median piece, which no preemption changes; running shows what preemptions, quotas and, where the kernel
    /// counts it, the hypervisor took. The load is light: a core that cannot hold its clock here cannot with vector
    /// instructions either, which need more power and may lower the clock of a healthy one. at_start and at_end are
    /// the means of all CPUs in the first and in the last second of a launch; a finding compares the first launch
    /// with the last.
    ///
    /// # Predicted from
    /// the clock of one core (cpu.frequency): with all at work, six tenths of it or more
    ///
    /// # Sources
    /// - Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, 16.10: running average power limit
    /// - Linux Documentation/admin-guide/pm/intel_pstate.rst, "Turbo P-states Support"
    /// - A. Abel, J. Reineke, uops.info: Characterizing Latency, ASPLOS 2019: rotations take one cycle
    pub(crate) struct Clock of "node.clock" {}
}

impl Measure for Clock {
    const METRICS: &'static [Metric] = metrics! {
        /// the clock of the CPU whose clock is lowest
        lowest: Hertz Higher,
        /// the mean clock of all CPUs
        mean: Hertz Higher,
        /// that mean in the first second
        at_start: Hertz Higher,
        /// that mean in the last second
        at_end: Hertz Higher,
        /// the CPU whose clock is lowest
        lowest_cpu: Processor Neither,
        /// the share of the time for which the CPU with the least of it ran its thread, from 0 to 1
        running: One Higher,
    };
    // After the layer's other probes, so that nothing comes between its launches.
    const AFTER: NameList = &["cpu.frequency", "node.core", "node.bandwidth", "node.latency"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(30, 5, 60));
    const PROCESSORS: usize = usize::MAX;
    const ROLES: &'static [StartRole] = &[|launch| {
        let cpus = threads::of_run(launch)?;
        role::<Clock>(move |_: &At<Self>, meter: &mut Meter<'_>| run(&cpus, meter))
    }];

    fn least_ns(_: &At<Self>) -> f64 {
        LAUNCH.as_nanos() as f64
    }

    fn predict(_: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let hz = expect::core_hz(measured)?;
        let because = format!("one core {}; all together hold 0.6 to 1.02 of it", at_the_clock(hz));
        expect::between("lowest", (0.6 * hz, 1.02 * hz), because)
    }
}

fn run(cpus: &[usize], meter: &mut Meter<'_>) -> Result {
    let held = hold(cpus, LAUNCH)?;
    let clocks = |part: fn(&[f64]) -> &[f64]| -> Vec<f64> {
        held.iter().map(|held| hz(part(&held.pieces_ns))).collect()
    };
    let mean = |clocks: &[f64]| clocks.iter().sum::<f64>() / clocks.len() as f64;
    let whole = clocks(|all| all);
    let by_clock = whole.iter().zip(cpus).min_by(|(one, _), (other, _)| one.total_cmp(other));
    let (lowest, cpu) = by_clock.expect("a run has a CPU");
    meter.value("lowest", *lowest);
    meter.value("lowest_cpu", *cpu as f64);
    meter.value("mean", mean(&whole));
    meter.value("at_start", mean(&clocks(|all| &all[..edge(all)])));
    meter.value("at_end", mean(&clocks(|all| &all[all.len() - edge(all)..])));
    meter.value("running", held.iter().map(|held| held.running).fold(1.0, f64::min));
    Ok(())
}

/// How many of the pieces are those of the first or last second.
fn edge(pieces: &[f64]) -> usize {
    ((pieces.len() as f64 * EDGE) as usize).max(1)
}

/// The clock at which the median piece was worked through.
fn hz(pieces_ns: &[f64]) -> f64 {
    STEPS as f64 * ROTATE_CYCLES / median(pieces_ns).expect("a piece at least") * 1e9
}

/// What a CPU did while all worked.
#[derive(Debug)]
struct Held {
    /// How long each piece of the work took, one at least.
    pieces_ns: Vec<f64>,
    /// The share of the time for which it ran the thread.
    running: f64,
}

/// Lets all CPUs work for this long, and returns what each did.
fn hold(cpus: &[usize], time: Duration) -> Result<Vec<Held>> {
    thread::scope(|scope| {
        // All start on this thread's CPU, the first one, so the one that stays there is the last.
        let start = |&cpu| thread::Builder::new().spawn_scoped(scope, move || work(cpu, time));
        let threads: Vec<_> = cpus.iter().rev().map(start).collect();
        let held = threads.into_iter().rev().map(|thread| {
            let thread = thread.or_unsupported("cannot start a thread (ulimit -u)")?;
            thread.join().expect("the work does not panic")
        });
        held.collect()
    })
}

/// Works on a CPU until the time is over.
fn work(cpu: usize, time: Duration) -> Result<Held> {
    let _moved = threads::Moved::to(cpu)?;
    // As many as a core of 10 GHz has; what is not touched takes no memory.
    let most = (time.as_secs_f64() * 1e10 / (STEPS as f64 * ROTATE_CYCLES)) as usize + 1;
    let mut pieces_ns = Vec::with_capacity(most);
    let running = running(|| {
        let began = Instant::now();
        let mut last = began;
        while last - began < time && pieces_ns.len() < most {
            black_box(rotate(STEPS));
            let now = Instant::now();
            pieces_ns.push((now - last).as_nanos() as f64);
            last = now;
        }
        Ok(())
    })?;
    Ok(Held { pieces_ns, running })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::measured;
    use costof_os::sched::affinity;

    #[test]
    fn every_cpu_works_for_the_whole_time() {
        let cpus = affinity::allowed().unwrap();
        let time = Duration::from_millis(50);
        let held = hold(&cpus, time).unwrap();
        assert_eq!(held.len(), cpus.len());
        for core in held {
            let worked: f64 = core.pieces_ns.iter().sum();
            assert!(worked >= time.as_nanos() as f64, "{worked}");
            assert!(core.running > 0.0 && core.running <= 1.0, "{}", core.running);
            assert!(hz(&core.pieces_ns) > 0.0);
        }
    }

    #[test]
    fn the_clock_is_that_of_the_median_piece() {
        let pieces = [500_000.0, 250_000.0, 9e9, 250_000.0, 250_000.0];
        assert_eq!(hz(&pieces), 4e9);
        assert_eq!([1, 6, 100].map(|count| edge(&vec![1.0; count])), [1, 1, 15]);
    }

    #[test]
    fn all_hold_less_than_one() {
        let rows = [measured(Frequency {}, 3e9)];
        let expected =
            Clock::predict(&Clock {}.into(), &Facts::default(), &MeasuredRows::new(&rows)).unwrap();
        assert_eq!((expected.low, expected.high), (1.8e9, 3.06e9));
    }
}

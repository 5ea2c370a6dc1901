//! Reads the gauge each millisecond on the CPUs that a command may use, while it runs.
//!
//! A thread on each CPU sleeps until the next whole millisecond, reads the gauge twice and keeps the second reading, since
//! the first one after a sleep is a few per cent too high. It allocates nothing and takes no lock meanwhile. One reading is
//! taken before the command starts, and one when it has ended, so that a command of a millisecond has two.
//!
//! Where that takes more than one per cent of the CPU, the thread sleeps longer: it knows its own CPU time, and that of
//! earlier runs.

use costof_gauge::{BROKEN, Gauge, State};
use costof_model::timing::{CoreClock, CoreShares};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::sched::{affinity, timers};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

const MIN_PERIOD_NS: u64 = 1_000_000;
/// The state of a core lasts from tenths of a millisecond to seconds: more rarely would say little.
const MAX_PERIOD_NS: u64 = 10_000_000;
/// Reading may take one part in so many of a CPU.
const MAX_COST: u64 = 100;
/// The period is set anew after so many readings.
const READINGS_PER_PERIOD: u64 = 64;

/// What all readings took so far.
#[derive(Debug, Default)]
pub(super) struct Spent {
    cpu_ns: AtomicU64,
    readings: AtomicU64,
}

/// The threads that read.
pub(super) struct Samplers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Counts>>,
}

/// What was read on one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    alone: u32,
    shared: u32,
    readings: u32,
    clock: ClockCounts,
    cpu_ns: u64,
}

/// The clock by the readings on one CPU.
#[derive(Clone, Copy, Debug, Default)]
struct ClockCounts {
    last: Option<f64>,
    sum: f64,
    readings: u32,
    /// The squares of the steps from one reading to the next, and how many there are: they show how far readings scatter,
    /// whatever the clock does in the long run.
    squares: f64,
    steps: u32,
}

/// What all threads read.
pub(super) struct Gauged {
    /// Absent without a single good reading.
    pub(super) core: Option<CoreShares>,
    /// Their CPU time while the command ran.
    pub(super) cpu_ns: u64,
}

impl Samplers {
    /// Starts a thread on each CPU, and waits for its first reading; no thread without a gauge.
    pub(super) fn start(
        gauge: Option<&Gauge>,
        cpus: &[usize],
        spent: &Arc<Spent>,
    ) -> io::Result<Samplers> {
        let mut samplers = Samplers { stop: Arc::default(), threads: Vec::new() };
        let Some(gauge) = gauge else {
            return Ok(samplers);
        };
        let (ready, all_ready) = mpsc::channel();
        for &cpu in cpus {
            let (gauge, ready) = (*gauge, ready.clone());
            let (stop, spent) = (Arc::clone(&samplers.stop), Arc::clone(spent));
            let thread =
                thread::Builder::new().name("costof gauge".to_owned()).spawn(move || {
                    let is_there = affinity::pin(&[cpu]).is_ok();
                    let mut counts = Counts::default();
                    if is_there {
                        counts.add(&gauge);
                    }
                    let _ = ready.send(());
                    if is_there {
                        counts.sample(&gauge, &stop, &spent);
                    }
                    counts
                })?;
            samplers.threads.push(thread);
        }
        for _ in cpus {
            let _ = all_ready.recv();
        }
        Ok(samplers)
    }

    pub(super) fn stop(mut self) -> Gauged {
        self.stop.store(true, Ordering::Relaxed);
        let counts: Vec<Counts> = (self.threads.drain(..))
            .map(|thread| thread.join().expect("reading a gauge does not panic"))
            .collect();
        let total = |of: fn(&Counts) -> u32| counts.iter().map(of).sum::<u32>();
        let readings = total(|counts| counts.readings);
        let share = |count: u32| f64::from(count) / f64::from(readings);
        let clocks: Vec<ClockCounts> = counts.iter().map(|counts| counts.clock).collect();
        Gauged {
            core: (readings > 0).then(|| CoreShares {
                alone: share(total(|counts| counts.alone)),
                shared: share(total(|counts| counts.shared)),
                readings,
                clock: clock(&clocks),
            }),
            cpu_ns: counts.iter().map(|counts| counts.cpu_ns).sum(),
        }
    }
}

/// If starting the command fails, its threads still end.
impl Drop for Samplers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Counts {
    fn sample(&mut self, gauge: &Gauge, stop: &AtomicBool, spent: &Spent) {
        let began_ns = now_ns(ClockId::ThreadCpu);
        let mut period_ns = spent.period_ns();
        let mut due_ns = now_ns(ClockId::Monotonic) + period_ns;
        let mut taken = 0_u64;
        // A thread that cannot sleep would spin beside the command.
        while let Ok(late_ns) = timers::sleep_until_ns(due_ns) {
            // The last reading takes nothing of the command, which has ended.
            let is_last = stop.load(Ordering::Relaxed);
            if is_last || taken % READINGS_PER_PERIOD == READINGS_PER_PERIOD - 1 {
                self.cpu_ns = now_ns(ClockId::ThreadCpu) - began_ns;
            }
            self.add(gauge);
            if is_last {
                break;
            }
            taken += 1;
            if taken.is_multiple_of(READINGS_PER_PERIOD) {
                period_ns = period(self.cpu_ns / taken);
            }
            due_ns += period_ns * (1 + late_ns / period_ns);
        }
        spent.cpu_ns.fetch_add(self.cpu_ns, Ordering::Relaxed);
        spent.readings.fetch_add(taken, Ordering::Relaxed);
    }

    fn add(&mut self, gauge: &Gauge) {
        let first = gauge.read_with_clock();
        let second = gauge.read_with_clock();
        let reading = second.cycles_per_addition;
        // Interrupted during its multiplications.
        if reading < BROKEN * gauge.floor() {
            return;
        }
        self.readings += 1;
        match gauge.state(reading, reading) {
            State::Alone => self.alone += 1,
            State::Shared => self.shared += 1,
            State::Mixed => {}
        }
        // An interrupt makes a clock slow, never fast.
        self.clock.add(first.ticks_per_cycle.min(second.ticks_per_cycle).recip());
    }
}

impl Spent {
    fn period_ns(&self) -> u64 {
        let readings = self.readings.load(Ordering::Relaxed).max(1);
        period(self.cpu_ns.load(Ordering::Relaxed) / readings)
    }
}

impl ClockCounts {
    fn add(&mut self, cycles_per_tick: f64) {
        if let Some(last) = self.last.replace(cycles_per_tick) {
            self.squares += (cycles_per_tick - last).powi(2);
            self.steps += 1;
        }
        self.sum += cycles_per_tick;
        self.readings += 1;
    }
}

/// The mean clock of the readings on all CPUs.
fn clock(cpus: &[ClockCounts]) -> Option<CoreClock> {
    let total = |of: fn(&ClockCounts) -> u32| f64::from(cpus.iter().map(of).sum::<u32>());
    let (readings, steps) = (total(|cpu| cpu.readings), total(|cpu| cpu.steps));
    let sum: f64 = cpus.iter().map(|cpu| cpu.sum).sum();
    let squares: f64 = cpus.iter().map(|cpu| cpu.squares).sum();
    // Each step has the scatter of two readings.
    let error = (squares / (2.0 * steps) / readings).sqrt();
    let clock = CoreClock { cycles_per_tick: sum / readings, error };
    (steps > 0.0 && clock.cycles_per_tick.is_finite() && error.is_finite()).then_some(clock)
}

/// How long to sleep between two readings that take so much.
fn period(each_ns: u64) -> u64 {
    (MAX_COST * each_ns).clamp(MIN_PERIOD_NS, MAX_PERIOD_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn readings_are_taken_before_during_and_after() {
        let cpus = affinity::allowed().unwrap();
        let gauge = Gauge::with_floor(0.01);
        let spent = Arc::default();
        let samplers = Samplers::start(Some(&gauge), &cpus, &spent).unwrap();
        thread::sleep(Duration::from_millis(20));
        let gauged = samplers.stop();
        let core = gauged.core.unwrap();
        // Against a floor that is far too low, all are shared.
        assert!(core.readings as usize >= 2 * cpus.len(), "{core:?}");
        assert_eq!((core.alone, core.shared), (0.0, 1.0));
        let clock = core.clock.unwrap();
        assert!(clock.cycles_per_tick > 0.0 && clock.error >= 0.0, "{clock:?}");
        assert!(gauged.cpu_ns > 0);
        assert_eq!(spent.cpu_ns.load(Ordering::Relaxed), gauged.cpu_ns);
        assert!(Samplers::start(None, &cpus, &spent).unwrap().stop().core.is_none());
    }

    #[test]
    fn broken_readings_do_not_count() {
        let gauge = Gauge::with_floor(1000.0);
        let cpus = affinity::allowed().unwrap();
        let samplers = Samplers::start(Some(&gauge), &cpus, &Arc::default()).unwrap();
        assert!(samplers.stop().core.is_none());
    }

    #[test]
    fn a_clock_is_the_mean_of_its_readings_and_its_error_leaves_slow_changes_out() {
        let read = |readings: &[f64]| {
            let mut counts = ClockCounts::default();
            readings.iter().for_each(|reading| counts.add(*reading));
            counts
        };
        let scattered = clock(&[read(&[1.0, 1.2, 1.0, 1.2])]).unwrap();
        assert!((scattered.cycles_per_tick - 1.1).abs() < 1e-12);
        assert!((scattered.error - 0.2 / 8.0_f64.sqrt()).abs() < 1e-12, "{scattered:?}");
        // Two CPUs with clocks of their own.
        let apart = clock(&[read(&[1.0; 4]), read(&[1.5; 4])]).unwrap();
        assert_eq!((apart.cycles_per_tick, apart.error), (1.25, 0.0));
        assert_eq!(clock(&[read(&[1.0]), read(&[])]), None);
    }

    #[test]
    fn what_reads_slowly_reads_more_rarely() {
        assert_eq!(
            [0, 8_000, 15_000, 900_000].map(period),
            [1_000_000, 1_000_000, 1_500_000, 10_000_000]
        );
    }
}

//! Reads the gauge each millisecond on the CPUs that a command may use, while it runs.
//!
//! A thread on each CPU sleeps until the next whole millisecond, reads the gauge twice and keeps the second reading, since
//! the first one after a sleep is a few per cent too high. It allocates nothing and takes no lock meanwhile. One reading is
//! taken before the command starts, and one when it has ended, so that a command of a millisecond has two.

use crate::gauge::{BROKEN, Gauge};
use costof_model::metric::CoreState;
use costof_model::timing::CoreShares;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::sched::{affinity, timers};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

const PERIOD_NS: u64 = 1_000_000;

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
    cpu_ns: u64,
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
    pub(super) fn start(gauge: Option<&Gauge>, cpus: &[usize]) -> io::Result<Samplers> {
        let mut samplers = Samplers { stop: Arc::default(), threads: Vec::new() };
        let Some(gauge) = gauge else {
            return Ok(samplers);
        };
        let (ready, all_ready) = mpsc::channel();
        for &cpu in cpus {
            let (gauge, stop, ready) = (gauge.clone(), Arc::clone(&samplers.stop), ready.clone());
            let thread = thread::Builder::new().name("costof gauge".to_owned());
            let thread = thread.spawn(move || {
                let is_there = affinity::pin(&[cpu]).is_ok();
                let mut counts = Counts::default();
                if is_there {
                    counts.add(&gauge);
                }
                let _ = ready.send(());
                if is_there {
                    counts.sample(&gauge, &stop);
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
        Gauged {
            core: (readings > 0).then(|| CoreShares {
                alone: share(total(|counts| counts.alone)),
                shared: share(total(|counts| counts.shared)),
                readings,
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
    fn sample(&mut self, gauge: &Gauge, stop: &AtomicBool) {
        let began_ns = now_ns(ClockId::ThreadCpu);
        let mut due_ns = now_ns(ClockId::Monotonic) + PERIOD_NS;
        // A thread that cannot sleep would spin beside the command.
        while let Ok(late_ns) = timers::sleep_until_ns(due_ns) {
            self.add(gauge);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            due_ns += PERIOD_NS * (1 + late_ns / PERIOD_NS);
        }
        self.cpu_ns = now_ns(ClockId::ThreadCpu) - began_ns;
    }

    fn add(&mut self, gauge: &Gauge) {
        gauge.read();
        let reading = gauge.read();
        // Interrupted during its multiplications.
        if reading < BROKEN * gauge.floor() {
            return;
        }
        self.readings += 1;
        match gauge.state(reading, reading) {
            CoreState::Alone => self.alone += 1,
            CoreState::Shared => self.shared += 1,
            CoreState::Mixed => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauge;
    use std::time::Duration;

    #[test]
    fn readings_are_taken_before_during_and_after() {
        let cpus = affinity::allowed().unwrap();
        let gauge = Gauge::new(gauge::reader(), 0.01);
        let samplers = Samplers::start(Some(&gauge), &cpus).unwrap();
        thread::sleep(Duration::from_millis(20));
        let gauged = samplers.stop();
        let core = gauged.core.unwrap();
        // Against a floor that is far too low, all are shared.
        assert!(core.readings as usize >= 2 * cpus.len(), "{core:?}");
        assert_eq!((core.alone, core.shared), (0.0, 1.0));
        assert!(gauged.cpu_ns > 0);
        assert!(Samplers::start(None, &cpus).unwrap().stop().core.is_none());
    }

    #[test]
    fn broken_readings_do_not_count() {
        let gauge = Gauge::new(gauge::reader(), 1000.0);
        let samplers = Samplers::start(Some(&gauge), &affinity::allowed().unwrap()).unwrap();
        assert!(samplers.stop().core.is_none());
    }
}

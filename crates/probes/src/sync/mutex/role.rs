//! A lock, and the threads that contend for it.

use super::{Kind, Mutex};
use crate::prelude::*;
use crate::threads::Sleeper;
use costof_os::sched::locks::{Lock, Pthread, Spin, Std};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that share CPUs get them for some milliseconds each, and a
/// batch in which they all come to their turn lasts several of those.
const SHARED_BATCH_NS: f64 = 20e6;

/// One lock, and those who want it.
pub(super) struct Contention {
    /// glibc locks without an atomic instruction where a process has one thread, and whoever has
    /// a lock has more.
    _second: Sleeper,
    lock: Arc<dyn Lock>,
    /// How often each thread had it.
    turns: Arc<[AtomicU64]>,
    processors: usize,
    crew: Crew,
}

impl Setup<Mutex> for Contention {
    fn blocks(point: &At<Mutex>) -> bool {
        point.threads > 1
    }

    fn set_up(point: &At<Mutex>, launch: &Launch) -> Result<Contention> {
        let lock: Arc<dyn Lock> = match point.kind {
            Kind::Std => Arc::new(Std::default()),
            Kind::Pthread => Arc::new(Pthread::default()),
            Kind::Spin => Arc::new(Spin::default()),
        };
        let threads = point.threads as usize;
        let cpus = threads::sharing(threads, &launch.cpus)?;
        let turns: Arc<[AtomicU64]> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let jobs = (0..threads).map(|thread| job(&lock, &turns, thread));
        Ok(Contention {
            _second: Sleeper::start()?,
            crew: Crew::start(jobs.collect(), cpus)?,
            lock,
            turns,
            processors: cpus.len(),
        })
    }

    fn measure(&mut self, _: &At<Mutex>, meter: &mut Meter<'_>) -> Result {
        if self.turns.len() > self.processors {
            meter.batches_last(SHARED_BATCH_NS);
        }
        meter.crew("cost", &mut self.crew);
        Ok(())
    }

    fn check(self, _: &At<Mutex>, meter: &mut Meter<'_>) -> Result {
        let turns: Vec<u64> =
            self.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect();
        let all: u64 = turns.iter().sum();
        let guarded = self.lock.guarded();
        ensure!(
            guarded.count == all,
            "{all} times a thread had the lock and counted, but the count is {}: two had it at the \
             same time",
            guarded.count
        );
        let least = turns.iter().min().copied().unwrap_or(0);
        let average = all as f64 / turns.len() as f64;
        meter.value("handovers", guarded.handovers as f64 / all as f64);
        meter.value("least_share", least as f64 / average);
        meter.value("processors", self.processors as f64);
        Ok(())
    }
}

/// Takes the lock until all `turns.len()` threads together have had it n times
/// for each.
fn job(lock: &Arc<dyn Lock>, turns: &Arc<[AtomicU64]>, thread: usize) -> Job {
    let (lock, turns) = (Arc::clone(lock), Arc::clone(turns));
    let mut target = 0;
    Box::new(move |n| {
        target += n * turns.len() as u64;
        let counted = lock.count_up_to(target, thread as u64 + 1);
        turns[thread].fetch_add(counted, Ordering::Relaxed);
    })
}

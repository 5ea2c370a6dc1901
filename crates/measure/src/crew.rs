//! A crew: threads that do their work at the same time, for operations whose cost arises only
//! because several threads do them.
//!
//! Between batches, its members spin, so that no batch contains a wake-up.

use crate::gauge::{self, Gauge, Reading};
use costof_model::Failure;
use costof_os::memory::allocator::{adopt, allocations};
use costof_os::sched::affinity;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// Does a member's operation this many times.
pub type Job = Box<dyn FnMut(u64) + Send>;

/// How often a member polls before it yields, if members share CPUs.
const POLLS_BEFORE_YIELDING: u32 = 1000;

/// In place of a number of operations: the members read their gauges.
const READ_GAUGE: u64 = u64::MAX;

/// Several threads, each with its own job. The calling thread is one of them.
// METHOD 15
pub struct Crew {
    own: Job,
    shared: Arc<Shared>,
    members: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Increases when a batch begins.
    batch: AtomicU64,
    /// How many operations each member does in the batch.
    operations: AtomicU64,
    /// How many members have finished, not counting the caller.
    done: AtomicUsize,
    ended: AtomicBool,
    panicked: AtomicBool,
    /// How many allocations the members made in their jobs, not counting the caller.
    allocated: AtomicU64,
    /// Reads the gauge of a member's core; set on first use.
    gauge: OnceLock<gauge::Reader>,
    /// The worst reading of the members, not counting the caller, as the bits of the number: the
    /// bits of positive numbers have the same order as the numbers.
    worst_reading: AtomicU64,
    /// There are more members than CPUs, so a waiting member takes time from the working ones.
    crowded: bool,
}

impl Crew {
    /// Starts a crew. The calling thread does the first job, where it is. Each further job gets a
    /// thread on the next of `cpus`; the first of them is the caller's own, and after the last the
    /// list starts again. Without `cpus` the kernel chooses.
    ///
    /// # Errors
    /// If a thread cannot be started or cannot run on its CPU.
    ///
    /// # Panics
    /// If there are no jobs, which is a bug.
    pub fn start(jobs: Vec<Job>, cpus: &[usize]) -> Result<Crew, Failure> {
        let all = jobs.len();
        let mut jobs = jobs.into_iter();
        let processors = match cpus.len() {
            0 => thread::available_parallelism().map_or(1, usize::from),
            some => some,
        };
        let mut crew = Crew {
            own: jobs.next().expect("a crew has a job"),
            shared: Arc::new(Shared {
                batch: AtomicU64::new(0),
                operations: AtomicU64::new(0),
                done: AtomicUsize::new(0),
                ended: AtomicBool::new(false),
                panicked: AtomicBool::new(false),
                allocated: AtomicU64::new(0),
                gauge: OnceLock::new(),
                worst_reading: AtomicU64::new(0),
                crowded: all > processors,
            }),
            members: Vec::with_capacity(all - 1),
        };
        let (ready, started) = mpsc::channel();
        for (job, position) in jobs.zip(1..) {
            let cpu = (!cpus.is_empty()).then(|| cpus[position % cpus.len()]);
            let shared = Arc::clone(&crew.shared);
            let ready = ready.clone();
            let member = thread::Builder::new()
                .name(format!("crew {position}"))
                .spawn(move || {
                    let placed = cpu.map_or(Ok(()), |cpu| affinity::pin(&[cpu]));
                    let works = placed.is_ok();
                    // The starting thread waits for this.
                    let _ = ready.send(placed);
                    if works {
                        shared.serve(job);
                    }
                })
                .map_err(|error| refused(position, all, &error))?;
            crew.members.push(member);
            match started.recv() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(refused(position, all, &error)),
                Err(_) => return Err(Failure::error("a thread ended before it began")),
            }
        }
        Ok(crew)
    }

    /// Has every member do its job `operations` times, and returns when the last one has finished.
    /// Their allocations count as the calling thread's.
    ///
    /// # Panics
    /// If a member has panicked: its work would be missing from now on.
    pub fn run(&mut self, operations: u64) {
        self.begin(operations);
        (self.own)(operations);
        self.end();
    }

    /// Reads the gauges of all members' cores at the same time, and returns the worst reading; without a clock, since each
    /// core has its own, unless there is one member.
    ///
    /// # Panics
    /// As [`Crew::run`].
    pub fn read_gauges(&mut self, own: &Gauge) -> Reading {
        self.shared.gauge.get_or_init(|| own.reader());
        self.shared.worst_reading.store(0, Ordering::Relaxed);
        self.begin(READ_GAUGE);
        let own = own.read_with_clock();
        self.end();
        let worst = f64::from_bits(self.shared.worst_reading.load(Ordering::Relaxed));
        Reading {
            cycles_per_addition: own.cycles_per_addition.max(worst),
            ticks_per_cycle: if self.members.is_empty() { own.ticks_per_cycle } else { f64::NAN },
        }
    }

    fn begin(&self, operations: u64) {
        let shared = &*self.shared;
        shared.operations.store(operations, Ordering::Relaxed);
        shared.done.store(0, Ordering::Relaxed);
        // The members see the two stores above, and whatever the jobs share.
        shared.batch.fetch_add(1, Ordering::Release);
    }

    fn end(&self) {
        let shared = &*self.shared;
        shared.wait_until(|| shared.done.load(Ordering::Acquire) == self.members.len());
        assert!(!shared.panicked.load(Ordering::Relaxed), "a member of the crew has panicked");
        adopt(shared.allocated.load(Ordering::Relaxed));
        shared.allocated.store(0, Ordering::Relaxed);
    }
}

impl Shared {
    fn serve(&self, mut job: Job) {
        let mut seen = 0;
        loop {
            let mut batch = seen;
            self.wait_until(|| {
                batch = self.batch.load(Ordering::Acquire);
                batch != seen
            });
            seen = batch;
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            let part = Part(self);
            let before = allocations();
            match self.operations.load(Ordering::Relaxed) {
                READ_GAUGE => {
                    let read = self.gauge.get().expect("it is set before it is asked for");
                    let bits = read().cycles_per_addition.to_bits();
                    self.worst_reading.fetch_max(bits, Ordering::Relaxed);
                }
                operations => job(operations),
            }
            let allocated = allocations() - before;
            if allocated > 0 {
                self.allocated.fetch_add(allocated, Ordering::Relaxed);
            }
            drop(part);
        }
    }

    fn wait_until(&self, mut came: impl FnMut() -> bool) {
        let mut polls = 0;
        while !came() {
            polls += 1;
            // Otherwise without a pause instruction: a hypervisor may answer it by taking the CPU
            // away.
            if self.crowded && polls > POLLS_BEFORE_YIELDING {
                thread::yield_now();
            }
        }
    }
}

/// A member's part in a batch. It ends however the job ends.
struct Part<'s>(&'s Shared);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.panicked.store(true, Ordering::Relaxed);
        }
        self.0.done.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        self.shared.batch.fetch_add(1, Ordering::Release);
        for member in self.members.drain(..) {
            // A member that panicked has reported it itself.
            let _ = member.join();
        }
    }
}

fn refused(position: usize, all: usize, error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "cannot start thread {} of {all}: {error} (ulimit -u and the cgroup's pids.max limit \
         threads, --cpu chooses their CPUs)",
        position + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: costof_os::memory::allocator::Counting =
        costof_os::memory::allocator::Counting;

    fn counting(counts: &Arc<Vec<AtomicU64>>) -> Vec<Job> {
        (0..counts.len())
            .map(|position| {
                let counts = Arc::clone(counts);
                let job = move |n| {
                    counts[position].fetch_add(n, Ordering::Relaxed);
                };
                Box::new(job) as Job
            })
            .collect()
    }

    #[test]
    fn every_member_has_done_its_part_when_a_batch_ends() {
        let cpus = affinity::allowed().unwrap();
        for members in [1, 2, cpus.len() + 2] {
            let counts: Arc<Vec<AtomicU64>> =
                Arc::new((0..members).map(|_| AtomicU64::new(0)).collect());
            let mut crew = Crew::start(counting(&counts), &cpus).unwrap();
            for batch in 1..=50 {
                crew.run(7);
                for count in &*counts {
                    assert_eq!(count.load(Ordering::Relaxed), batch * 7);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a member of the crew has panicked")]
    fn a_member_that_panics_ends_the_batch_and_the_crew() {
        let jobs: Vec<Job> = vec![Box::new(|_| {}), Box::new(|_| panic!("as planned"))];
        Crew::start(jobs, &[]).unwrap().run(1);
    }

    #[test]
    fn what_members_allocate_counts_as_the_callers() {
        let jobs: Vec<Job> = vec![
            Box::new(|_| {}),
            Box::new(|n| (0..n).for_each(|i| drop(std::hint::black_box(Box::new(i))))),
        ];
        let mut crew = Crew::start(jobs, &[]).unwrap();
        crew.run(0);
        let before = allocations();
        crew.run(3);
        let first = allocations() - before;
        crew.run(0);
        assert_eq!((first, allocations() - before), (3, 3));
    }

    #[test]
    fn a_member_without_a_processor_ends_the_crew_with_the_reason() {
        let counts: Arc<Vec<AtomicU64>> = Arc::new((0..3).map(|_| AtomicU64::new(0)).collect());
        let failure = Crew::start(counting(&counts), &[0, 0, 60_000]).err().unwrap();
        assert!(failure.reason.contains("thread 3 of 3"), "{}", failure.reason);
    }
}

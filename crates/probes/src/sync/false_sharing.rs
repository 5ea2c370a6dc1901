//! `sync.false_sharing`: what it costs that counters of several threads lie in
//! one cache line.

use crate::cpu::loops::{Body, Loop};
use crate::prelude::*;
use costof_os::memory::line_counters::LineCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters in a line of 64 bytes.
const IN_A_LINE: u64 = 8;

words! {
    /// Where the counters lie.
    pub(crate) enum Lines {
        /// side by side as in an array: eight counters, of 8 bytes, to a line of 64
        Same = "same",
        /// 128 bytes apart, since adjacent lines are often fetched in pairs
        Separate = "separate",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<FalseSharing>();

point! {
    /// What does it cost if the counters of several threads are in one cache line?
    ///
    /// Each thread adds one to its own counter in memory, again and again: load, add and store in
    /// assembly, not atomic, as in a program in which no other thread writes that counter. All
    /// threads
    /// do n increments at the same time, and the cost is the time until the last one is done,
    /// divided by n. Every counter is compared with what its thread has done. Stores wait in the
    /// store buffer while the line is away, and reach it together when it comes, so an increment
    /// costs only a part of the line's journey.
    ///
    /// # Predicted from
    /// the counter in memory (cpu.loop); in one line, from each core's share of the time to the
    /// line's journey (sync.core_to_core), shared by 32 increments, as many as a small store buffer
    /// holds
    ///
    /// # Sources
    /// - J. Torrellas, M. Lam, J. Hennessy, False Sharing and Spatial Locality in Multiprocessor
    ///   Caches, IEEE Transactions on Computers 1994
    /// - Linux Documentation/kernel-hacking/false-sharing.rst
    /// - Intel 64 and IA-32 Architectures Optimization Reference Manual, the spatial prefetcher,
    ///   which fetches pairs of lines
    ///
    /// # Needs
    /// - as many CPUs as threads
    pub(crate) struct FalseSharing of "sync.false_sharing" {
        threads: u64 = threads::axis(
            "how many threads count, each on a CPU of its own; 1 is the base",
            &[2, 1],
        ),
        /// where the counters lie
        lines: Lines = words(),
    }
}

impl Measure for FalseSharing {
    const METRICS: &'static [Metric] = metrics! {
        /// one increment of a thread's own counter
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.loop", "sync.core_to_core"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Counting>];

    fn processors(point: &At<Self>) -> usize {
        point.threads as usize
    }

    fn relations() -> Vec<Relation> {
        vec![
            Relation::because(
                "a line of its own never leaves its core, and one that is shared does",
            )
            .these("lines", Lines::Same.word())
            .these("threads", 2)
            .those("lines", Lines::Separate.word()),
        ]
    }

    headlines! {
        "counter increment: two threads, two lines": { threads: 2, lines: Lines::Separate },
        "counter increment: false sharing": { threads: 2, lines: Lines::Same },
    }

    fn more_points(facts: &Facts) -> Vec<Planned> {
        let more = threads::more(threads::processors(facts));
        Planned::all(more.flat_map(|threads| {
            [Lines::Same, Lines::Separate].map(|lines| FalseSharing { threads, lines })
        }))
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let body = Body::MemoryCounter;
        let counter = measured_cost(measured, &Loop { body }, "to count in memory")?;
        let threads = point.threads;
        if threads == 1 || point.lines == Lines::Separate {
            return (counter * (0.6, 1.8)).predict("cost");
        }
        let trip = core_to_core::to_the_neighbour(facts, measured)?;
        // The line visits all cores that have a counter in it. At best each core holds it for its
        // share of the time; at worst it makes half a round trip for each core, per 32 increments
        // waiting in the store buffer.
        let sharers = threads.min(IN_A_LINE) as f64;
        let best = counter.clone() * sharers;
        let worst = counter + trip * (sharers / 2.0 / 32.0);
        best.up_to(worst).predict("cost")
    }
}

/// The counters of a point, and the threads that count.
struct Counting {
    counters: Arc<LineCounters>,
    /// What each thread should have counted.
    done: Arc<[AtomicU64]>,
    crew: Crew,
}

impl Setup<FalseSharing> for Counting {
    fn set_up(point: &At<FalseSharing>, launch: &Launch) -> Result<Counting> {
        let threads = point.threads as usize;
        let counters = Arc::new(match point.lines {
            Lines::Same => LineCounters::side_by_side(threads),
            Lines::Separate => LineCounters::apart(threads),
        });
        let cpus = threads::on(threads, &launch.cpus)?;
        let done: Arc<[AtomicU64]> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let jobs = (0..threads).map(|thread| job(&counters, &done, thread));
        let crew = Crew::start(jobs.collect(), cpus)?;
        Ok(Counting { counters, done, crew })
    }

    fn measure(&mut self, _: &At<FalseSharing>, meter: &mut Meter<'_>) -> Result {
        meter.crew("cost", &mut self.crew);
        Ok(())
    }

    fn check(self, _: &At<FalseSharing>, _: &mut Meter<'_>) -> Result {
        for (thread, done) in self.done.iter().enumerate() {
            let (done, count) = (done.load(Ordering::Relaxed), self.counters.count(thread));
            ensure!(
                count == done,
                "thread {} counted {done} times, but its counter is {count}",
                thread + 1
            );
        }
        Ok(())
    }
}

fn job(counters: &Arc<LineCounters>, done: &Arc<[AtomicU64]>, thread: usize) -> Job {
    let (counters, done) = (Arc::clone(counters), Arc::clone(done));
    Box::new(move |n| {
        counters.count_up(thread, n);
        done[thread].fetch_add(n, Ordering::Relaxed);
    })
}

//! Threads that stream at the same time, each through memory of its own.

use crate::arenas::{self, Pages};
use costof_measure::crew::{Crew, Job};
use costof_measure::meter::Meter;
use costof_model::failure::Failure;
use costof_os::memory::streams::{Kernel, Stream};
use costof_stats::median;
use std::sync::{Arc, Mutex, PoisonError};

/// How often each kernel is tried.
const TRIALS: usize = 5;

/// One stream for each thread; the first is the calling thread's.
pub(super) struct Team {
    cpus: Vec<usize>,
    streams: Vec<Arc<Mutex<Stream>>>,
}

impl Team {
    /// So many threads on these CPUs, each with an arena of `largest`
    /// bytes, or at least of `needed`, all of it in memory near its thread.
    pub(super) fn start(
        threads: u64,
        cpus: &[usize],
        largest: u64,
        needed: u64,
        pages: Pages,
    ) -> Result<Team, Failure> {
        let stream = |_| {
            // Where the largest is refused (ulimit -v), a smaller point may still fit.
            let arena = arenas::map(largest, pages).or_else(|_| arenas::map(needed, pages))?;
            Ok(Arc::new(Mutex::new(Stream::new(arena))))
        };
        let team = Team {
            cpus: cpus.to_vec(),
            streams: (0..threads).map(stream).collect::<Result<_, Failure>>()?,
        };
        team.each(move |stream| {
            let bytes = stream.arena().len() as u64;
            stream
                .populate()
                .map_err(|error| arenas::failed("touch", bytes, pages, &error))?;
            arenas::check(stream.arena(), pages, arenas::MOSTLY)
        })?;
        Ok(team)
    }

    /// Whether they are so many threads with so much memory each.
    pub(super) fn is_enough(&self, threads: u64, bytes: u64) -> bool {
        let enough = |stream: &Arc<Mutex<Stream>>| {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.arena().len() as u64 >= bytes
        };
        self.streams.len() as u64 == threads && self.streams.iter().all(enough)
    }

    /// Does this once to every thread's stream, each where it will be measured.
    pub(super) fn each(
        &self,
        work: impl Fn(&mut Stream) -> Result<(), Failure> + Clone + Send + 'static,
    ) -> Result<(), Failure> {
        let failed = Arc::new(Mutex::new(None));
        let failing = Arc::clone(&failed);
        let mut crew = self.crew(move |stream, _| {
            if let Err(failure) = work(stream) {
                *failing.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            }
        })?;
        crew.run(1);
        let failure = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    /// A crew of which each member works on its own stream.
    pub(super) fn crew(
        &self,
        work: impl Fn(&mut Stream, u64) + Clone + Send + 'static,
    ) -> Result<Crew, Failure> {
        let jobs = self.streams.iter().map(|stream| {
            let (stream, work) = (Arc::clone(stream), work.clone());
            // Only between batches does anybody else hold it, so nobody waits here.
            let job = move |n| {
                let mut stream = stream.try_lock().expect("a stream is its thread's alone");
                work(&mut stream, n);
            };
            Box::new(job) as Job
        });
        Crew::start(jobs.collect(), &self.cpus)
    }

    /// Lets every thread use this kernel from now on.
    pub(super) fn take(&self, kernel: &'static Kernel) {
        for stream in &self.streams {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.take(kernel);
        }
    }

    /// The kernel with which a crew of theirs streams `n` blocks in the least time, in the
    /// median of the trials: the shortest one may have met memory that is faster than the rest.
    pub(super) fn fastest(
        &self,
        kernels: &[&'static Kernel],
        crew: &mut Crew,
        n: u64,
        meter: &Meter<'_>,
    ) -> &'static Kernel {
        let clock = meter.clock();
        // As much untimed, until the caches hold what this kernel leaves there and not what the
        // one before did, and a little more: an odd number of blocks together, so that the
        // kernels do not come to the same blocks each time.
        let untimed = n + n / 8 + 1 + (n / 8) % 2;
        let mut trials = vec![Vec::with_capacity(TRIALS); kernels.len()];
        for _ in 0..TRIALS {
            for (kernel, trials) in kernels.iter().zip(&mut trials) {
                self.take(kernel);
                crew.run(untimed);
                let start = clock.start();
                crew.run(n);
                trials.push(clock.ns(clock.end().saturating_sub(start)));
            }
        }
        let medians = trials.iter().map(|trials| median(trials));
        let all = kernels.iter().zip(medians);
        all.min_by(|(_, a), (_, b)| a.partial_cmp(b).expect("times are comparable"))
            .map(|(kernel, _)| *kernel)
            .expect("there are kernels")
    }
}

//! Threads that stream at the same time, each through its own memory.

use crate::prelude::*;
use costof_os::memory::streams::{Kernel, Stream};
use std::sync::{Arc, Mutex, PoisonError};

const TRIALS: usize = 5;

/// A stream per thread; the first is the calling thread's.
pub(crate) struct Team {
    cpus: Vec<usize>,
    streams: Vec<Arc<Mutex<Stream>>>,
}

impl Team {
    /// Starts threads on these CPUs, each with an arena of `largest` bytes, or at least of
    /// `needed`, in memory near its CPU, or else of this memory node.
    pub(crate) fn start(
        threads: u64,
        cpus: &[usize],
        largest: u64,
        needed: u64,
        pages: Pages,
        node: Option<u32>,
    ) -> Result<Team> {
        let stream = |_| {
            // If the largest is refused (ulimit -v), a smaller point may still fit.
            let arena = arenas::map(largest, pages).or_else(|_| arenas::map(needed, pages))?;
            node.map_or(Ok(()), |node| arenas::bind(&arena, node))?;
            Ok(Arc::new(Mutex::new(Stream::new(arena))))
        };
        let team =
            Team { cpus: cpus.to_vec(), streams: (0..threads).map(stream).collect::<Result<_>>()? };
        team.each(move |stream| {
            let bytes = stream.arena().len() as u64;
            stream.populate().map_err(|error| arenas::failed("touch", bytes, pages, &error))?;
            arenas::check(stream.arena(), pages, arenas::MOSTLY)
        })?;
        Ok(team)
    }

    /// Whether there are as many threads with as much memory each.
    pub(crate) fn is_enough(&self, threads: u64, bytes: u64) -> bool {
        let enough = |stream: &Arc<Mutex<Stream>>| {
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.arena().len() as u64 >= bytes
        };
        self.streams.len() as u64 == threads && self.streams.iter().all(enough)
    }

    /// Runs `work` once on every thread's stream, each on the CPU where it will be measured.
    pub(crate) fn each(
        &self,
        work: impl Fn(&mut Stream) -> Result + Clone + Send + 'static,
    ) -> Result {
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

    pub(crate) fn crew(
        &self,
        work: impl Fn(&mut Stream, u64) + Clone + Send + 'static,
    ) -> Result<Crew> {
        let jobs = self.streams.iter().map(|stream| {
            let (stream, work) = (Arc::clone(stream), work.clone());
            // Others hold it only between batches, so nobody waits here.
            let job = move |n| {
                let mut stream = stream.try_lock().expect("a stream is its thread's alone");
                work(&mut stream, n);
            };
            Box::new(job) as Job
        });
        Crew::start(jobs.collect(), &self.cpus)
    }

    pub(crate) fn take(&self, kernel: &'static Kernel) {
        for stream in &self.streams {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.take(kernel);
        }
    }

    /// The kernel with the least median time to stream `n` blocks. The median is used because a
    /// single trial may be lucky with its memory.
    pub(crate) fn fastest(
        &self,
        kernels: &[&'static Kernel],
        crew: &mut Crew,
        n: u64,
        meter: &Meter<'_>,
    ) -> &'static Kernel {
        let clock = meter.clock();
        // An untimed pass first, until the caches hold what this kernel leaves there and not what
        // the previous one left, and a little more: an odd number of blocks in all, so that kernels
        // do not start at the same blocks each time.
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

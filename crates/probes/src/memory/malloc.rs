//! `memory.malloc`: what allocating and freeing a block costs.

use crate::prelude::*;
use crate::threads::Sleeper;
use costof_os::memory::heap::{Blocks, Heap, handover};
use std::ffi::CStr;

words! {
    /// Whose malloc.
    pub(crate) enum Allocator {
        /// the C library's
        Libc = "libc",
        /// jemalloc, Debian's libjemalloc2
        Jemalloc = "jemalloc",
        /// mimalloc 2, Debian's libmimalloc2.0
        Mimalloc = "mimalloc",
        /// gperftools' TCMalloc without its profiler, Debian's libtcmalloc-minimal4
        Tcmalloc = "tcmalloc",
    }
}

impl Allocator {
    /// Its library, and the package that has it; none for the C library's.
    fn library(self) -> Option<(&'static CStr, &'static str)> {
        match self {
            Allocator::Libc => None,
            Allocator::Jemalloc => Some((c"libjemalloc.so.2", "libjemalloc2")),
            Allocator::Mimalloc => Some((c"libmimalloc.so.2", "libmimalloc2.0")),
            Allocator::Tcmalloc => Some((c"libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")),
        }
    }

    fn load(self) -> Result<Heap> {
        let Some((library, package)) = self.library() else {
            return Ok(Heap::of_c_library());
        };
        Heap::load(library).or_unsupported_hint(
            format_args!("cannot load {}", self.word()),
            format_args!("Debian and Ubuntu: apt install {package}"),
        )
    }
}

words! {
    /// Which thread frees a block.
    pub(crate) enum Frees {
        /// the one that has allocated it
        Same = "same",
        /// a second thread, on another CPU, to which each block is handed over
        Other = "other",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Malloc>();

point! {
    /// What does it cost to allocate and free a block, by the allocator?
    ///
    /// Threads allocate a burst of blocks of one size, write the first byte of each, and free them in the same order. With
    /// burst=1 an allocator gives the same block again from the thread's own cache; with burst=1000 it needs its lists,
    /// and its locks. With frees=other one thread allocates and another frees, through a queue of 256 places, each on a
    /// cache line of its own: cost is what a block takes while both work at the same time, so it contains the journey
    /// of the block's place. The process has at least two threads, since glibc leaves out its locks with one. Other
    /// allocators are loaded into the same process (dlopen), and nothing else uses them; a worker's
    /// GLIBC_TUNABLES make room for their variables.
    ///
    /// # Predicted from
    /// up to 16 KiB: cycles (cpu.frequency) for a block from the thread's cache or from the allocator's lists; where
    /// another thread frees, the journeys of cache lines (sync.core_to_core). Larger blocks have no prediction: it is the
    /// allocator's choice when they go back to the kernel
    ///
    /// # Sources
    /// - malloc(3), mallopt(3) on M_MMAP_THRESHOLD; glibc malloc/malloc.c, tcache: 7 blocks of each size up to 1,032 bytes
    /// - J. Evans, A Scalable Concurrent malloc(3) Implementation for FreeBSD, BSDCan 2006
    /// - D. Leijen, B. Zorn, L. de Moura, Mimalloc: Free List Sharding in Action, APLAS 2019
    /// - mimalloc-bench, alloc-test and xmalloc-test: threads that free what others allocate
    ///
    /// # Needs
    /// - for other allocators than the C library's: their Debian packages, and a build that is not static
    /// - for frees=other or several threads: a CPU for each
    pub(crate) struct Malloc of "memory.malloc" {
        /// bytes of a block
        size: usize = bytes(1..=64 << 20, &[64, 1 << 10, 16 << 10, 1 << 20]),
        /// whose malloc
        allocator: Allocator = words(),
        /// how many blocks are allocated before they are freed
        burst: usize = count(1..=100_000, &[1, 1000]),
        threads: u64 = threads::axis("how many threads do so at the same time, each on its CPU", &[1, 2]),
        /// which thread frees a block
        frees: Frees = words(),
    }
}

impl Measure for Malloc {
    const METRICS: &'static [Metric] = metrics! {
        /// to allocate and free one block
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency", "sync.core_to_core"];
    const CROSSINGS: &'static [NameList] = &[&["size", "allocator"], &["burst", "allocator"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 10, 60));
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Allocating>];

    headlines! {
        "malloc and free: 64 B": {},
    }

    fn check_axes(point: &At<Self>) -> Result {
        if point.frees == Frees::Other && (point.threads, point.burst) != (2, 1) {
            unsupported!(
                "where another thread frees, there are two and no burst (--set threads=2,burst=1)"
            );
        }
        Ok(())
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        let other = |&allocator: &Allocator| Malloc {
            size: 64,
            allocator,
            burst: 1,
            threads: 2,
            frees: Frees::Other,
        };
        Planned::all(Allocator::ALL.iter().map(other))
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        // Where huge pages are always on, the first byte of a block brings all of it.
        point.size as u64 * point.burst as u64 * point.threads
    }

    fn processors(point: &At<Self>) -> usize {
        point.threads as usize
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        if point.size > 16 << 10 || point.threads > threads::processors(facts) {
            return None;
        }
        let own = match point.burst == 1 && point.size <= 1 << 10 {
            true => cycles(measured, (12.0, 70.0), "for a block of the thread's own cache")?,
            false => cycles(measured, (8.0, 400.0), "for a block of the allocator's lists")?,
        };
        match point.frees {
            Frees::Same => own.predict("cost"),
            Frees::Other => {
                let line = core_to_core::to_the_neighbour(facts, measured)?;
                let lines = (line * (0.2, 2.5)).named("for the block's lines to the other core");
                (own + lines).predict("cost")
            }
        }
    }
}

/// Threads, each with its blocks.
struct Allocating {
    _second: Sleeper,
    crew: Crew,
}

impl Setup<Malloc> for Allocating {
    fn set_up(point: &At<Malloc>, launch: &Launch) -> Result<Allocating> {
        Malloc::check_axes(point)?;
        let heap = point.allocator.load()?;
        arenas::ensure_fits(Malloc::memory_bytes(point))?;
        let threads = point.threads as usize;
        threads::have_one_each(threads, &launch.cpus)?;
        let jobs = match point.frees {
            Frees::Same => (0..threads).map(|_| allocates_and_frees(heap, point)).collect(),
            Frees::Other => hands_over(heap, point.size),
        };
        Ok(Allocating { _second: Sleeper::start()?, crew: Crew::start(jobs, &launch.cpus)? })
    }

    fn measure(&mut self, point: &At<Malloc>, meter: &mut Meter<'_>) -> Result {
        meter.batches_are_multiples_of(point.burst as u64);
        meter.crew("cost", &mut self.crew);
        Ok(())
    }
}

fn allocates_and_frees(heap: Heap, point: &Malloc) -> Job {
    let mut blocks = Blocks::new(heap, point.size, point.burst);
    Box::new(move |n| blocks.turn(n))
}

fn hands_over(heap: Heap, size: usize) -> Vec<Job> {
    let (mut allocates, mut frees) = handover(heap, size);
    vec![Box::new(move |n| allocates.turn(n)), Box::new(move |n| frees.turn(n))]
}

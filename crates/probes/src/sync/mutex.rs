//! `sync.mutex`: what locking and unlocking costs, alone and in a crowd.

mod role;

use crate::prelude::*;
use role::Contention;

words! {
    /// Which lock.
    pub(crate) enum Kind {
        /// Rust's std::sync::Mutex: a futex, polled a hundred times before sleeping
        Std = "std",
        /// pthread_mutex_t of the default type: in glibc a futex; a thread that finds it taken
        /// sleeps
        Pthread = "pthread",
        /// test and test-and-set with the CPU's hint, which never sleeps
        Spin = "spin",
    }
}

/// A turn of one thread, in round trips of the lock's line: a quarter if it takes the lock twice
/// before another gets it, and up to two journeys where the waiting cores take the line in between.
const TURN: (f64, f64) = (0.25, 0.9);

pub(crate) static PROBE: Probe = Probe::new::<Mutex>();

point! {
    /// What does it cost to lock and unlock a mutex?
    ///
    /// Threads lock, count in memory that is in the lock's own cache line, and unlock, without work
    /// in between: contention is as high as it can be. A batch of n ends when all threads together
    /// have made n turns for each of them, no matter who made how many, so the lock is contended
    /// until the end. If each thread did its own n, an unfair lock would leave the last ones alone.
    /// The cost is the time divided by n. That no count is lost shows that the lock excludes.
    /// Contended locks have several modes: a thread that finds the lock taken sleeps or spins, by
    /// the kind of lock and by chance, and a thread that releases it often takes it again before
    /// another's request for its line arrives. The handovers distinguish the modes. If the line's
    /// journey is longer, more turns stay with the same thread, so a contended lock need not cost
    /// more there. With more threads than CPUs, a batch lasts at least 20 ms, so that every thread
    /// gets its turn; a spinning thread then takes CPU time from a holder that is not running, and
    /// until the scheduler's next tick no thread makes progress.
    ///
    /// # Predicted from
    /// alone, two atomic instructions of 7 to 23 cycles at the core clock (cpu.frequency);
    /// contended, the turns of each thread, for each of which the lock's line comes from another
    /// core or stays (sync.core_to_core)
    ///
    /// # Sources
    /// - pthread_mutex_lock(3p); futex(2)
    /// - U. Drepper, Futexes Are Tricky, 2011
    /// - T. E. Anderson, The Performance of Spin Lock Alternatives for Shared-Memory
    ///   Multiprocessors, IEEE TPDS 1990
    /// - Numbers everyone should know, measured as a course project: mutex lock and unlock 10 to 20
    ///   ns
    ///
    /// # Needs
    /// - for more than one thread, two CPUs
    pub(crate) struct Mutex of "sync.mutex" {
        /// which lock
        kind: Kind = words(),
        threads: u64 = threads::axis(
            "how many threads lock it over and over, each on a CPU of its own as far as \
             there are so many",
            &[1, 2],
        ),
    }
}

impl Measure for Mutex {
    const METRICS: &'static [Metric] = metrics! {
        /// what one thread pays for lock and unlock, on average over the threads
        cost: Nanoseconds Lower,
        /// the share of turns taken by another thread than the turn before: near 1 where threads
        /// alternate, near 0 where each has the lock for many turns in a row
        handovers: One Neither,
        /// the turns of the thread that had the fewest, divided by the average: 1 where all get the
        /// same, 0 where one starved
        least_share: One Neither,
        /// number of CPUs that the threads run on; more threads than that share CPUs
        processors: One Neither,
    };
    const AFTER: NameList = &["cpu.frequency", "os.syscall", "sync.core_to_core"];
    const CROSSINGS: &'static [NameList] = &[&["kind", "threads"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Contention>];

    fn processors(point: &At<Self>) -> usize {
        point.threads as usize
    }

    headlines! {
        "mutex: lock and unlock": {},
        "mutex: lock and unlock, two threads contend": { threads: 2 },
    }

    /// At most twice as many threads as CPUs, of each kind.
    fn more_points(facts: &Facts) -> Vec<Planned> {
        let more = threads::more(2 * threads::processors(facts));
        Planned::all(more.flat_map(|threads| {
            let kinds = Kind::ALL.iter();
            kinds.map(move |&kind| Mutex { kind, threads })
        }))
    }

    /// A thread that releases a contended lock has its cache line, and often takes it again before
    /// another's request for the line arrives: the longer the journey, the more turns stay with one
    /// thread. At best the threads lock as fast as one alone for half of the time, and the line
    /// travels in the other half; at worst every turn is handed over, which takes the line's
    /// journey one way: half a round trip. A thread that sleeps adds a system call, its own or that
    /// of the thread that wakes it. The wake-up itself, many turns long, costs nothing, since the
    /// others go on meanwhile; for the same reason not every turn has such a call. At most every
    /// fourth is assumed to have one.
    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let threads = point.threads;
        let sleeps = point.kind != Kind::Spin;
        if threads == 1 {
            let (cycles, because) = if sleeps {
                ((14.0, 46.0), "two atomic instructions of 7 to 23 cycles each")
            } else {
                ((8.0, 27.0), "an atomic exchange and a store")
            };
            return cost_cycles(measured, cycles, because);
        }
        if threads > threads::processors(facts) {
            // The scheduler decides when they get CPUs.
            return None;
        }
        let line = core_to_core::to_the_neighbour(facts, measured)?;
        let turn = (line * TURN).named("for a turn");
        (turn * threads as f64).predict("cost")
    }
}

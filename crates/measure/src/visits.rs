//! Visits to a core: stretches in which something else uses its execution units, as shown by a
//! gauge that is read without pause.
//!
//! A reading is *shared* if it is at least 1.15 times the floor. A visit begins with the first of
//! two shared readings in a row, and ends before the first of two in a row that are not. A single
//! reading proves nothing, since a short interrupt within it looks like a neighbour. A reading that
//! took more than 2.5 times the shortest, or that lies below the floor, was interrupted and does
//! not count: its time is neither watched nor part of a visit, and it neither begins nor ends one.

use crate::clock::Clock;
use crate::gauge::{BROKEN, Gauge};

/// A reading is shared from this many times the floor on. On a shared Zen 4, 98 % of the readings
/// lie within 5 % of the floor, almost none at 1.05 to 1.1 times the floor, and those of visits at
/// 1.1 to 1.8 times. Thresholds from 1.05 to 1.15 find the same visits; at 1.3, visits break into
/// pieces.
const VISITED: f64 = 1.15;
/// A reading that took this many times the shortest was interrupted. A neighbour that takes half of
/// the core makes a reading last 1.4 times as long.
const INTERRUPTED: f64 = 2.5;
/// The neighbour's share of the core is counted in thousandths.
const PARTS: usize = 1000;

/// The readings of a gauge, and what they show about the neighbour.
pub struct Visits {
    floor: f64,
    shortest_ns: f64,
    is_shared: bool,
    /// The time of the last reading, if its state differs from that of the readings before it.
    odd_ns: Option<f64>,
    /// For how long the current state has lasted.
    since_ns: f64,
    /// For how long the core was watched, without interrupted readings, in nanoseconds.
    pub watched_ns: f64,
    shared_ns: f64,
    /// How many visits began in that time.
    pub begun: u64,
    /// For each number of thousandths: how many shared readings show that the neighbour takes that
    /// many.
    taken: Vec<u32>,
}

impl Visits {
    /// For a gauge with this floor.
    pub fn new(floor: f64) -> Visits {
        Visits {
            floor,
            shortest_ns: f64::INFINITY,
            is_shared: false,
            odd_ns: None,
            since_ns: 0.0,
            watched_ns: 0.0,
            shared_ns: 0.0,
            begun: 0,
            taken: vec![0; PARTS],
        }
    }

    /// Counts a reading that ended `ns` after the one before it. Returns the length in nanoseconds
    /// of the visit that ended with it, if one did.
    pub fn add(&mut self, reading: f64, ns: f64) -> Option<f64> {
        let times = reading / self.floor;
        self.shortest_ns = self.shortest_ns.min(ns);
        if times < BROKEN || ns > INTERRUPTED * self.shortest_ns {
            return None;
        }
        self.watched_ns += ns;
        let is_shared = times >= VISITED;
        if is_shared == self.is_shared {
            self.count_taken(times);
            self.since_ns += ns + self.odd_ns.take().unwrap_or(0.0);
            return None;
        }
        let Some(odd_ns) = self.odd_ns.take() else {
            self.odd_ns = Some(ns);
            return None;
        };
        self.count_taken(times);
        let ended = self.end();
        // A visit that was there from the start does not count as begun.
        self.begun += u64::from(is_shared && self.watched_ns > odd_ns + ns);
        self.is_shared = is_shared;
        self.since_ns = odd_ns + ns;
        ended
    }

    /// Ends the current visit, if there is one, and returns its length so far.
    pub fn end(&mut self) -> Option<f64> {
        let visit_ns = self.is_shared.then_some(self.since_ns)?;
        self.shared_ns += visit_ns;
        self.is_shared = false;
        self.since_ns = 0.0;
        Some(visit_ns)
    }

    /// The share of that time that visits took, from 0 to 1, once the last visit has ended; `None`
    /// if the core was not watched.
    pub fn shared(&self) -> Option<f64> {
        (self.watched_ns > 0.0).then(|| self.shared_ns / self.watched_ns)
    }

    /// The share of the core's execution slots that the neighbour takes during its visits, from 0
    /// to 1: the median of the shared readings; `None` if there are none.
    pub fn taken(&self) -> Option<f64> {
        let all: u64 = self.taken.iter().map(|count| u64::from(*count)).sum();
        let mut until = 0;
        let median = self.taken.iter().position(|count| {
            until += u64::from(*count);
            2 * until >= all
        });
        let middle = |part| (part as f64 + 0.5) / PARTS as f64;
        median.filter(|_| all > 0).map(middle)
    }

    fn count_taken(&mut self, times: f64) {
        if times >= VISITED {
            let part = (1.0 - 1.0 / times) * PARTS as f64;
            self.taken[(part as usize).min(PARTS - 1)] += 1;
        }
    }
}

/// Reads the gauge of the core on which it is called for `for_ns`. Passes the length of each visit
/// to `visit`, in nanoseconds; for a visit that the end cuts short, its length so far. Allocates
/// only before it begins.
pub fn watch(gauge: &Gauge, clock: &dyn Clock, for_ns: f64, mut visit: impl FnMut(f64)) -> Visits {
    let mut visits = Visits::new(gauge.floor);
    let began = clock.end();
    let mut last = began;
    while clock.ns(last.saturating_sub(began)) < for_ns {
        let reading = gauge.read();
        let now = clock.end();
        if let Some(ns) = visits.add(reading, clock.ns(now.saturating_sub(last))) {
            visit(ns);
        }
        last = now;
    }
    if let Some(ns) = visits.end() {
        visit(ns);
    }
    visits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::testing::Computed;
    use crate::gauge::without_clock;
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    const FLOOR: f64 = 0.25;
    const ALONE_NS: f64 = 2_000.0;
    const VISITED_NS: f64 = 2_800.0;

    /// Readings in a row: `a` alone, `s` shared with one that takes a third, `i` interrupted, `l` too
    /// low since its multiplications were. The visits' lengths, and what was seen.
    fn watched(readings: &str) -> (Vec<f64>, Visits) {
        let mut visits = Visits::new(FLOOR);
        let mut lengths = Vec::new();
        for letter in readings.chars() {
            lengths.extend(match letter {
                'a' => visits.add(FLOOR * 1.01, ALONE_NS),
                's' => visits.add(FLOOR * 1.5, VISITED_NS),
                'i' => visits.add(FLOOR * 9.0, 40_000.0),
                'l' => visits.add(FLOOR * 0.5, VISITED_NS),
                _ => panic!("no reading is called {letter}"),
            });
        }
        lengths.extend(visits.end());
        (lengths, visits)
    }

    #[test]
    fn a_visit_is_two_readings_at_least() {
        let (lengths, visits) = watched("aaassssaa");
        assert_eq!(lengths, [4.0 * VISITED_NS]);
        assert_eq!(visits.begun, 1);
        let shared = 4.0 * VISITED_NS / (4.0 * VISITED_NS + 5.0 * ALONE_NS);
        assert!((visits.shared().unwrap() - shared).abs() < 1e-9);
        assert!((visits.taken().unwrap() - 1.0 / 3.0).abs() < 1e-3);
        // A single reading that differs counts as those around it do.
        assert!(watched("aaasaaa").0.is_empty());
        assert_eq!(watched("aassass").0, [4.0 * VISITED_NS + ALONE_NS]);
        assert_eq!(watched("aassaass").0, [2.0 * VISITED_NS; 2]);
    }

    #[test]
    fn an_interrupted_reading_is_no_state() {
        assert!(watched("aaiiaaiaia").0.is_empty());
        let (lengths, visits) = watched("aasslisiissilaa");
        assert_eq!(lengths, [5.0 * VISITED_NS]);
        assert_eq!(visits.watched_ns, 5.0 * VISITED_NS + 4.0 * ALONE_NS);
    }

    #[test]
    fn a_visit_that_was_there_from_the_beginning_did_not_begin() {
        let (lengths, visits) = watched("ssssss");
        assert_eq!(lengths, [6.0 * VISITED_NS]);
        assert_eq!((visits.begun, visits.shared()), (0, Some(1.0)));
        assert_eq!(watched("ssssaass").1.begun, 1);
    }

    #[test]
    fn a_core_that_is_alone_has_no_visits() {
        let (lengths, visits) = watched("aaaaaa");
        assert!(lengths.is_empty());
        assert_eq!((visits.shared(), visits.taken()), (Some(0.0), None));
        assert_eq!(watched("").1.shared(), None);
    }

    /// A neighbour that comes and goes by chance, for 100 µs in the mean, on a machine with
    /// interrupts.
    #[test]
    fn a_neighbour_of_two_states_is_found() {
        for seed in 0..5 {
            let now = Arc::new(AtomicU64::new(0));
            let random = std::sync::Mutex::new((fastrand::Rng::with_seed(seed), false, [0.0; 2]));
            let truth = Arc::new(random);
            let (time, neighbour) = (Arc::clone(&now), Arc::clone(&truth));
            let read = move || {
                let (random, is_there, spent) = &mut *neighbour.lock().unwrap();
                let ns = if *is_there { VISITED_NS } else { ALONE_NS };
                let is_interrupted = random.f64() < 0.01;
                if !is_interrupted {
                    spent[usize::from(*is_there)] += ns;
                }
                let leaves = if *is_there { ns / 100e3 } else { ns / 300e3 };
                let times =
                    if *is_there { 1.4 + 0.2 * random.f64() } else { 0.99 + 0.03 * random.f64() };
                *is_there ^= random.f64() < leaves;
                let interrupted = if is_interrupted { 15e3 } else { 0.0 };
                time.fetch_add((ns + interrupted) as u64, Ordering::Relaxed);
                FLOOR * if is_interrupted { 8.0 } else { times }
            };
            let gauge = Gauge::new(without_clock(read), FLOOR);
            let mut lengths = Vec::new();
            // Time moves as the gauge is read, and with each reading of the clock.
            let readings = Cell::new(0);
            let now_ns = || {
                readings.set(readings.get() + 1);
                now.load(Ordering::Relaxed) + 20 * readings.get()
            };
            let read_ns = 20.0;
            let clock = Computed { now_ns, read_ns };
            let visits = watch(&gauge, &clock, 1e9, |ns| lengths.push(ns));
            let spent = truth.lock().unwrap().2;
            let shared = spent[1] / (spent[0] + spent[1]);
            assert!((visits.shared().unwrap() / shared - 1.0).abs() < 0.02, "seed {seed}");
            let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
            assert!((95e3..110e3).contains(&mean), "seed {seed}: {mean}");
            assert!((visits.taken().unwrap() - 1.0 / 3.0).abs() < 0.01, "seed {seed}");
        }
    }
}

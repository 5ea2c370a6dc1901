//! Was the core shared while I measured?
//!
//! Most cores have two hardware threads. What runs on the other one, in another process or in
//! another virtual machine of the same host, takes a third and more of the core's speed. Steal time,
//! load and the scheduler's counters do not show it. A gauge does, in two microseconds, without
//! privilege: read it before and after what you time, and the sample is [`Alone`](State::Alone),
//! [`Shared`](State::Shared) or [`Mixed`](State::Mixed).
//!
//! ```
//! use costof_gauge::{Gauge, State};
//! use std::time::Instant;
//!
//! let Some(mut gauge) = Gauge::calibrate() else {
//!     return; // The readings agree on no floor: measure without stamps.
//! };
//! let mut readings = vec![gauge.read()];
//! let mut times = Vec::new();
//! for _ in 0..1_000 {
//!     let start = Instant::now();
//!     for n in 0..10_000_u64 {
//!         std::hint::black_box(n * n); // 10 to 200 microseconds of what you want to know
//!     }
//!     times.push(start.elapsed().as_nanos());
//!     readings.push(gauge.read());
//! }
//! // More readings, so that a core that was never alone at first is not taken for alone.
//! gauge.lower_floor(&mut readings.clone());
//! let samples = times.iter().zip(readings.windows(2));
//! let is_alone = |around: &[f64]| gauge.state(around[0], around[1]) == State::Alone;
//! let mut alone: Vec<_> = samples.filter(|(_, around)| is_alone(around)).map(|(ns, _)| ns).collect();
//! alone.sort_unstable();
//! match alone.get(alone.len() / 2) {
//!     Some(ns) => println!("{ns} ns with the core alone, {} of 1000 samples", alone.len()),
//!     None => println!("the core was never alone"),
//! }
//! ```
//!
//! The stamp must decide **before anybody looks at the time**. Whoever drops samples because they
//! are slow gets the number that they wish for. Whoever drops the shared ones gets the cost with the
//! core alone.
//!
//! # How it works
//!
//! A core executes several additions in a cycle. A second hardware thread takes some of these slots,
//! so independent additions become slower. A chain of dependent multiplications needs so few slots
//! that it keeps its pace, and its pace is the core's clock. A reading is the time of one loop over
//! that of the other: **core cycles per addition**. The clock's frequency cancels out. While nothing
//! else uses the core a reading is at its sharp floor: 0.292 on AMD Zen 1 to 4, 0.20 to 0.21 on Intel
//! Sapphire Rapids. Beside a neighbour it is 1.3 to 2 times that.
//!
//! # What to know
//!
//! - **Time 10 to 200 microseconds between two readings.** Neighbours come and go within tens of
//!   microseconds to seconds, and a change between the readings is not seen. Split what takes longer
//!   into batches, and let the reading after one batch be the reading before the next.
//! - **Stay on one CPU**, by `sched_setaffinity` or `taskset`, or at least on cores of one design.
//! - **Alone is not undisturbed.** Interrupts, preemption and steal time are seen by clocks and
//!   counters. Neighbours on *other* cores (last-level cache, memory bandwidth) are not seen.
//! - **A floor is too high** if the core was never alone while it was found and its design is not in
//!   the table ([`design_floor`]): then shared samples are called alone. [`Gauge::lower_floor`] learns
//!   from the readings of all samples. Keep the lowest floor of a machine for [`Gauge::with_floor`].
//! - That the neighbour is a second hardware thread is inferred. A guest often sees no siblings.
//!
//! The same gauge for C and C++ is the header `include/costof_gauge.h`.
//!
//! # Prior art
//!
//! - Zhang, Laurenzano, Mars, Tang, "SMiTe: Precise QoS Prediction on Real-System SMT Processors to
//!   Improve Utilization in Warehouse Scale Computers", MICRO 2014: stressors for each resource that
//!   hardware threads share predict, offline and on the host, how programs slow each other.
//! - Cabrera Aldaya, Brumley, ul Hassan, Pereida García, Tuveri, "Port Contention for Fun and
//!   Profit" (PortSmash), IEEE S&P 2019, and Bhattacharyya et al., "SMoTherSpectre: Exploiting
//!   Speculative Execution through Port Contention", CCS 2019: the time of own instructions shows
//!   which execution ports the sibling uses, as a side channel.
//! - Verdú, Costa, Otero, Rodriguez, Pajuelo, Canal, "Platform-Agnostic Steal-Time Measurement in a
//!   Guest Operating System", arXiv 1810.01139 (2018): a deterministic loop in the guest measures
//!   time that the hypervisor took.
//! - Zhang, Tune, Hagmann, Jnagal, Gokhale, Wilkes, "CPI²: CPU performance isolation for shared
//!   compute clusters", EuroSys 2013: the host's counters of cycles per instruction find tasks that
//!   suffer, and who makes them.
//!
//! None of them judges single samples of a measurement from inside a guest.
//!
//! # Platforms
//!
//! x86-64 and aarch64, any operating system that lets programs read the time-stamp counter. It needs
//! neither `std` nor an allocator, and no other crate.

#![no_std]

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("costof-gauge reads cores of x86-64 and aarch64; it does not build for others");

mod asm_loop;
pub mod chain;
pub mod counter;
mod floor;
mod reader;
pub mod slots;

pub use floor::{design_floor, plateau};
pub use reader::{Reader, Reading};

use core::fmt;

/// The core was alone if both readings are at most this many times the floor.
pub const ALONE: f64 = 1.05;
/// It was shared if both are at least this many times the floor.
pub const SHARED: f64 = 1.3;
/// A reading below this many times the floor was interrupted during its multiplications, and says
/// nothing.
pub const BROKEN: f64 = 0.9;

/// Whether something else used the core between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing did, before or after.
    Alone,
    /// Something did, before and after.
    Shared,
    /// Something started, stopped, or used little of it; or a reading was interrupted.
    Mixed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Alone => "alone",
            State::Shared => "shared",
            State::Mixed => "mixed",
        })
    }
}

/// The state of a core with this floor between two readings, all in core cycles per addition. Without a
/// floor above 0 it is mixed.
pub fn state(floor: f64, before: f64, after: f64) -> State {
    let both = |is: &dyn Fn(f64) -> bool| is(before / floor) && is(after / floor);
    if both(&|times| (BROKEN..=ALONE).contains(&times)) {
        State::Alone
    } else if floor > 0.0 && both(&|times| times >= SHARED) {
        State::Shared
    } else {
        State::Mixed
    }
}

/// A gauge with a known floor.
#[derive(Clone, Copy, Debug)]
pub struct Gauge {
    reader: Reader,
    floor: f64,
}

impl Gauge {
    /// A gauge whose floor is found now, at the core that the calling thread is on, in some 4
    /// milliseconds; 16 KiB of stack. `None` if the readings are scattered and the core's design is
    /// not in the table.
    pub fn calibrate() -> Option<Gauge> {
        let reader = Reader::new();
        let floor = reader.floor(floor::of_this_design())?;
        Some(Gauge { reader, floor })
    }

    /// A gauge with a floor that is known: of an earlier calibration, another process, or a file.
    pub fn with_floor(floor: f64) -> Gauge {
        let reader = Reader::new();
        Gauge { reader, floor }
    }

    /// Lowers the floor to what these readings agree on, if that is lower: then the core was never
    /// alone while the gauge was calibrated. Keep the readings of your samples, call this, and decide
    /// then which samples were alone. Sorts the readings.
    pub fn lower_floor(&mut self, readings: &mut [f64]) {
        let floor = floor::choose(plateau(readings), floor::of_this_design());
        self.floor = floor.map_or(self.floor, |floor| floor.min(self.floor));
    }

    /// Core cycles per addition now: see [`Reader::read`].
    pub fn read(&self) -> f64 {
        self.reader.read()
    }

    /// The same reading, with the core's clock: see [`Reader::read_with_clock`].
    pub fn read_with_clock(&self) -> Reading {
        self.reader.read_with_clock()
    }

    /// Core cycles per addition while the core is alone.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// The state of the core between two readings. For several cores that worked at the same time,
    /// a reading is the highest of theirs.
    pub fn state(&self, before: f64, after: f64) -> State {
        state(self.floor, before, after)
    }

    /// Does the work between two readings: its result, and the state of the core meanwhile.
    pub fn around<T>(&self, work: impl FnOnce() -> T) -> (T, State) {
        let before = self.read();
        let result = work();
        (result, self.state(before, self.read()))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn both_readings_decide_and_no_time_does() {
        for (before, after, expected) in [
            (0.21, 0.22, State::Alone),
            (0.21, 0.23, State::Mixed),
            (0.28, 0.40, State::Shared),
            (0.21, 0.40, State::Mixed),
            // Interrupted while the yardstick ran.
            (0.21, 0.001, State::Mixed),
            (0.21, f64::NAN, State::Mixed),
        ] {
            assert_eq!(state(0.212, before, after), expected, "{before} {after}");
        }
        // Nothing is known without a floor.
        assert_eq!(state(0.0, 0.21, 0.22), State::Mixed);
    }

    #[test]
    fn a_floor_is_lowered_and_never_raised() {
        // Far below the floor of any design.
        let mut gauge = Gauge::with_floor(0.001);
        gauge.lower_floor(&mut [0.5; 100]);
        assert_eq!(gauge.floor(), 0.001);
        let mut gauge = Gauge::with_floor(1e9);
        gauge.lower_floor(&mut [0.5; 100]);
        assert!(gauge.floor() <= 0.5, "{}", gauge.floor());
    }

    #[test]
    fn work_is_done_once_and_its_result_returned() {
        let gauge = Gauge::with_floor(1e9);
        let mut done = 0;
        let (result, state) = gauge.around(|| {
            done += 1;
            done
        });
        // No reading comes near such a floor.
        assert_eq!((result, done, state.to_string().as_str()), (1, 1, "mixed"));
    }
}

//! Turns costs into numbers to trust: what a probe is, clocks, batches, launches, estimates, noise,
//! counters, facts, and the worker's loop over a table of probes.
//!
//! This crate never knows a particular probe.

pub mod alone;
pub mod bill;
pub mod clock;
pub mod command;
pub mod compare;
pub mod core_clock;
pub mod counters;
pub mod crew;
pub mod distance;
pub mod estimate;
pub mod facts;
pub mod fitness;
pub mod fleet;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use facts::fuzzing;
pub mod gaps;
pub mod gauge;
pub mod grade;
pub mod history;
mod hosts;
mod launches;
pub mod link_end;
mod look;
pub mod meter;
pub mod noise;
pub mod own;
pub mod place;
pub mod probe;
pub mod processor_ticks;
pub mod qualify;
pub mod schedule;
pub mod shared_ratio;
pub mod sibling;
pub mod trials;
pub mod turn;
pub mod visits;
pub mod worker;

//! Threads: where they run, what they use, and what they wait for.

pub mod affinity;
pub mod locks;
pub(crate) mod partner;
pub mod real_time;
pub mod tasks;
pub mod threads;
pub mod timers;
pub mod usage;

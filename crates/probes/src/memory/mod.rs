//! Caches and memory.

pub(crate) mod bandwidth;
pub(crate) mod latency;

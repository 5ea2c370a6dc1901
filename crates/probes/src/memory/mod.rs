//! Caches and memory.

pub(crate) mod bandwidth;
pub(crate) mod latency;
pub(crate) mod sizes;

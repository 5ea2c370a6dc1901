//! Caches and memory.

pub(crate) mod latency;

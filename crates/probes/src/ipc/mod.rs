//! Between processes.

pub(crate) mod bandwidth;
pub(crate) mod latency;

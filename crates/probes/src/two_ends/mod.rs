//! What the probes between two ends share.

pub(crate) mod over;

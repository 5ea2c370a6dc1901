//! Probes of the network between two ends of a link.

pub(crate) mod bandwidth;
pub(crate) mod connect;
pub(crate) mod ping;
pub(crate) mod rtt;
pub(crate) mod stages;
pub(crate) mod stream;

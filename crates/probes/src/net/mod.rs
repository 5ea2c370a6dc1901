//! Between two ends of a link.

pub(crate) mod bandwidth;
pub(crate) mod meeting;
pub(crate) mod rtt;

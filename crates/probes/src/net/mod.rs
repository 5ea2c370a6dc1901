//! Between two ends of a link.

pub(crate) mod bandwidth;
mod caller;
pub(crate) mod connect;
mod echo;
mod load;
mod lost;
pub(crate) mod meeting;
mod path;
pub(crate) mod ping;
pub(crate) mod rtt;
pub(crate) mod stages;

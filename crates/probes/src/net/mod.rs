//! Probes of the network between two ends of a link.

pub(crate) mod axes;
pub(crate) mod bandwidth;
pub(crate) mod congestion_control;
pub(crate) mod connect;
pub(crate) mod exchange;
pub(crate) mod flows;
pub(crate) mod lost;
pub(crate) mod path;
pub(crate) mod peer_reports;
pub(crate) mod peers;
pub(crate) mod ping;
pub(crate) mod ping_pong;
pub(crate) mod rendezvous;
pub(crate) mod rtt;
pub(crate) mod soft_interrupts;
pub(crate) mod stages;
pub(crate) mod stream;

pub(crate) use costof_exchange::progress::windows;

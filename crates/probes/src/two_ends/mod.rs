//! What the probes between two ends share: what carries their messages, how the ends find each other, and the roles of
//! each pattern. It knows no probe but those whose loops [`over`] compiles for each transport.

pub(crate) mod axes;
pub(crate) mod calls;
pub(crate) mod congestion_control;
pub(crate) mod exchange;
pub(crate) mod flows;
pub(crate) mod lost;
pub(crate) mod over;
pub(crate) mod path;
pub(crate) mod peers;
pub(crate) mod rendezvous;
pub(crate) mod reports;
pub(crate) mod soft_interrupts;
pub(crate) mod stamped;
pub(crate) mod transfer;

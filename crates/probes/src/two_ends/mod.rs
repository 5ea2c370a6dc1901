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

pub(crate) use axes::{Control, Wait};
pub(crate) use congestion_control::{CongestionControl, refused};
pub(crate) use exchange::roles::{ClientRole, ServerRole, answer, is_slow, warm_up};
pub(crate) use exchange::{Exchange, Exchanges};
pub(crate) use flows::{Processors, each};
pub(crate) use lost::share_lost;
pub(crate) use over::{Over, SOCKETS};
pub(crate) use peers::{Acceptor, Connector};
pub(crate) use rendezvous::{broken, cannot_connect, cannot_reach};
pub(crate) use reports::joined;
pub(crate) use soft_interrupts::SoftInterrupts;
pub(crate) use transfer::Transfer;

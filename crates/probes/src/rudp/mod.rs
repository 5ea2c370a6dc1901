//! Reliable datagrams: the library `rudp`, and the protocol of the study that it is held against.

mod ends;
mod expect;
pub(crate) mod rtt;
pub(crate) mod stages;
mod stamped;
mod study;
//! Reliable datagrams: the library `rudp`, and what it is held against.

mod axes;
pub(crate) mod bandwidth;
mod incoming;
pub(crate) mod loss;
mod outgoing;
mod predict;
mod roles;
mod stacks;
mod steady;

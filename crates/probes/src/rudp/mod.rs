//! Reliable datagrams: the library `rudp`, and what it is held against.

pub(crate) mod axes;
pub(crate) mod bandwidth;
mod datagrams;
mod ends;
pub(crate) mod expect;
mod incoming;
pub(crate) mod loss;
mod outgoing;
pub(crate) mod predict;
pub(crate) mod roles;
pub(crate) mod rtt;
mod stacks;
pub(crate) mod stages;
mod steady;

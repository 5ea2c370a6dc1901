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

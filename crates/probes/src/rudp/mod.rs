//! Reliable datagrams: the library `rudp`, and the stacks that it is compared with.

pub(crate) mod axes;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod predict;
pub(crate) mod roles;
pub(crate) mod stages;
pub(crate) mod transfer;

//! Reliable datagrams: the library `rudp`, and the protocol of the study that it is held against.

mod ends;
mod expect;
pub(crate) mod rtt;
pub(crate) mod stages;
mod stamped;
mod study;

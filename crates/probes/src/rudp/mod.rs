//! Reliable datagrams: the library `rudp`, and the transports that it is compared with.

pub(crate) mod loss;
pub(crate) mod stages;

//! What two processes of one machine exchange without sockets of the network.

pub mod flow;
pub mod token;
pub mod vmsplice;

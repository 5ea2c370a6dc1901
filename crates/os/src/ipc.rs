//! What two processes of one machine exchange without sockets of the network.

mod channel;
pub mod flow;
pub mod token;
pub mod vmsplice;

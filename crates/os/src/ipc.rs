//! What two processes on one machine exchange without network sockets.

mod channel;
pub mod flow;
mod ring;
pub mod token;
pub mod vmsplice;

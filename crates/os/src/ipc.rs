//! What two processes on one machine exchange without network sockets.

mod channel;
pub mod flow;
pub mod ready;
pub mod token;
pub mod vmsplice;

//! What two ends do with the messages between them, one file each.

pub mod connect;
pub mod flow;
pub mod open_loop;
pub mod ping_pong;
pub mod repeat;

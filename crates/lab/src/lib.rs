//! Hosts, and the controller's end of the protocol to the workers on them.
//!
//! This crate never knows a particular probe, and never guesses how to start a worker: it receives
//! the command.

pub mod addresses;
mod copied;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use link::fuzzing;
pub mod host;
pub mod launch;
pub mod link;
mod pipe;
pub mod worker;

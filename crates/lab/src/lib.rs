//! Hosts, and the controller's end of the protocol to the workers on them.
//!
//! This crate never knows a particular probe, and never guesses how to start a worker: it receives
//! the command.

pub mod address;
pub mod addresses;
mod call;
mod copied;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    //! What the targets in `fuzz/` reach of what is not public.

    pub use crate::link::fuzzing::channel;
    pub use crate::listening::fuzzing::greeting;
}
pub mod host;
pub mod launch;
pub mod link;
pub mod listening;
mod pipe;
pub mod worker;

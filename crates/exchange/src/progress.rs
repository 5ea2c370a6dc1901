//! How far an end of a flow has come: its record, when the flow ends, and the rates that follow from the record. All
//! patterns have it from here.

mod checkpoints;
mod limits;
mod silence;
mod steady;
pub mod windows;

pub use checkpoints::{Checkpoint, Checkpoints, Progress};
pub use limits::Ending;
pub(crate) use limits::{Limits, Waits};
pub(crate) use silence::Silence;
pub use steady::{Steady, steady};

use std::io;
use std::time::Duration;

/// How long an end waits in the kernel before it checks whether to go on.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// An end without progress for this time is given up.
pub(crate) const STALLED: Duration = Duration::from_secs(10);

/// The peer accepts nothing, or does not answer.
pub(crate) fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other end does not answer")
}

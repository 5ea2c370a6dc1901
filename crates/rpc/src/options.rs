//! What client and server allow each other.

use crate::RpcError;
use std::time::Duration;

/// Limits of one end. Both may have others.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest message that is taken, in bytes as the stack marshals it, and the longest that a
    /// client sends.
    pub message_most: usize,
    /// How long a call may take, of a client; none: as long as the connection lives. A stream is one
    /// call. gRPC tells the server too, in a header of each call.
    pub deadline: Option<Duration>,
    /// How long connecting may take.
    pub connects: Duration,
    /// What a client says first, ahead of the stack's first byte, and a server that has one expects:
    /// who does not say it is dropped before anything else of it is used. Empty: nothing is said,
    /// as other people's clients do. It costs one system call at each end, and no round trip.
    pub token: Vec<u8>,
}

impl Default for Options {
    /// 8 MiB, no deadline, ten seconds to connect, no token.
    fn default() -> Self {
        Self {
            message_most: 8 << 20,
            deadline: None,
            connects: Duration::from_secs(10),
            token: Vec::new(),
        }
    }
}

impl Options {
    /// Whether so many bytes may be sent as one message.
    ///
    /// # Errors
    /// [`RpcError::TooLong`].
    pub(crate) fn fits(&self, bytes: usize) -> Result<(), RpcError> {
        if bytes <= self.message_most {
            return Ok(());
        }
        Err(RpcError::TooLong(format!(
            "{bytes} B are to be sent, and {} B are allowed",
            self.message_most
        )))
    }
}

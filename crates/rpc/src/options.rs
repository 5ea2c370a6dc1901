//! What client and server allow each other.

use crate::RpcError;
use std::time::Duration;

/// Limits of one end. Both may have others.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest message that is taken, in bytes as the stack marshals it, and the longest that a
    /// client sends.
    pub max_message_bytes: usize,
    /// How long a call may take, of a client; none: as long as the connection lives. A stream is one
    /// call. gRPC tells the server too, in a header of each call.
    pub deadline: Option<Duration>,
}

impl Default for Options {
    /// 8 MiB, no deadline.
    fn default() -> Self {
        Self {
            max_message_bytes: 8 << 20,
            deadline: None,
        }
    }
}

impl Options {
    /// Whether so many bytes may be sent as one message.
    ///
    /// # Errors
    /// [`RpcError::TooLong`].
    pub(crate) fn fits(&self, bytes: usize) -> Result<(), RpcError> {
        if bytes <= self.max_message_bytes {
            return Ok(());
        }
        Err(RpcError::TooLong(format!(
            "{bytes} B are to be sent, and {} B are allowed",
            self.max_message_bytes
        )))
    }
}

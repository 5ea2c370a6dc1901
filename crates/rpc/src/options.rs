//! Limits of clients and servers.

use crate::RpcError;
use std::time::Duration;

/// Limits of one end; the other end may have different ones.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest message that is accepted or sent, in bytes as the stack marshals it.
    pub max_message_bytes: usize,
    /// For a client: how long a call may take; `None`: as long as the connection lives. A stream is
    /// one call. gRPC also sends it to the server, in a header of each call.
    pub deadline: Option<Duration>,
}

impl Default for Options {
    /// 8 MiB, no deadline.
    fn default() -> Self {
        Self { max_message_bytes: 8 << 20, deadline: None }
    }
}

impl Options {
    /// Checks the size of a message.
    ///
    /// # Errors
    /// [`RpcError::TooLong`].
    pub(crate) fn fits(&self, bytes: usize) -> Result<(), RpcError> {
        if bytes <= self.max_message_bytes {
            return Ok(());
        }
        Err(RpcError::TooLong(format!("{bytes} B to send, {} B allowed", self.max_message_bytes)))
    }
}

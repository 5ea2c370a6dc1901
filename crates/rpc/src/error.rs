//! Why a call failed.

use crate::Stack;
use std::time::Duration;
use thiserror::Error;

/// Why a call, a connection or a server failed.
#[derive(Debug, Error)]
pub enum RpcError {
    /// The client has no connection: it was not made, or an earlier call broke it.
    #[error("there is no connection (it was not made, or an earlier call broke it; connect again)")]
    NotConnected,
    /// The other end closed the connection while something was expected of it.
    #[error("the other end closed the connection: {0}")]
    Closed(String),
    /// The call took longer than its deadline.
    #[error("the call took longer than its deadline of {0:?}")]
    DeadlineExceeded(Duration),
    /// A message is longer than one end accepts.
    #[error("a message is too long: {0}")]
    TooLong(String),
    /// The server has no such method.
    #[error("the server does not know the method: {0}")]
    NoSuchMethod(String),
    /// The received bytes are not of this protocol.
    #[error("the other end does not speak {stack}: {reason}")]
    OtherProtocol {
        /// The stack that was used.
        stack: Stack,
        /// What is wrong with them.
        reason: String,
    },
    /// The answer is not what was sent.
    #[error("the answer differs from what was sent: {0}")]
    WrongAnswer(String),
    /// This stack does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// Any other error of the stack.
    #[error("{0}")]
    Failed(String),
}

impl RpcError {
    /// Any other error of the stack or the system.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

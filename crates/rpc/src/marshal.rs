//! What a stack does to a message in memory.

use crate::{Payload, RpcError, Stack};

/// The request that carries a payload, encoded and decoded without a socket. Of Thrift it is the
/// whole message, with its name and, if framed, its length; of gRPC the message with the five bytes
/// that gRPC puts before it, without HTTP/2's frames and headers.
#[derive(Debug)]
pub struct Marshal {}

impl Marshal {
    /// For this payload.
    ///
    /// # Errors
    /// [`RpcError::WrongAnswer`] where what is encoded does not decode to it again.
    pub fn new(_stack: Stack, _payload: &Payload) -> Result<Self, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// How many bytes it has on the wire.
    pub fn wire_bytes(&self) -> usize {
        0
    }

    /// Encodes it into a buffer that is used again, and gives how many bytes it took.
    ///
    /// # Errors
    /// What the stack says.
    pub fn encode(&mut self) -> Result<usize, RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }

    /// Decodes what was encoded last, and drops it.
    ///
    /// # Errors
    /// What the stack says.
    pub fn decode(&mut self) -> Result<(), RpcError> {
        Err(RpcError::Unsupported("not yet"))
    }
}

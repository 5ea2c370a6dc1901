//! Marshalling a message in memory.

use crate::by_stack::{ByStack, either};
use crate::{Payload, RpcError, Stack, grpc, thrift};
use std::hint::black_box;

/// A request with a payload, encoded and decoded without a socket. For Thrift it is the whole
/// message with its name and its length; for gRPC the message with its prefix of five
/// bytes, without HTTP/2's frames and headers.
#[derive(Debug)]
pub struct Marshal {
    buffer: Vec<u8>,
    inner: ByStack<Box<grpc::Marshal>, Box<thrift::Marshal>>,
}

impl Marshal {
    /// For this payload.
    ///
    /// # Errors
    /// [`RpcError::WrongAnswer`] if the encoded message does not decode to the payload.
    pub fn new(stack: Stack, payload: &Payload) -> Result<Self, RpcError> {
        let inner = match stack {
            Stack::Grpc => ByStack::Grpc(Box::new(grpc::Marshal::new(payload))),
            Stack::Thrift(protocol) => {
                ByStack::Thrift(Box::new(thrift::Marshal::new(protocol, payload)))
            }
        };
        let buffer = Vec::new();
        let mut marshal = Self { buffer, inner };
        marshal.encode(1)?;
        if either!(&marshal.inner, inner => inner.is_same(&marshal.buffer))? {
            Ok(marshal)
        } else {
            Err(RpcError::WrongAnswer("it decodes to another payload".into()))
        }
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Encodes this many times into a reused buffer. Returns the number of bytes. The loop is here, where the
    /// stack's code is inlined into it.
    ///
    /// # Errors
    /// The stack's.
    pub fn encode(&mut self, times: u64) -> Result<usize, RpcError> {
        for _ in 0..times {
            self.buffer.clear();
            either!(&self.inner, marshal => marshal.encode(&mut self.buffer))?;
            black_box(&mut self.buffer);
        }
        Ok(self.buffer.len())
    }

    /// Decodes what was encoded last, this many times, and drops it.
    ///
    /// # Errors
    /// The stack's.
    pub fn decode(&mut self, times: u64) -> Result<(), RpcError> {
        for _ in 0..times {
            either!(&self.inner, marshal => marshal.decode(&self.buffer))?;
        }
        Ok(())
    }
}

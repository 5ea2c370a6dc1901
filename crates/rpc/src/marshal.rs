//! Marshalling a message in memory.

use crate::{Payload, Stack, grpc, thrift};
use std::hint::black_box;
use std::io;

/// A request with a payload, encoded and decoded without a socket. For Thrift it is the whole
/// message with its name and its length; for gRPC the message with its prefix of five
/// bytes, without HTTP/2's frames and headers, compression and encryption.
#[derive(Debug)]
pub struct Marshal {
    buffer: Vec<u8>,
    request: Request,
}

#[derive(Debug)]
enum Request {
    Grpc(grpc::Marshal),
    Thrift(Box<thrift::Marshal>),
}

impl Marshal {
    /// For this payload.
    ///
    /// # Errors
    /// The encoded message does not decode to the payload.
    pub fn new(stack: Stack, payload: &Payload) -> io::Result<Self> {
        let request = match stack {
            Stack::Thrift => Request::Thrift(Box::new(thrift::Marshal::new(payload))),
            _ => Request::Grpc(grpc::Marshal::new(payload)),
        };
        let mut marshal = Self { buffer: Vec::new(), request };
        marshal.encode(1)?;
        let is_same = match &marshal.request {
            Request::Grpc(request) => request.is_same(&marshal.buffer),
            Request::Thrift(request) => request.is_same(&marshal.buffer),
        };
        if is_same? { Ok(marshal) } else { Err(io::Error::other("it decodes to another payload")) }
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
    pub fn encode(&mut self, times: u64) -> io::Result<usize> {
        for _ in 0..times {
            self.buffer.clear();
            match &self.request {
                Request::Grpc(request) => request.encode(&mut self.buffer),
                Request::Thrift(request) => request.encode(&mut self.buffer)?,
            }
            black_box(&mut self.buffer);
        }
        Ok(self.buffer.len())
    }

    /// Decodes what was encoded last, this many times, and drops it.
    ///
    /// # Errors
    /// The stack's.
    pub fn decode(&mut self, times: u64) -> io::Result<()> {
        for _ in 0..times {
            match &self.request {
                Request::Grpc(request) => request.decode(&self.buffer)?,
                Request::Thrift(request) => request.decode(&self.buffer)?,
            }
        }
        Ok(())
    }
}

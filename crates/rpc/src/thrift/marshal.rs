//! A request in memory.

use super::wire::calls::{Call, Message};
use super::{failed, limits};
use crate::Payload;
use ::thrift::TConfiguration;
use ::thrift::protocol::{TBinaryInputProtocol, TBinaryOutputProtocol};
use std::hint::black_box;
use std::io;

const LENGTH_BYTES: usize = 4;
const NUMBER: i32 = 1;

#[derive(Debug)]
pub(crate) struct Marshal {
    call: Call,
    limits: TConfiguration,
}

impl Marshal {
    pub(crate) fn new(payload: &Payload) -> Self {
        Self { call: Message::from(payload).into(), limits: limits() }
    }

    /// Appends the call to the buffer, after its length.
    #[inline]
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.extend([0; LENGTH_BYTES]);
        let mut protocol = TBinaryOutputProtocol::new(&mut *buffer, true);
        self.call.write(NUMBER, &mut protocol).map_err(failed)?;
        let length = (buffer.len() - LENGTH_BYTES) as u32;
        buffer[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    #[inline]
    pub(crate) fn decode(&self, buffer: &[u8]) -> io::Result<()> {
        black_box(&self.decoded(buffer)?);
        Ok(())
    }

    /// Whether the buffer decodes to the same call.
    pub(crate) fn is_same(&self, buffer: &[u8]) -> io::Result<bool> {
        Ok(self.decoded(buffer)? == self.call)
    }

    fn decoded(&self, buffer: &[u8]) -> io::Result<Call> {
        let message = &buffer[LENGTH_BYTES..];
        let mut protocol = TBinaryInputProtocol::with_config(message, true, self.limits.clone());
        self.call.read_like(&mut protocol).map_err(failed)
    }
}

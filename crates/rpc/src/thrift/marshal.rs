//! A request in memory.

use super::limits;
use super::protocols::read;
use super::wire::calls::{Call, Message};
use crate::{Options, Payload, Protocol, RpcError};
use ::thrift::TConfiguration;
use ::thrift::protocol::{TBinaryOutputProtocol, TCompactOutputProtocol, TInputProtocol};
use std::hint::black_box;

pub(super) const LENGTH_BYTES: usize = 4;
const NUMBER: i32 = 1;

#[derive(Debug)]
pub(crate) struct Marshal {
    message: Message,
    call: Call,
    protocol: Protocol,
    limits: TConfiguration,
}

impl Marshal {
    pub(crate) fn new(protocol: Protocol, payload: &Payload) -> Self {
        let message = Message::from(payload);
        Self {
            call: message.clone().into(),
            message,
            protocol,
            limits: limits(&Options { max_message_bytes: usize::MAX, ..Options::default() }),
        }
    }

    #[inline]
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) -> Result<(), RpcError> {
        write(&self.call, NUMBER, self.protocol, buffer).map_err(RpcError::failed)
    }

    #[inline]
    pub(crate) fn decode(&self, buffer: &[u8]) -> Result<(), RpcError> {
        black_box(&self.decoded(buffer)?);
        Ok(())
    }

    /// Whether the buffer decodes to the same call.
    pub(crate) fn is_same(&self, buffer: &[u8]) -> Result<bool, RpcError> {
        Ok(Message::from(self.decoded(buffer)?) == self.message)
    }

    fn decoded(&self, buffer: &[u8]) -> Result<Call, RpcError> {
        let limits = self.limits.clone();
        let call = |i: &mut dyn TInputProtocol| self.call.read_like(i);
        read(self.protocol, &buffer[LENGTH_BYTES..], limits, call).map_err(RpcError::failed)
    }
}

/// Appends a call with this number to the buffer, after its length.
pub(super) fn write(
    call: &Call,
    number: i32,
    protocol: Protocol,
    buffer: &mut Vec<u8>,
) -> ::thrift::Result<()> {
    let from = buffer.len();
    buffer.extend([0; LENGTH_BYTES]);
    match protocol {
        Protocol::Binary => call.write(number, &mut TBinaryOutputProtocol::new(&mut *buffer, true)),
        Protocol::Compact => call.write(number, &mut TCompactOutputProtocol::new(&mut *buffer)),
    }?;
    let length = (buffer.len() - from - LENGTH_BYTES) as u32;
    buffer[from..from + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

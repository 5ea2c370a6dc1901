//! A request in memory.

use super::limits;
use super::protocols::read;
use super::wire::calls::{Call, Message};
use crate::{Options, Payload, Protocol, RpcError, Transport};
use ::thrift::TConfiguration;
use ::thrift::protocol::{TBinaryOutputProtocol, TCompactOutputProtocol, TInputProtocol};
use std::hint::black_box;

/// How many bytes a frame's length has.
pub(super) const LENGTH_BYTES: usize = 4;
/// The number of the call.
const NUMBER: i32 = 1;

#[derive(Debug)]
pub(crate) struct Marshal {
    call: Call,
    transport: Transport,
    protocol: Protocol,
    limits: TConfiguration,
    buffer: Vec<u8>,
}

impl Marshal {
    pub(crate) fn new(
        transport: Transport,
        protocol: Protocol,
        payload: &Payload,
    ) -> Result<Self, RpcError> {
        let message = Message::from(payload);
        let mut marshal = Self {
            call: message.clone().into(),
            transport,
            protocol,
            limits: limits(&Options {
                max_message_bytes: usize::MAX,
                ..Options::default()
            }),
            buffer: Vec::new(),
        };
        marshal.encode()?;
        if Message::from(marshal.decoded()?) == message {
            Ok(marshal)
        } else {
            Err(RpcError::WrongAnswer("it decodes to another".into()))
        }
    }

    pub(crate) fn wire_bytes(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    pub(crate) fn encode(&mut self) -> Result<usize, RpcError> {
        self.buffer.clear();
        write(
            &self.call,
            NUMBER,
            (self.transport, self.protocol),
            &mut self.buffer,
        )
        .map_err(RpcError::failed)?;
        Ok(self.buffer.len())
    }

    #[inline]
    pub(crate) fn decode(&mut self) -> Result<(), RpcError> {
        black_box(&self.decoded()?);
        Ok(())
    }

    fn decoded(&self) -> Result<Call, RpcError> {
        let from = match self.transport {
            Transport::Framed => LENGTH_BYTES,
            Transport::Buffered => 0,
        };
        let limits = self.limits.clone();
        let call = |i: &mut dyn TInputProtocol| self.call.read_like(i);
        read(self.protocol, &self.buffer[from..], limits, call).map_err(RpcError::failed)
    }
}

/// Writes a call with this number behind what is in the buffer, with its length where it is framed.
pub(super) fn write(
    call: &Call,
    number: i32,
    (transport, protocol): (Transport, Protocol),
    buffer: &mut Vec<u8>,
) -> ::thrift::Result<()> {
    let from = buffer.len();
    if transport == Transport::Framed {
        buffer.extend([0; LENGTH_BYTES]);
    }
    match protocol {
        Protocol::Binary => call.write(number, &mut TBinaryOutputProtocol::new(&mut *buffer, true)),
        Protocol::Compact => call.write(number, &mut TCompactOutputProtocol::new(&mut *buffer)),
    }?;
    if transport == Transport::Framed {
        let length = (buffer.len() - from - LENGTH_BYTES) as u32;
        buffer[from..from + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

//! A request in memory.

use super::echo::{Message, each};
use crate::{Payload, RpcError};
use bytes::{Buf, BufMut};
use prost::Message as _;
use std::hint::black_box;

/// Whether it is compressed, a byte, and how long it is, four bytes. Source: "gRPC over HTTP2",
/// Length-Prefixed-Message.
const PREFIX_BYTES: usize = 5;

#[derive(Debug)]
pub(crate) struct Marshal {
    message: Message,
    buffer: Vec<u8>,
}

impl Marshal {
    pub(crate) fn new(payload: &Payload) -> Result<Self, RpcError> {
        let mut marshal = Self {
            message: Message::from(payload),
            buffer: Vec::new(),
        };
        marshal.encode()?;
        let decoded = each!(&marshal.message, message => {
            is_same(message, marshal.message_bytes()?)
        });
        match decoded {
            Ok(true) => Ok(marshal),
            Ok(false) => Err(RpcError::WrongAnswer("it decodes to another".into())),
            Err(error) => Err(RpcError::failed(error)),
        }
    }

    pub(crate) fn wire_bytes(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    pub(crate) fn encode(&mut self) -> Result<usize, RpcError> {
        self.buffer.clear();
        each!(&self.message, message => {
            let length = message.encoded_len();
            self.buffer.reserve(PREFIX_BYTES + length);
            self.buffer.put_u8(0);
            self.buffer.put_u32(length as u32);
            message.encode_raw(&mut self.buffer);
        });
        Ok(self.buffer.len())
    }

    #[inline]
    pub(crate) fn decode(&mut self) -> Result<(), RpcError> {
        let bytes = self.message_bytes()?;
        let decoded = each!(&self.message, message => decoded_like(message, bytes).map(|message| {
            black_box(&message);
        }));
        decoded.map_err(RpcError::failed)
    }

    /// Behind the prefix, which must be right.
    fn message_bytes(&self) -> Result<&[u8], RpcError> {
        let mut bytes = &self.buffer[..];
        let (compressed, length) = (bytes.get_u8(), bytes.get_u32());
        if compressed == 0 && length as usize == bytes.len() {
            Ok(bytes)
        } else {
            Err(RpcError::WrongAnswer("its length is another".into()))
        }
    }
}

fn decoded_like<M: prost::Message + Default>(
    _like: &M,
    bytes: &[u8],
) -> Result<M, prost::DecodeError> {
    M::decode(bytes)
}

fn is_same<M: prost::Message + Default + PartialEq>(
    message: &M,
    bytes: &[u8],
) -> Result<bool, prost::DecodeError> {
    Ok(decoded_like(message, bytes)? == *message)
}

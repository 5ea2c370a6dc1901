//! A request in memory.

use super::echo::{Message, each};
use crate::Payload;
use bytes::{Buf, BufMut};
use prost::Message as _;
use std::hint::black_box;
use std::io;

/// A byte for compression, and four bytes of length. Source: "gRPC over HTTP2",
/// Length-Prefixed-Message.
const PREFIX_BYTES: usize = 5;

#[derive(Debug)]
pub(crate) struct Marshal(Message);

impl Marshal {
    pub(crate) fn new(payload: &Payload) -> Self {
        Self(Message::from(payload))
    }

    #[inline]
    pub(crate) fn encode(&self, buffer: &mut Vec<u8>) {
        each!(&self.0, message => {
            let length = message.encoded_len();
            buffer.reserve(PREFIX_BYTES + length);
            buffer.put_u8(0);
            buffer.put_u32(length as u32);
            message.encode_raw(buffer);
        });
    }

    #[inline]
    pub(crate) fn decode(&self, buffer: &[u8]) -> io::Result<()> {
        let bytes = behind_prefix(buffer)?;
        let decoded = each!(&self.0, message => decoded_like(message, bytes).map(|message| {
            black_box(&message);
        }));
        decoded.map_err(io::Error::other)
    }

    /// Whether the buffer decodes to the same message.
    pub(crate) fn is_same(&self, buffer: &[u8]) -> io::Result<bool> {
        let bytes = behind_prefix(buffer)?;
        each!(&self.0, message => is_same(message, bytes)).map_err(io::Error::other)
    }
}

/// The bytes after the prefix, which must be valid.
fn behind_prefix(mut bytes: &[u8]) -> io::Result<&[u8]> {
    let (compressed, length) = (bytes.get_u8(), bytes.get_u32());
    if compressed == 0 && length as usize == bytes.len() {
        Ok(bytes)
    } else {
        Err(io::Error::other("its length differs"))
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

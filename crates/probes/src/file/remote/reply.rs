//! A server's reply, read where it was received: unpacking it would copy a block, and reserve as much
//! memory as the reply says that it has.
//!
//! Source: RFC 4506; RFC 5531, sections 8.2 and 9; RFC 1813, `NFS3_FHSIZE`.

use nfs3_client::nfs3_types::rpc::{accept_stat, msg_type, reply_stat};
use std::ops::Range;

/// The longest verifier.
pub(super) const VERIFIER_MOST_BYTES: usize = 400;
/// The longest file handle.
pub(super) const HANDLE_MOST_BYTES: usize = 64;

/// What a server sends instead of what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A reply that ends too early.
    Short,
    /// The call was not executed.
    Rejected(&'static str),
    /// No reply that can be.
    Invalid(&'static str),
}

/// A reply, or what is left of it.
pub(super) struct Reply<'r> {
    all: &'r [u8],
    left: Range<usize>,
}

impl Reply<'_> {
    /// What lies there of what was received.
    pub(super) fn new(all: &[u8], left: Range<usize>) -> Reply<'_> {
        Reply { all, left }
    }

    /// How many bytes are left.
    pub(super) fn len(&self) -> usize {
        self.left.len()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<Range<usize>, Malformed> {
        if count > self.left.len() {
            return Err(Malformed::Short);
        }
        let taken = self.left.start..self.left.start + count;
        self.left.start = taken.end;
        Ok(taken)
    }

    pub(super) fn word(&mut self) -> Result<u32, Malformed> {
        let bytes = self.bytes(4)?;
        let word = self.all[bytes].first_chunk().expect("four bytes");
        Ok(u32::from_be_bytes(*word))
    }

    /// Passes over something of variable length, of at most so many bytes.
    pub(super) fn opaque(&mut self, most: usize, too_long: &'static str) -> Result<(), Malformed> {
        let length = self.word()? as usize;
        if length > most {
            return Err(Malformed::Invalid(too_long));
        }
        self.bytes(length.next_multiple_of(4)).map(drop)
    }

    /// Reads on to the results of a call that was executed.
    pub(super) fn accepted(&mut self) -> Result<(), Malformed> {
        if self.word()? != msg_type::REPLY as u32 {
            return Err(Malformed::Invalid("a call where an answer should be"));
        }
        if self.word()? != reply_stat::MSG_ACCEPTED as u32 {
            return Err(Malformed::Rejected("that it does not accept the call"));
        }
        let _flavor = self.word()?;
        self.opaque(VERIFIER_MOST_BYTES, "a verifier that is too long")?;
        if self.word()? != accept_stat::SUCCESS as u32 {
            return Err(Malformed::Rejected("that it cannot carry the call out"));
        }
        Ok(())
    }
}

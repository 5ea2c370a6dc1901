//! A server's reply, read where it was received: unpacking it would copy a block, and reserve as much
//! memory as the reply says that it has.
//!
//! Source: RFC 4506; RFC 5531, sections 8.2 and 9; RFC 1813, `NFS3_FHSIZE`.

use nfs3_client::nfs3_types::rpc::{accept_stat, msg_type, reply_stat};

/// The longest verifier.
pub(super) const MAX_VERIFIER_BYTES: usize = 400;
/// The longest file handle.
pub(super) const MAX_HANDLE_BYTES: usize = 64;

/// Why a reply has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// It ends too early.
    Short,
    /// The call was not executed.
    Rejected(&'static str),
    /// It breaks the protocol.
    Invalid(&'static str),
}

/// The unread rest of a reply.
pub(super) struct Reply<'r>(pub(super) &'r [u8]);

impl<'r> Reply<'r> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'r [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn word(&mut self) -> Result<u32, Malformed> {
        let (word, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*word))
    }

    /// This many bytes, and the padding to whole words.
    pub(super) fn padded(&mut self, length: u32) -> Result<&'r [u8], Malformed> {
        let length = length as usize;
        Ok(&self.bytes(length.next_multiple_of(4))?[..length])
    }

    /// Skips an opaque of variable length, of at most this many bytes.
    pub(super) fn skip_opaque(
        &mut self,
        max: usize,
        too_long: &'static str,
    ) -> Result<(), Malformed> {
        let length = self.word()?;
        if length as usize > max {
            return Err(Malformed::Invalid(too_long));
        }
        self.padded(length).map(drop)
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
        self.skip_opaque(MAX_VERIFIER_BYTES, "a verifier that is too long")?;
        if self.word()? != accept_stat::SUCCESS as u32 {
            return Err(Malformed::Rejected("that it cannot carry the call out"));
        }
        Ok(())
    }

    /// Fails if anything is left.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Malformed::Invalid("an answer of another length than it says"))
    }
}

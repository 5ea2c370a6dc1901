//! The fields of a message as the kernel gathers them, and the rest of a message that was sent
//! partially.
//!
//! Source: sendmsg(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::system_call::check;

/// Calls sendmsg(2) once with these parts, which must be valid to read. Returns how many bytes it took.
#[inline]
pub(super) fn send_parts(
    socket: BorrowedFd<'_>,
    parts: &[libc::iovec],
    flags: libc::c_int,
) -> io::Result<usize> {
    let message = message_of(parts);
    let flags = flags | libc::MSG_NOSIGNAL;
    // SAFETY: the message names nothing but the parts, which lie in the sender's own arena.
    let sent = check(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })?;
    Ok(sent.cast_unsigned())
}

/// The parts as sendmsg(2) takes them, which only reads them.
#[inline]
pub(super) fn message_of(parts: &[libc::iovec]) -> libc::msghdr {
    // SAFETY: all zeros is a valid value of this plain structure of C.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    message
}

/// Room for the rest of a message, so that nothing is allocated if a message is sent partially.
#[derive(Debug, Default)]
pub(super) struct Rest(pub(super) Vec<libc::iovec>);

// SAFETY: it is read only together with the messages that it points into.
unsafe impl Send for Rest {}

impl Rest {
    pub(super) fn new(fields: usize) -> Self {
        Self(Vec::with_capacity(fields))
    }

    /// Sends a whole message: calls `send` with the rest until nothing is left. `send` returns how many bytes
    /// it took.
    #[inline]
    pub(super) fn whole(
        &mut self,
        parts: &[libc::iovec],
        mut send: impl FnMut(&[libc::iovec]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let wanted: usize = parts.iter().map(|part| part.iov_len).sum();
        let sent = send(parts)?;
        if sent == wanted {
            return Ok(());
        }
        self.0.clear();
        self.0.extend_from_slice(parts);
        self.skip(sent);
        while !self.0.is_empty() {
            let sent = send(&self.0)?;
            self.skip(sent);
        }
        Ok(())
    }

    /// Takes away what was sent.
    fn skip(&mut self, mut bytes: usize) {
        let mut gone = 0;
        for part in &mut self.0 {
            if bytes < part.iov_len {
                part.iov_base = part.iov_base.wrapping_byte_add(bytes);
                part.iov_len -= bytes;
                break;
            }
            bytes -= part.iov_len;
            gone += 1;
        }
        self.0.drain(..gone);
    }
}

/// Splits a message after this many bytes. It must have more.
#[inline]
pub(super) fn split(parts: &[libc::iovec], at: usize, [before, after]: &mut [Rest; 2]) {
    for half in [&mut *before, &mut *after] {
        half.0.clear();
        half.0.extend_from_slice(parts);
    }
    let mut left = at;
    before.0.retain_mut(|part| {
        part.iov_len = part.iov_len.min(left);
        left -= part.iov_len;
        part.iov_len > 0
    });
    after.skip(at);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of 30 bytes; the last has what is left.
    fn parts_of(bytes: &[u8]) -> Vec<libc::iovec> {
        let part = |part: &[u8]| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        bytes.chunks(30).map(part).collect()
    }

    #[test]
    fn what_is_sent_in_part_goes_on_where_it_ended() {
        let bytes: Vec<u8> = (0..100).collect();
        let parts = parts_of(&bytes);
        for most in [1, 7, 30, 31, 60, 99, 100] {
            let mut sent = Vec::new();
            let mut calls = 0;
            let taken = |parts: &[libc::iovec]| {
                calls += 1;
                // Every third one is interrupted.
                if calls % 3 == 0 {
                    return Ok(0);
                }
                let before = sent.len();
                for part in parts {
                    let at = part.iov_base.addr() - bytes.as_ptr().addr();
                    let room = (before + most - sent.len()).min(part.iov_len);
                    sent.extend_from_slice(&bytes[at..at + room]);
                }
                Ok(sent.len() - before)
            };
            Rest::new(4).whole(&parts, taken).unwrap();
            assert_eq!(sent, bytes, "{most}");
        }
    }

    #[test]
    fn a_message_is_split_in_a_part_or_between_two() {
        let bytes = [0_u8; 100];
        let parts = parts_of(&bytes);
        for (at, before, after) in [
            (1, &[1][..], &[29, 30, 30, 10][..]),
            (30, &[30], &[30, 30, 10]),
            (95, &[30, 30, 30, 5], &[5]),
        ] {
            let mut halves = [(); 2].map(|()| Rest::new(4));
            split(&parts, at, &mut halves);
            let lengths = |half: &Rest| half.0.iter().map(|part| part.iov_len).collect::<Vec<_>>();
            assert_eq!([before, after], [&lengths(&halves[0])[..], &lengths(&halves[1])], "{at}");
            let second = halves[1].0[0].iov_base.addr() - bytes.as_ptr().addr();
            assert_eq!(second, at);
        }
    }
}

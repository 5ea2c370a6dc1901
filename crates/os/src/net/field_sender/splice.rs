//! vmsplice(2) and splice(2): a pipe takes references to the fields' pages, and the socket takes
//! them from the pipe. Nothing reports when the kernel no longer uses the pages.
//!
//! A message that is larger than the pipe goes through it in several turns.
//!
//! Source: vmsplice(2) (Linux 2.6.17), splice(2), `F_SETPIPE_SZ` in fcntl(2) (Linux 2.6.35).

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::ptr;

use super::Call;
use super::parts::Rest;
use crate::memory::arena::base_page_bytes;
use crate::memory::fields::Messages;
use crate::net::unsupported;

/// The usual limit for the pipe of an ordinary user: 256 pages.
const PIPE_BYTES: libc::c_int = 1 << 20;

/// How many pieces one send takes out of a pipe (`splice_to_socket()` in fs/splice.c).
const DATAGRAM_PIECES: usize = 16;

/// How many pages these parts touch, counted for each part separately.
fn pieces(parts: &[libc::iovec]) -> usize {
    let page = base_page_bytes();
    let pages = parts.iter().map(|part| {
        let begin = part.iov_base.addr();
        (begin + part.iov_len).div_ceil(page) - begin / page
    });
    pages.sum()
}

/// Sends through a pipe.
#[derive(Debug)]
pub(super) struct Splice {
    reader: PipeReader,
    writer: PipeWriter,
    rest: Rest,
}

impl Splice {
    pub(super) fn new(messages: &Messages, is_stream: bool) -> io::Result<Self> {
        let pieces = (0..messages.count()).map(|number| pieces(messages.parts(number)));
        if !is_stream && pieces.max() > Some(DATAGRAM_PIECES) {
            return Err(unsupported(
                "splice(2) moves at most 16 pages at once, and the rest becomes another datagram \
                 (fewer fields, or a smaller size)",
            ));
        }
        let (reader, writer) = io::pipe()?;
        // A small pipe takes more turns.
        // SAFETY: takes a descriptor that is open, and numbers.
        unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(Self { reader, writer, rest: Rest::new(messages.fields()) })
    }

    #[inline]
    pub(super) fn send(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        let (reader, writer) = (self.reader.as_raw_fd(), self.writer.as_raw_fd());
        let (none, to) = (ptr::null_mut(), call.socket.as_raw_fd());
        let mut left: usize = parts.iter().map(|part| part.iov_len).sum();
        self.rest.whole(parts, |parts| {
            // SAFETY: the parts lie in the sender's own arena, which nothing changes any more.
            let lent = unsafe { libc::vmsplice(writer, parts.as_ptr(), parts.len(), 0) };
            let lent = call.moved(lent)?;
            left -= lent;
            let flags = if left > 0 { libc::SPLICE_F_MORE } else { 0 };
            let mut sent = 0;
            while sent < lent {
                // SAFETY: takes open descriptors, no offsets, and numbers.
                let now = unsafe { libc::splice(reader, none, to, none, lent - sent, flags) };
                if now == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                sent += call.moved(now)?;
            }
            Ok(lent)
        })
    }
}

//! `recv` with `MSG_TRUNC`: no copy, and the bytes are discarded. It shows the cost of receiving
//! without the copy.
//!
//! Source: tcp(7): since Linux 2.4 it causes the received bytes to be discarded. Unix stream sockets
//! take the flag and copy nonetheless.

use super::stream::{Stream, some};
use super::{Counts, Shape, Way};
use crate::net::unsupported;
use std::io;
use std::ptr;

use rustix::net::sockopt;

pub(super) struct Discarded {
    stream: Stream,
    size: usize,
}

impl Discarded {
    pub(super) fn new(stream: Stream, shape: Shape) -> io::Result<Self> {
        sockopt::tcp_nodelay(&stream.socket)
            .map_err(|_| unsupported("only TCP can discard bytes without a buffer for them"))?;
        Ok(Self { stream, size: shape.size })
    }
}

impl Way for Discarded {
    #[inline]
    fn receive(&mut self, counts: &mut Counts) -> io::Result<()> {
        let mut came = 0;
        while came < self.size {
            counts.calls += 1;
            let (socket, rest) = (self.stream.descriptor(), self.size - came);
            // SAFETY: with this flag TCP writes nothing, so there is no place for it to be.
            let gone = unsafe { libc::recv(socket, ptr::null_mut(), rest, libc::MSG_TRUNC) };
            let gone = match gone {
                0.. => Ok(gone.cast_unsigned()),
                _ => Err(io::Error::last_os_error()),
            };
            came += some(gone)?.unwrap_or(0);
        }
        Ok(())
    }

    /// This message is received as usual: its number shows how many were discarded.
    fn look(&mut self, counts: &mut Counts) -> io::Result<Vec<u8>> {
        let mut message = vec![0; self.size];
        self.stream.fill(&mut message, &mut counts.calls)?;
        Ok(message)
    }
}

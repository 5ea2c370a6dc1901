//! The connection of a receiver.

use crate::net::poll::{readable, wait};
use crate::net::socket::{is_passing, receive_within};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};

/// How long nothing may arrive before receiving is given up.
pub(super) const STALLED: Duration = Duration::from_secs(10);

pub(super) struct Stream {
    pub(super) socket: OwnedFd,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Self> {
        receive_within(&socket, STALLED)?;
        Ok(Self { socket })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send(&self.socket, bytes, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives at least one byte, and at most what fits into the buffer, which must have room.
    #[inline]
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let came = recv(&self.socket, &mut *buffer, RecvFlags::empty());
            if let Some(length) = some(came.map(|(_, length)| length).map_err(Into::into))? {
                return Ok(length);
            }
        }
    }

    /// Receives until the buffer is full, and counts the calls.
    #[inline]
    pub(super) fn fill(&self, buffer: &mut [u8], calls: &mut u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            *calls += 1;
            filled += self.receive(&mut buffer[filled..])?;
        }
        Ok(())
    }

    /// Waits until something can be received, and counts the call.
    pub(super) fn wait(&self, calls: &mut u64) -> io::Result<()> {
        *calls += 1;
        if wait(&mut [readable(&self.socket)], STALLED)? { Ok(()) } else { Err(stalled()) }
    }
}

/// The result of a receive: how many bytes, or `None` if a signal interrupted it.
#[inline]
pub(super) fn some(came: io::Result<usize>) -> io::Result<Option<usize>> {
    match came {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) if is_passing(&error) => Err(stalled()),
        Err(error) => Err(error),
    }
}

pub(super) fn stalled() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the other end no longer sends")
}

//! Blocks of one size, always from the same buffer: each begins with its number, and the rest is not all zeroes.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{SendFlags, send, sockopt};

use super::writer::Writer;
use crate::content::numbered::NUMBER_BYTES;
use crate::progress::STALLED;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::pattern::pattern;

/// The next block of a flow, and its socket.
#[derive(Debug)]
pub struct Block {
    socket: OwnedFd,
    /// It begins at a page boundary, so that all copies are aligned alike.
    block: Arena,
    size: usize,
    number: u64,
}

impl Block {
    /// The socket no longer waits for a receiver that takes nothing for ten seconds.
    pub(super) fn new(socket: OwnedFd, size: usize) -> io::Result<Self> {
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(STALLED))?;
        let mut block = Arena::map(size, PageSize::Base)?;
        block.as_mut_slice()[..size].copy_from_slice(&pattern(size));
        Ok(Self { socket, block, size, number: 0 })
    }
}

impl Writer for Block {
    fn size(&self) -> usize {
        self.size
    }

    #[inline]
    fn send(&mut self) -> io::Result<()> {
        let block = &mut self.block.as_mut_slice()[..self.size];
        block[..NUMBER_BYTES].copy_from_slice(&self.number.to_le_bytes());
        self.number += 1;
        let mut sent = 0;
        while sent < block.len() {
            match send(&self.socket, &block[sent..], SendFlags::NOSIGNAL) {
                Ok(more) => sent += more,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        let reason = "the receiver no longer takes data";
                        return Err(io::Error::new(ErrorKind::TimedOut, reason));
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;

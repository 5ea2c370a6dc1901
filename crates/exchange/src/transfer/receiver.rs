//! The receiving end of a flow.

use super::channel::Channel;
use super::marks::{Mark, Marks};
use super::{BLOCK_LEAST_BYTES, FAREWELL, NUMBER_BYTES, other_bytes};
use crate::rendezvous::Over;
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::pattern::pattern;
use costof_os::net::socket;
use costof_os::net::socket::is_passing;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::Shutdown;

/// How much is received at once, at most.
const RECEIVE_BYTES: usize = 128 << 10;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    pub(super) channel: Channel,
    token: Vec<u8>,
    buffer: Arena,
    pub(super) block: Vec<u8>,
    /// Bytes that came.
    pub(super) bytes: u64,
    /// Datagrams that came.
    datagrams: u64,
    /// Where the last piece began, and how long it was.
    last: (u64, usize),
    /// Whether a stream has come to its end.
    ended: bool,
    marks: Marks,
    allocations: u64,
}

/// Datagrams of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// That have arrived, a duplicate counted again.
    pub arrived: u64,
    /// That the receiver's queue had no room for.
    pub dropped: u64,
}

impl Receiver {
    pub(super) fn of(channel: Channel, token: &[u8]) -> io::Result<Self> {
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        Ok(Self {
            channel,
            token: token.to_vec(),
            buffer,
            block: Vec::new(),
            bytes: 0,
            datagrams: 0,
            last: (0, 0),
            ended: false,
            marks: Marks::new(),
            allocations: 0,
        })
    }

    /// Receives blocks of `size` bytes until `stop` is set, whether the sender has said that it was
    /// done or not: what it has thrown away, or a link has lost, never comes.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `InvalidData` where something came that was not sent.
    pub fn receive(&mut self, size: usize, stop: &AtomicBool) -> io::Result<()> {
        self.block = pattern(size);
        let allocated = allocations();
        while !stop.load(Ordering::Acquire) {
            if self.ended {
                sleep(Duration::from_millis(1));
            } else {
                self.receive_until_marked()?;
            }
        }
        self.allocations += allocations() - allocated;
        Ok(())
    }

    /// Receives until it has made a mark, nothing has come for a while, or the end has.
    pub(super) fn receive_until_marked(&mut self) -> io::Result<()> {
        loop {
            let length = match self.channel.receive(self.buffer.as_mut_slice()) {
                Ok(0) if self.channel.is_stream() => {
                    self.end();
                    return Ok(());
                }
                Ok(length) => length,
                Err(error) if is_passing(&error) => return Ok(()),
                // The sender has thrown away what was still on its way.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.end();
                    return Ok(());
                }
                // The sender has gone before it was answered once more.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) => return Err(error),
            };
            if !self.channel.is_stream() && length < BLOCK_LEAST_BYTES {
                return self.hear(length);
            }
            self.take(length)?;
            if self.marks.is_due_after(length as u64) {
                let marks = self.marks.marks.len();
                self.marks.note(self.bytes);
                if self.marks.marks.len() != marks {
                    return Ok(());
                }
            }
        }
    }

    /// Counts a piece, and looks at the first block that begins in it.
    #[inline]
    fn take(&mut self, length: usize) -> io::Result<()> {
        let size = self.block.len() as u64;
        let piece = &self.buffer.as_slice()[..length];
        if self.channel.is_stream() {
            let number = self.bytes.div_ceil(size);
            let at = (number * size - self.bytes) as usize;
            if let Some(found) = piece.get(at..at + NUMBER_BYTES)
                && *found != number.to_le_bytes()
            {
                return Err(other_bytes());
            }
        } else {
            // All of what is said between datagrams is written over, and more.
            let (head, tail) = (NUMBER_BYTES..BLOCK_LEAST_BYTES, length - NUMBER_BYTES..);
            let is_right = length as u64 == size
                && piece[head.clone()] == self.block[head]
                && piece[tail.clone()] == self.block[tail];
            if !is_right {
                return Err(other_bytes());
            }
        }
        self.last = (self.bytes, length);
        self.bytes += length as u64;
        self.datagrams += 1;
        Ok(())
    }

    /// What the sender says between datagrams: the token again, where it may not have been answered,
    /// or that it is done. Both are said back, and where that fails, are said again.
    fn hear(&mut self, length: usize) -> io::Result<()> {
        let said = &self.buffer.as_slice()[..length];
        match said.strip_prefix(&self.token[..]) {
            Some([] | FAREWELL) => {
                let _ = self.channel.send_all(said);
                Ok(())
            }
            _ => Err(other_bytes()),
        }
    }

    /// The sender is done; it learns that all has arrived, unless it has closed already.
    fn end(&mut self) {
        self.ended = true;
        let _ = self.channel.shut_down(Shutdown::Both);
    }

    /// Whether every byte of the last piece is what was sent there; of a datagram, whose first 64 B
    /// but for its number were compared when it came, whether the others are.
    pub fn last_piece_is_right(&self) -> bool {
        let (from, length) = self.last;
        let size = self.block.len() as u64;
        if !self.channel.is_stream() {
            // What was said after it lies in its first bytes.
            let rest = BLOCK_LEAST_BYTES..length;
            return self.buffer.as_slice().get(rest.clone()) == self.block.get(rest);
        }
        self.buffer.as_slice()[..length]
            .iter()
            .zip(from..)
            .all(|(byte, at)| {
                let (number, within) = (at / size, (at % size) as usize);
                *byte
                    == number
                        .to_le_bytes()
                        .get(within)
                        .copied()
                        .unwrap_or(self.block[within])
            })
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks.marks
    }

    /// What became of the datagrams; none of a stream.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        match self.channel.over {
            Over::Udp => Ok(Some(Datagrams {
                arrived: self.datagrams,
                dropped: socket::dropped_datagrams(&self.channel.socket)?.into(),
            })),
            Over::Tcp | Over::Unix => Ok(None),
        }
    }

    /// How much its socket lets wait to be received, in bytes.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(_, receive)| receive)
    }

    /// Allocations while it received.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

//! The receiving end of a flow.

use super::channel::Channel;
use super::{BLOCK_LEAST_BYTES, END};
use crate::rendezvous::Over;
use crate::stream::{Checkpoint, Checkpoints, Datagrams, Expected, NUMBER_BYTES, wrong_bytes};
use costof_os::memory::allocator::allocations;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::net::socket::{self, is_passing};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::Shutdown;

/// The most bytes to receive at once.
const RECEIVE_BYTES: usize = 128 << 10;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    pub(super) channel: Channel,
    token: Vec<u8>,
    buffer: Arena,
    pub(super) expected: Expected,
    /// Bytes and datagrams that have arrived.
    pub(super) bytes: u64,
    datagrams: u64,
    /// Where the last piece began, and how long it was.
    last: (u64, usize),
    /// Whether a stream has ended.
    ended: bool,
    checkpoints: Checkpoints,
    allocations: u64,
}

impl Receiver {
    pub(super) fn new(channel: Channel, token: &[u8]) -> io::Result<Self> {
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        Ok(Self {
            channel,
            token: token.to_vec(),
            buffer,
            expected: Expected::default(),
            bytes: 0,
            datagrams: 0,
            last: (0, 0),
            ended: false,
            checkpoints: Checkpoints::new(),
            allocations: 0,
        })
    }

    /// Receives blocks of `size` bytes until `stop` is set, whether or not the sender has ended the transfer:
    /// what the sender has discarded, or a link has lost, never arrives.
    ///
    /// # Errors
    ///
    /// Those of recv(2); `InvalidData` if something arrived that was not sent.
    pub fn receive(&mut self, size: usize, stop: &AtomicBool) -> io::Result<()> {
        self.expected = Expected::new(size, NUMBER_BYTES);
        let allocated = allocations();
        while !stop.load(Ordering::Acquire) {
            if self.ended {
                sleep(Duration::from_millis(1));
            } else {
                self.receive_until_checkpoint()?;
            }
        }
        self.allocations += allocations() - allocated;
        Ok(())
    }

    /// Receives until there is another checkpoint, nothing has arrived for a while, or the end has arrived.
    pub(super) fn receive_until_checkpoint(&mut self) -> io::Result<()> {
        loop {
            let length = match self.channel.receive(self.buffer.as_mut_slice()) {
                Ok(0) if self.channel.is_stream() => {
                    self.end();
                    return Ok(());
                }
                Ok(length) => length,
                Err(error) if is_passing(&error) => return Ok(()),
                // The sender has discarded what was in flight.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.end();
                    return Ok(());
                }
                // The sender closed its socket before it had the last reply.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) => return Err(error),
            };
            if !self.channel.is_stream() && length < BLOCK_LEAST_BYTES {
                return self.reply(length);
            }
            self.count(length)?;
            if self.checkpoints.is_due_after(length as u64) {
                let checkpoints = self.checkpoints.as_slice().len();
                self.checkpoints.record(self.bytes);
                if self.checkpoints.as_slice().len() != checkpoints {
                    return Ok(());
                }
            }
        }
    }

    /// Checks a piece or a datagram, and counts it.
    #[inline]
    fn count(&mut self, length: usize) -> io::Result<()> {
        let piece = &self.buffer.as_slice()[..length];
        let is_right = if self.channel.is_stream() {
            self.expected.is_numbered(piece, self.bytes)
        } else {
            self.expected.is_message(piece)
        };
        if !is_right {
            return Err(wrong_bytes());
        }
        self.last = (self.bytes, length);
        self.bytes += length as u64;
        self.datagrams += 1;
        Ok(())
    }

    /// Returns a control message to the sender: its token, if the first reply was lost, or the end of the
    /// transfer. If this reply is lost, the sender repeats its message.
    fn reply(&mut self, length: usize) -> io::Result<()> {
        let message = &self.buffer.as_slice()[..length];
        match message.strip_prefix(&self.token[..]) {
            Some([] | END) => {
                let _ = self.channel.send_all(message);
                Ok(())
            }
            _ => Err(wrong_bytes()),
        }
    }

    /// Closes a stream that the sender has ended. The sender then knows that everything arrived.
    fn end(&mut self) {
        self.ended = true;
        let _ = self.channel.shut_down(Shutdown::Both);
    }

    /// Whether every byte of the last piece is what was sent. The first 64 B of a datagram were checked when
    /// it arrived; this checks the others.
    pub fn last_piece_is_right(&self) -> bool {
        let (from, length) = self.last;
        let piece = &self.buffer.as_slice()[..length];
        if self.channel.is_stream() {
            self.expected.is_whole_piece(piece, from)
        } else {
            // A later control message has overwritten its first bytes.
            self.expected.is_rest(piece)
        }
    }

    /// Its progress, recorded from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.checkpoints.as_slice()
    }

    /// Its datagrams; `None` for a stream.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        match self.channel.over {
            Over::Udp => Ok(Some(Datagrams {
                arrived: self.datagrams,
                dropped: socket::dropped_datagrams(&self.channel.socket)?.into(),
            })),
            Over::Tcp | Over::Unix => Ok(None),
        }
    }

    /// The size of its socket's receive buffer, in bytes.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(_, receive)| receive)
    }

    /// Memory allocations while it received.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

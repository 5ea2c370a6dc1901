//! The receiving end of a flow of messages.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::{MESSAGE_LEAST_BYTES, Shape, other_bytes};
use crate::allocator::allocations;
use crate::arena::{Arena, PageSize};
use crate::field_sender::{FieldSender, Primitive};
use crate::fields::{self, Messages};
use crate::meeting::{Over, is_passing};
use crate::socket;
use crate::transfer::Mark;
use crate::transfer::marks::Marks;

/// How much is received at once, at most.
const RECEIVE_BYTES: usize = 128 << 10;
const LOOK_BYTES: u64 = 32 << 10;
const WORD_BYTES: usize = 8;

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    over: Over,
    shape: Shape,
    /// The first words of all messages, in order, and whose they are: of datagrams nobody knows
    /// which are lost.
    begins: Vec<([u8; WORD_BYTES], usize)>,
    buffer: Arena,
    bytes: u64,
    /// From how many bytes on it notes how far it is.
    marked_from_bytes: u64,
    datagrams: u64,
    /// Which message the last piece began in, where in it, and how long the piece was.
    last: (usize, usize, usize),
    ended: bool,
    marks: Marks,
    allocations: u64,
}

impl Receiver {
    pub(super) fn of(socket: OwnedFd, over: Over, shape: Shape) -> io::Result<Self> {
        if shape.size < MESSAGE_LEAST_BYTES || shape.count == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        let mut begins = Vec::new();
        if over == Over::Udp {
            begins.extend((0..shape.count).map(|number| (fields::word(number, 0), number)));
            begins.sort_unstable();
        }
        Ok(Self {
            socket,
            over,
            shape,
            begins,
            buffer,
            bytes: 0,
            marked_from_bytes: 0,
            datagrams: 0,
            last: (0, 0, 0),
            ended: false,
            marks: Marks::new(),
            allocations: 0,
        })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Notes how far it is only when so many messages have come, which are sent before those that
    /// follow each other without a pause.
    pub fn mark_after(&mut self, messages: u64) {
        self.marked_from_bytes = messages * self.shape.size as u64;
    }

    /// Receives until `stop` is set, whether the sender has said that it was done or not: what a
    /// link has lost never comes.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `InvalidData` where something came that was not sent.
    pub fn receive(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.take_until(stop, &mut |_| Ok(()))
    }

    /// As [`Receiver::receive`], and answers every message that has come whole with one of
    /// `messages`, sent by `primitive`.
    ///
    /// # Errors
    ///
    /// Those of [`Receiver::receive`], [`FieldSender::new`] and [`FieldSender::send`].
    pub fn answer(
        &mut self,
        primitive: Primitive,
        messages: Messages,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut sender = FieldSender::new(self.socket.try_clone()?, primitive, messages)?;
        self.take_until(stop, &mut |whole| {
            while sender.counts().messages < whole {
                sender.send()?;
            }
            Ok(())
        })
    }

    /// Receives until it is told to stop; `arrived` hears how many messages have come whole.
    fn take_until(
        &mut self,
        stop: &AtomicBool,
        arrived: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let size = self.shape.size as u64;
        let allocated = allocations();
        let (mut bytes, mut calls) = (0, 0);
        while !stop.load(Ordering::Acquire) {
            if self.ended {
                sleep(Duration::from_millis(1));
                continue;
            }
            let length = match recv(&self.socket, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, 0)) if self.over != Over::Udp => {
                    self.end();
                    continue;
                }
                Ok((_, length)) => length,
                Err(error) => match io::Error::from(error) {
                    error if is_passing(&error) => continue,
                    // The sender has gone, with what was still on its way.
                    error if error.kind() == ErrorKind::ConnectionReset => {
                        self.end();
                        continue;
                    }
                    error if error.kind() == ErrorKind::ConnectionRefused => continue,
                    error => return Err(error),
                },
            };
            self.check(length)?;
            self.bytes += length as u64;
            self.datagrams += 1;
            arrived(self.bytes / size)?;
            bytes += length as u64;
            calls += 1;
            let is_marked = self.bytes >= self.marked_from_bytes;
            if is_marked && (bytes >= LOOK_BYTES || calls >= self.marks.look_calls) {
                self.marks.note(self.bytes);
                (bytes, calls) = (0, 0);
            }
        }
        self.allocations += allocations() - allocated;
        Ok(())
    }

    /// Looks at the first word of a message that lies whole in what came.
    #[inline]
    fn check(&mut self, length: usize) -> io::Result<()> {
        let Shape { size, count } = self.shape;
        let piece = &self.buffer.as_slice()[..length];
        let (message, offset) = match self.over {
            Over::Udp if length != size => return Err(other_bytes()),
            Over::Udp => {
                let (begin, _) = piece.split_at(WORD_BYTES);
                let found = self
                    .begins
                    .binary_search_by(|(word, _)| word[..].cmp(begin));
                (self.begins[found.map_err(|_| other_bytes())?].1, 0)
            }
            Over::Tcp | Over::Unix => {
                let number = self.bytes / size as u64;
                let offset = self.bytes % size as u64;
                ((number % count as u64) as usize, offset as usize)
            }
        };
        self.last = (message, offset, length);
        let behind = (WORD_BYTES - offset % WORD_BYTES) % WORD_BYTES;
        let at = offset + behind;
        let (message, index, from) = match at + WORD_BYTES <= size {
            true => (message, at / WORD_BYTES, behind),
            // Nothing of this message is left but a part of a word.
            false => ((message + 1) % count, 0, size - offset),
        };
        match piece.get(from..from + WORD_BYTES) {
            Some(word) if *word != fields::word(message, index) => Err(other_bytes()),
            _ => Ok(()),
        }
    }

    /// The sender is done; it learns that all has arrived, unless it has closed already.
    fn end(&mut self) {
        self.ended = true;
        // What came last is in no mark yet.
        self.marks.end(self.bytes);
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Whether every byte of the last piece is what was sent there.
    pub fn last_piece_is_right(&self) -> bool {
        let Shape { size, count } = self.shape;
        let (mut message, mut offset, length) = self.last;
        let mut piece = &self.buffer.as_slice()[..length];
        let mut sent = vec![0; size.min(length)];
        while !piece.is_empty() {
            let (here, rest) = piece.split_at((size - offset).min(piece.len()));
            let sent = &mut sent[..here.len()];
            fields::write_contents(message, offset, sent);
            if here != sent {
                return false;
            }
            (message, offset, piece) = ((message + 1) % count, 0, rest);
        }
        true
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Mark] {
        self.marks.marks()
    }

    /// Payload that arrived, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pieces that arrived: of datagrams each is one, and a duplicate counts again.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Datagrams that its queue had no room for.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn dropped(&self) -> io::Result<u64> {
        match self.over {
            Over::Udp => Ok(socket::dropped_datagrams(&self.socket)?.into()),
            Over::Tcp | Over::Unix => Ok(0),
        }
    }

    /// Allocations while it received.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

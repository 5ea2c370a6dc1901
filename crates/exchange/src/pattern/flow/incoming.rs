//! Receives the messages of a flow, and checks them against what was sent.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, recv};

use super::MESSAGE_MIN_BYTES;
use crate::content::fields::{InDatagrams, Shape};
use crate::content::numbered::{NUMBER_BYTES, Numbered};
use crate::content::wrong_bytes;
use crate::rendezvous::{Over, Token};
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::net::control_message;
use costof_os::net::segments;

/// The most bytes to receive at once.
const RECEIVE_BYTES: usize = 128 << 10;

/// What the messages of a flow contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Fields whose bytes follow from the message's number.
    Fields(Shape),
    /// A block of this size, always the same but for the number at its beginning.
    Blocks(usize),
}

impl Content {
    /// Bytes of a message.
    pub(super) fn size(self) -> usize {
        match self {
            Content::Fields(shape) => shape.size,
            Content::Blocks(size) => size,
        }
    }
}

/// How pieces or datagrams are compared.
#[derive(Debug)]
enum Check {
    Fields(Shape, Option<InDatagrams>),
    Blocks(Numbered),
}

/// Incoming messages of one flow.
#[derive(Debug)]
pub(super) struct Incoming {
    over: Over,
    size: usize,
    check: Check,
    buffer: Arena,
    control: [u64; 8],
    /// Payload that arrived, in bytes.
    pub(super) bytes: u64,
    /// Messages that have come completely as datagrams.
    messages: u64,
    /// Datagrams that arrived; a duplicate counts again.
    pub(super) datagrams: u64,
    /// The last piece: its place among the bytes of the messages, its offset in the buffer, and its length.
    last: (u64, usize, usize),
    /// Room for the expected bytes of a piece, if every byte is compared.
    expected: Option<Vec<u8>>,
    pub(super) token: Token,
}

impl Incoming {
    /// Does not take a datagram with the token for a message.
    pub(super) fn new(over: Over, content: Content, token: Token) -> io::Result<Self> {
        let (size, check) = match content {
            Content::Fields(shape) => {
                let Shape { size, count } = shape;
                if size < MESSAGE_MIN_BYTES || count == 0 {
                    return Err(ErrorKind::InvalidInput.into());
                }
                let datagram = over.datagram_bytes(size);
                let datagrams = datagram.map(|bytes| InDatagrams::new(shape, bytes));
                (size, Check::Fields(shape, datagrams))
            }
            Content::Blocks(size) => (size, Check::Blocks(Numbered::new(size, NUMBER_BYTES))),
        };
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        Ok(Self {
            over,
            size,
            check,
            buffer,
            control: [0; 8],
            bytes: 0,
            messages: 0,
            datagrams: 0,
            last: (0, 0, 0),
            expected: None,
            token,
        })
    }

    /// Compares every byte from now on.
    pub(super) fn verify(&mut self) {
        self.expected = Some(vec![0; RECEIVE_BYTES]);
    }

    /// Receives once and checks what arrived. Returns how many bytes of messages; 0 at the end of a stream.
    ///
    /// # Errors
    ///
    /// Those of recv(2); `WouldBlock` also if only the token arrived again; `InvalidData` if something
    /// arrived that was not sent.
    #[inline]
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let buffer = self.buffer.as_mut_slice();
        let (length, each) = if self.over == Over::UdpGso {
            let (length, control) = control_message::receive(socket, buffer, &mut self.control, 0)?;
            (length, segments::length_of_each(control).unwrap_or(length))
        } else {
            let (_, length) = recv(socket, buffer, RecvFlags::empty())?;
            (length, length)
        };
        if self.over.is_datagrams() {
            return self.check_datagrams(socket, length, each);
        }
        if length > 0 {
            self.check_stream(length)?;
            self.bytes += length as u64;
        }
        Ok(length)
    }

    /// Checks datagrams that were received together, each but the last of length `each`. Returns how many
    /// bytes of messages they have.
    #[inline]
    fn check_datagrams(
        &mut self,
        socket: BorrowedFd<'_>,
        length: usize,
        each: usize,
    ) -> io::Result<usize> {
        if length == 0 {
            return Err(wrong_bytes());
        }
        let (mut at, mut bytes) = (0, 0);
        while at < length {
            let here = each.clamp(1, length - at);
            bytes += if self.check_datagram(socket, at, here)? { here } else { 0 };
            at += here;
        }
        if bytes == 0 {
            if matches!(self.check, Check::Fields(..)) {
                // What came before it has been overwritten.
                self.last = (0, 0, 0);
            }
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes += bytes as u64;
        Ok(bytes)
    }

    /// Discards what has arrived so far.
    pub(super) fn discard_pending(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            match recv(socket, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) if !self.over.is_datagrams() => return Ok(()),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                // The peer did not receive what was sent before; the kernel reports it once.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[inline]
    fn check_stream(&mut self, length: usize) -> io::Result<()> {
        self.last = (self.bytes, 0, length);
        if self.expected.is_some() {
            return self.check_all();
        }
        let piece = &self.buffer.as_slice()[..length];
        let is_right = match &self.check {
            Check::Fields(shape, _) => shape.is_piece(piece, self.bytes),
            Check::Blocks(numbered) => numbered.is_numbered(piece, self.bytes),
        };
        if is_right { Ok(()) } else { Err(wrong_bytes()) }
    }

    /// Checks a datagram of messages; false if it belongs to the rendezvous.
    #[inline]
    fn check_datagram(
        &mut self,
        socket: BorrowedFd<'_>,
        at: usize,
        length: usize,
    ) -> io::Result<bool> {
        let datagram = &self.buffer.as_slice()[at..at + length];
        let found = match &mut self.check {
            Check::Fields(_, datagrams) => datagrams.as_mut().and_then(|all| all.find(datagram)),
            Check::Blocks(numbered) => numbered.is_message(datagram).then_some((0, true)),
        };
        let Some((from, completes)) = found else {
            if !self.token.takes(datagram, socket) {
                return Err(wrong_bytes());
            }
            return Ok(false);
        };
        self.last = (from, at, length);
        self.datagrams += 1;
        self.messages += u64::from(completes);
        if self.expected.is_some() {
            self.check_all()?;
        }
        Ok(true)
    }

    fn check_all(&mut self) -> io::Result<()> {
        let mut expected = self.expected.take().unwrap_or_default();
        let is_right = self.is_last_right(&mut expected);
        self.expected = Some(expected);
        if is_right { Ok(()) } else { Err(wrong_bytes()) }
    }

    /// Whether every byte of the last piece is what was sent. `expected` is as long as any piece.
    fn is_last_right(&self, expected: &mut [u8]) -> bool {
        let (from, at, length) = self.last;
        let piece = &self.buffer.as_slice()[at..at + length];
        match &self.check {
            Check::Fields(shape, _) => shape.is_whole_piece(piece, from, expected),
            // The end of the flow, which came later, has overwritten its first bytes.
            Check::Blocks(numbered) if self.over.is_datagrams() => numbered.is_rest(piece),
            Check::Blocks(numbered) => numbered.is_whole_piece(piece, from),
        }
    }

    /// As [`Incoming::is_last_right`], once.
    pub(super) fn last_piece_is_right(&self) -> bool {
        self.is_last_right(&mut vec![0; self.size.min(RECEIVE_BYTES)])
    }

    /// Messages that arrived completely, with their datagrams in the order in which they were sent.
    #[inline]
    pub(super) fn messages(&self) -> u64 {
        if self.over.is_datagrams() { self.messages } else { self.bytes / self.size as u64 }
    }
}

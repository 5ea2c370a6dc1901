//! Checks incoming messages against what was sent: the contents of a message follow from its
//! number.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{MESSAGE_LEAST_BYTES, Shape, Transport, other_bytes};
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::fields;
use costof_os::net::control_message;
use costof_os::net::segments;

/// The most bytes to receive at once.
const RECEIVE_BYTES: usize = 128 << 10;
const WORD_BYTES: usize = 8;
/// How long the sender repeats the token before it is answered again.
const TOKEN_PATIENCE: Duration = Duration::from_secs(1);

/// A message's number, and an offset in it in bytes.
type Place = (usize, usize);

/// Incoming messages of one flow.
#[derive(Debug)]
pub(super) struct Incoming {
    transport: Transport,
    shape: Shape,
    /// The longest datagram in bytes; `None` for a stream.
    datagram: Option<usize>,
    /// The first words of all datagrams, sorted, and where they belong: any of them may be lost.
    first_words: Vec<([u8; WORD_BYTES], Place)>,
    /// Where the next datagram begins if none is lost.
    next: Place,
    /// Whether all datagrams of its message have arrived so far.
    has_all: bool,
    buffer: Arena,
    control: [u64; 8],
    bytes: u64,
    /// Messages that have come completely.
    messages: u64,
    datagrams: u64,
    /// The place where the last piece began, its offset in the buffer, and its length.
    last: (Place, usize, usize),
    /// Room for the expected bytes of a piece, if every byte is compared.
    expected: Option<Vec<u8>>,
    /// What the sender of datagrams sends first; empty where no token is expected.
    token: Vec<u8>,
    /// When the token was first repeated.
    token_repeated: Option<Instant>,
}

impl Incoming {
    /// Does not take a datagram with `token` for a message: the sender repeats the token until it is
    /// answered, and so also while the answer is on its way.
    pub(super) fn new(transport: Transport, shape: Shape, token: &[u8]) -> io::Result<Self> {
        let Shape { size, count } = shape;
        if size < MESSAGE_LEAST_BYTES || count == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        let datagram = transport.datagram_bytes(size);
        let mut first_words = Vec::new();
        if let Some(datagram) = datagram {
            first_words.reserve_exact(count * size.div_ceil(datagram));
            for number in 0..count {
                let offsets = (0..size).step_by(datagram);
                first_words.extend(offsets.map(|at| (first_word(number, at, size), (number, at))));
            }
            first_words.sort_unstable();
        }
        Ok(Self {
            transport,
            shape,
            datagram,
            first_words,
            next: (0, 0),
            has_all: true,
            buffer,
            control: [0; 8],
            bytes: 0,
            messages: 0,
            datagrams: 0,
            last: ((0, 0), 0, 0),
            expected: None,
            token: token.to_vec(),
            token_repeated: None,
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
        let (length, each) = if self.transport == Transport::UdpGso {
            let (length, control) = control_message::receive(socket, buffer, &mut self.control, 0)?;
            (length, segments::length_of_each(control).unwrap_or(length))
        } else {
            let (_, length) = recv(socket, buffer, RecvFlags::empty())?;
            (length, length)
        };
        match self.datagram {
            Some(_) if length == 0 => Err(other_bytes()),
            Some(datagram) => self.check_datagrams(socket, datagram, length, each),
            None if length == 0 => Ok(0),
            None => {
                self.check_stream(length)?;
                self.bytes += length as u64;
                self.messages = self.bytes / self.shape.size as u64;
                Ok(length)
            }
        }
    }

    /// Checks datagrams that were received together, each but the last of length `each`. Returns how many
    /// bytes of messages they have.
    #[inline]
    fn check_datagrams(
        &mut self,
        socket: BorrowedFd<'_>,
        datagram: usize,
        length: usize,
        each: usize,
    ) -> io::Result<usize> {
        let (mut at, mut bytes) = (0, 0);
        while at < length {
            let here = each.clamp(1, length - at);
            if self.check_datagram(datagram, at, here)? {
                bytes += here;
            } else {
                self.answer_token_again(socket);
            }
            at += here;
        }
        if bytes == 0 {
            // What came before it has been overwritten.
            self.last = ((0, 0), 0, 0);
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes += bytes as u64;
        Ok(bytes)
    }

    /// Discards what has arrived so far.
    pub(super) fn discard_pending(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            match recv(socket, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) if !self.transport.is_datagrams() => return Ok(()),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                // The peer did not receive what was sent before; the kernel reports it once.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Compares one word of a piece of a stream: the first that is completely in it.
    #[inline]
    fn check_stream(&mut self, length: usize) -> io::Result<()> {
        let Shape { size, count } = self.shape;
        let number = self.bytes / size as u64;
        let offset = (self.bytes % size as u64) as usize;
        let message = (number % count as u64) as usize;
        self.last = ((message, offset), 0, length);
        if self.expected.is_some() {
            return self.check_all();
        }
        let piece = &self.buffer.as_slice()[..length];
        let behind = (WORD_BYTES - offset % WORD_BYTES) % WORD_BYTES;
        let at = offset + behind;
        let (message, index, from) = if at + WORD_BYTES <= size {
            (message, at / WORD_BYTES, behind)
        } else {
            // Only a part of a word is left of this message.
            ((message + 1) % count, 0, size - offset)
        };
        match piece.get(from..from + WORD_BYTES) {
            Some(word) if *word != fields::word(message, index) => Err(other_bytes()),
            _ => Ok(()),
        }
    }

    /// Answers the token again if the sender still waits: the first answer was lost if the token is repeated
    /// for longer than any round trip takes. An earlier answer could be taken for a message.
    #[cold]
    fn answer_token_again(&mut self, socket: BorrowedFd<'_>) {
        let now = Instant::now();
        let since = *self.token_repeated.get_or_insert(now);
        if now - since >= TOKEN_PATIENCE {
            // If this fails, the sender repeats the token.
            let _ = send(socket, &self.token, SendFlags::NOSIGNAL);
        }
    }

    /// Finds the message of a datagram by its first word, and whether the datagram completes it; false if it
    /// is the token.
    #[inline]
    fn check_datagram(&mut self, datagram: usize, at: usize, length: usize) -> io::Result<bool> {
        let Shape { size, count } = self.shape;
        let piece = &self.buffer.as_slice()[at..at + length];
        let mut word = [0; WORD_BYTES];
        let compared = length.min(WORD_BYTES);
        word[..compared].copy_from_slice(&piece[..compared]);
        let is_next = word == first_word(self.next.0, self.next.1, size);
        let (message, offset) = if is_next {
            self.next
        } else {
            // A datagram was lost, or overtaken.
            let found = self.first_words.binary_search_by(|(first, _)| first.cmp(&word));
            match found {
                Ok(found) => self.first_words[found].1,
                Err(_) if !self.token.is_empty() && *piece == *self.token => return Ok(false),
                Err(_) => return Err(other_bytes()),
            }
        };
        if length != datagram.min(size - offset) {
            return Err(other_bytes());
        }
        self.last = ((message, offset), at, length);
        self.datagrams += 1;
        self.has_all = offset == 0 || (is_next && self.has_all);
        self.next = if offset + length == size {
            self.messages += u64::from(self.has_all);
            ((message + 1) % count, 0)
        } else {
            (message, offset + length)
        };
        if self.expected.is_some() {
            self.check_all()?;
        }
        Ok(true)
    }

    fn check_all(&mut self) -> io::Result<()> {
        let mut expected = self.expected.take().unwrap_or_default();
        let is_right = self.is_last_right(&mut expected);
        self.expected = Some(expected);
        if is_right { Ok(()) } else { Err(other_bytes()) }
    }

    /// Whether every byte of the last piece is what was sent. `expected` is as long as any piece.
    fn is_last_right(&self, expected: &mut [u8]) -> bool {
        let Shape { size, count } = self.shape;
        let ((mut message, mut offset), at, length) = self.last;
        let mut piece = &self.buffer.as_slice()[at..at + length];
        while !piece.is_empty() {
            let (here, rest) = piece.split_at((size - offset).min(piece.len()));
            let expected = &mut expected[..here.len()];
            fields::write_contents(message, offset, expected);
            if here != expected {
                return false;
            }
            (message, offset, piece) = ((message + 1) % count, 0, rest);
        }
        true
    }

    /// As [`Incoming::is_last_right`], once.
    pub(super) fn last_piece_is_right(&self) -> bool {
        self.is_last_right(&mut vec![0; self.shape.size.min(RECEIVE_BYTES)])
    }

    /// Payload that arrived, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that arrived completely, with their datagrams in the order in which they were sent.
    #[inline]
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// Datagrams that arrived; a duplicate counts again.
    pub(super) fn datagrams(&self) -> u64 {
        self.datagrams
    }
}

/// The first word of the datagram at a place, padded with zeros.
#[inline]
fn first_word(message: usize, offset: usize, size: usize) -> [u8; WORD_BYTES] {
    if offset.is_multiple_of(WORD_BYTES) && size - offset >= WORD_BYTES {
        return fields::word(message, offset / WORD_BYTES);
    }
    let mut word = [0; WORD_BYTES];
    fields::write_contents(message, offset, &mut word[..(size - offset).min(WORD_BYTES)]);
    word
}

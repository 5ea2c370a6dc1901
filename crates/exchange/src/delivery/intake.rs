//! What comes in at an end, and whether it is what was sent: what a message holds follows from its
//! number.

use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{MESSAGE_LEAST_BYTES, Shape, other_bytes};
use crate::rendezvous::Over;
use costof_os::memory::arena::{Arena, PageSize};
use costof_os::memory::fields;
use costof_os::net::control_message;
use costof_os::net::segments::{self, SEGMENT_BYTES};

/// How much is received at once, at most.
const RECEIVE_BYTES: usize = 128 << 10;
const WORD_BYTES: usize = 8;
/// How long the token is said again before it is answered again.
const UNANSWERED: Duration = Duration::from_secs(1);

/// A message's number, and where in it something is.
type Place = (usize, usize);

/// Messages that come in.
#[derive(Debug)]
pub(super) struct Intake {
    over: Over,
    shape: Shape,
    /// The longest datagram; none of a stream.
    datagram: Option<usize>,
    /// Whether several of them may come at once.
    has_trains: bool,
    /// The first words of all datagrams, in order, and whose they are: nobody knows which are lost.
    begins: Vec<([u8; WORD_BYTES], Place)>,
    /// Where the next datagram begins if none is lost.
    next: Place,
    /// Whether all datagrams of its message have come so far.
    has_all: bool,
    buffer: Arena,
    control: [u64; 8],
    bytes: u64,
    /// Messages that have come whole.
    whole: u64,
    datagrams: u64,
    /// Where the last piece began, where in the buffer it is, and how long.
    last: (Place, usize, usize),
    /// Room for what a piece has to be, where every byte is compared.
    expected: Option<Vec<u8>>,
    /// What the sender of datagrams says first; empty where nothing is said here.
    token: Vec<u8>,
    /// When it was first said again.
    said_again: Option<Instant>,
}

impl Intake {
    pub(super) fn of(over: Over, shape: Shape, is_segmented: bool) -> io::Result<Self> {
        let Shape { size, count } = shape;
        if size < MESSAGE_LEAST_BYTES || count == 0 {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut buffer = Arena::map(RECEIVE_BYTES, PageSize::Base)?;
        buffer.populate()?;
        let datagram = match (over, is_segmented) {
            (Over::Udp, true) => Some(SEGMENT_BYTES),
            (Over::Udp, false) => Some(size),
            (Over::Tcp | Over::Unix, _) => None,
        };
        let mut begins = Vec::new();
        if let Some(datagram) = datagram {
            begins.reserve_exact(count * size.div_ceil(datagram));
            for number in 0..count {
                let offsets = (0..size).step_by(datagram);
                begins.extend(offsets.map(|at| (begin(number, at, size), (number, at))));
            }
            begins.sort_unstable();
        }
        Ok(Self {
            over,
            shape,
            datagram,
            has_trains: is_segmented && datagram.is_some(),
            begins,
            next: (0, 0),
            has_all: true,
            buffer,
            control: [0; 8],
            bytes: 0,
            whole: 0,
            datagrams: 0,
            last: ((0, 0), 0, 0),
            expected: None,
            token: Vec::new(),
            said_again: None,
        })
    }

    /// Compares every byte from now on.
    pub(super) fn verify(&mut self) {
        self.expected = Some(vec![0; RECEIVE_BYTES]);
    }

    /// Takes no datagram with this token for a message: its sender says it again until it has been
    /// answered, and so also while the answer is on its way.
    pub(super) fn met_by(&mut self, token: &[u8]) {
        self.token = token.to_vec();
    }

    /// Receives once, looks at what came, and says how much of messages that was: 0 at the end of a
    /// stream.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `WouldBlock` also where nothing came but the token once more; `InvalidData`
    /// where something came that was not sent.
    #[inline]
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let buffer = self.buffer.as_mut_slice();
        let (length, each) = if self.has_trains {
            let flags = flags.bits().cast_signed();
            let (length, control) =
                control_message::receive(socket, buffer, &mut self.control, flags)?;
            (length, segments::length_of_each(control).unwrap_or(length))
        } else {
            let (_, length) = recv(socket, buffer, flags)?;
            (length, length)
        };
        let length = match self.datagram {
            Some(_) if length == 0 => return Err(other_bytes()),
            Some(datagram) => {
                let (mut at, mut bytes) = (0, 0);
                while at < length {
                    let here = each.clamp(1, length - at);
                    if self.check_datagram(datagram, at, here)? {
                        bytes += here;
                    } else {
                        self.hear_again(socket);
                    }
                    at += here;
                }
                if bytes == 0 {
                    // What came before it has been written over.
                    self.last = ((0, 0), 0, 0);
                    return Err(ErrorKind::WouldBlock.into());
                }
                bytes
            }
            None if length == 0 => return Ok(0),
            None => {
                self.check_stream(length)?;
                length
            }
        };
        self.bytes += length as u64;
        if self.datagram.is_none() {
            self.whole = self.bytes / self.shape.size as u64;
        }
        Ok(length)
    }

    /// Throws away what has come by now.
    pub(super) fn drain(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        loop {
            match recv(socket, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, 0)) if self.over != Over::Udp => return Ok(()),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                // Nobody has received what was sent before; it is said once.
                Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Looks at the first word of a message that lies whole in a piece of a stream.
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

    /// Answers the token again, where the sender waits for it: the answer has been lost if it is said
    /// for longer than any round trip takes. One that comes while messages go would be taken for one.
    #[cold]
    fn hear_again(&mut self, socket: BorrowedFd<'_>) {
        let now = Instant::now();
        let since = *self.said_again.get_or_insert(now);
        if now - since >= UNANSWERED {
            // Where that fails it is said again.
            let _ = send(socket, &self.token, SendFlags::NOSIGNAL);
        }
    }

    /// Finds out whose a datagram is, by its first word, and whether its message is whole by it; false
    /// where it is the token.
    #[inline]
    fn check_datagram(&mut self, datagram: usize, at: usize, length: usize) -> io::Result<bool> {
        let Shape { size, count } = self.shape;
        let piece = &self.buffer.as_slice()[at..at + length];
        let mut word = [0; WORD_BYTES];
        let looked_at = length.min(WORD_BYTES);
        word[..looked_at].copy_from_slice(&piece[..looked_at]);
        let is_next = word == begin(self.next.0, self.next.1, size);
        let (message, offset) = match is_next {
            true => self.next,
            // Something is lost, or came by another way.
            false => {
                let found = self.begins.binary_search_by(|(begin, _)| begin.cmp(&word));
                match found {
                    Ok(found) => self.begins[found].1,
                    Err(_) if !self.token.is_empty() && *piece == *self.token => return Ok(false),
                    Err(_) => return Err(other_bytes()),
                }
            }
        };
        if length != datagram.min(size - offset) {
            return Err(other_bytes());
        }
        self.last = ((message, offset), at, length);
        self.datagrams += 1;
        self.has_all = offset == 0 || (is_next && self.has_all);
        self.next = match offset + length == size {
            true => {
                self.whole += u64::from(self.has_all);
                ((message + 1) % count, 0)
            }
            false => (message, offset + length),
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

    /// Whether every byte of the last piece is what was sent there; `expected` is as long as any.
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

    /// As [`Intake::is_last_right`], once.
    pub(super) fn last_piece_is_right(&self) -> bool {
        self.is_last_right(&mut vec![0; self.shape.size.min(RECEIVE_BYTES)])
    }

    /// Payload that came, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages that have come whole, datagrams in the order in which they were sent.
    #[inline]
    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    /// Datagrams that came; a duplicate counts again.
    pub(super) fn datagrams(&self) -> u64 {
        self.datagrams
    }
}

/// What the datagram at a place begins with: a word, or what is left with zeros behind it.
#[inline]
fn begin(message: usize, offset: usize, size: usize) -> [u8; WORD_BYTES] {
    if offset.is_multiple_of(WORD_BYTES) && size - offset >= WORD_BYTES {
        return fields::word(message, offset / WORD_BYTES);
    }
    let mut word = [0; WORD_BYTES];
    fields::write_contents(
        message,
        offset,
        &mut word[..(size - offset).min(WORD_BYTES)],
    );
    word
}

//! Messages that are all alike but for a header, which begins with their number.

use costof_os::memory::pattern::pattern;

/// Bytes of a message's number.
pub(crate) const NUMBER_BYTES: usize = 8;
/// How many bytes of a message are compared at its beginning and at its end, if it is that long.
const HEAD_BYTES: usize = 64;
const TAIL_BYTES: usize = 8;

/// The message of a transfer: all are equal, except for a header that begins with a number.
#[derive(Debug, Default)]
pub(crate) struct Numbered {
    message: Vec<u8>,
    header_bytes: usize,
}

impl Numbered {
    /// A message of `size` bytes with a header of `header_bytes`; 0 for none.
    pub(crate) fn new(size: usize, header_bytes: usize) -> Numbered {
        Numbered { message: pattern(size), header_bytes }
    }

    pub(crate) fn size(&self) -> usize {
        self.message.len()
    }

    pub(crate) fn has_header(&self) -> bool {
        self.header_bytes > 0
    }

    /// Whether a message has the right length, and the right first and last bytes after its header.
    #[inline]
    pub(crate) fn is_message(&self, message: &[u8]) -> bool {
        let size = self.message.len();
        let head = self.header_bytes..HEAD_BYTES.min(size);
        let tail = size.saturating_sub(TAIL_BYTES)..;
        message.len() == size
            && message[head.clone()] == self.message[head]
            && message[tail.clone()] == self.message[tail]
    }

    /// Whether the first message that begins in a piece of a stream has the right number, if the piece
    /// contains all of it. `from` is the piece's place in the stream, in bytes.
    #[inline]
    pub(crate) fn is_numbered(&self, piece: &[u8], from: u64) -> bool {
        let size = self.message.len() as u64;
        let number = from.div_ceil(size);
        let at = (number * size - from) as usize;
        let found = piece.get(at..at + NUMBER_BYTES);
        found.is_none_or(|found| *found == number.to_le_bytes())
    }

    /// Whether the last bytes of a piece of a stream are right, apart from headers.
    #[inline]
    pub(crate) fn is_tail(&self, piece: &[u8], from: u64) -> bool {
        let tail = piece.len().saturating_sub(TAIL_BYTES);
        let size = self.message.len() as u64;
        piece[tail..]
            .iter()
            .zip(from + tail as u64..)
            .map(|(byte, at)| (*byte, (at % size) as usize))
            .all(|(byte, within)| within < self.header_bytes || byte == self.message[within])
    }

    /// Whether every byte of a piece of a stream of numbered messages is right.
    pub(crate) fn is_whole_piece(&self, piece: &[u8], from: u64) -> bool {
        let size = self.message.len() as u64;
        piece.iter().zip(from..).all(|(byte, at)| {
            let (number, within) = (at / size, (at % size) as usize);
            let of_number = number.to_le_bytes().get(within).copied();
            *byte == of_number.unwrap_or(self.message[within])
        })
    }

    /// Whether a datagram is right after its first [`HEAD_BYTES`].
    pub(crate) fn is_rest(&self, datagram: &[u8]) -> bool {
        let rest = HEAD_BYTES..datagram.len();
        datagram.get(rest.clone()) == self.message.get(rest)
    }
}

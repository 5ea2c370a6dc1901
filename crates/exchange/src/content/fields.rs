//! Messages of several fields, whose contents follow from their number.

use costof_os::memory::fields;

const WORD_BYTES: usize = 8;

/// Messages of which one word is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a message, [`MESSAGE_MIN_BYTES`](crate::pattern::flow::MESSAGE_MIN_BYTES) or more.
    pub size: usize,
    /// How many different messages there are; after the last, the first is sent again.
    pub count: usize,
}

/// A message's number, and an offset in it in bytes.
type Place = (usize, usize);

impl Shape {
    /// Where the piece at these bytes of a stream begins.
    pub(crate) fn place(self, from: u64) -> Place {
        let (number, offset) = (from / self.size as u64, from % self.size as u64);
        ((number % self.count as u64) as usize, offset as usize)
    }

    /// Whether the first word that is completely in a piece of a stream is right. `from` is the piece's place in
    /// the stream, in bytes.
    #[inline]
    pub(crate) fn is_piece(self, piece: &[u8], from: u64) -> bool {
        let (message, offset) = self.place(from);
        let behind = (WORD_BYTES - offset % WORD_BYTES) % WORD_BYTES;
        let at = offset + behind;
        let (message, index, from) = if at + WORD_BYTES <= self.size {
            (message, at / WORD_BYTES, behind)
        } else {
            // Only a part of a word is left of this message.
            ((message + 1) % self.count, 0, self.size - offset)
        };
        piece.get(from..from + WORD_BYTES).is_none_or(|word| *word == fields::word(message, index))
    }

    /// Whether every byte of a piece is right. `expected` has room for it.
    pub(crate) fn is_whole_piece(self, mut piece: &[u8], from: u64, expected: &mut [u8]) -> bool {
        let (mut message, mut offset) = self.place(from);
        while !piece.is_empty() {
            let (here, rest) = piece.split_at((self.size - offset).min(piece.len()));
            let expected = &mut expected[..here.len()];
            fields::write_contents(message, offset, expected);
            if here != expected {
                return false;
            }
            (message, offset, piece) = ((message + 1) % self.count, 0, rest);
        }
        true
    }
}

/// The datagrams of messages: any of them may be lost.
#[derive(Debug)]
pub(crate) struct InDatagrams {
    shape: Shape,
    /// The longest datagram in bytes.
    datagram: usize,
    /// The first words of all datagrams, sorted, and where they belong.
    first_words: Vec<([u8; WORD_BYTES], Place)>,
    /// Where the next datagram begins if none is lost.
    next: Place,
    /// Whether all datagrams of its message have arrived so far.
    has_all: bool,
}

impl InDatagrams {
    pub(crate) fn new(shape: Shape, datagram: usize) -> Self {
        let Shape { size, count } = shape;
        let mut first_words = Vec::with_capacity(count * size.div_ceil(datagram));
        for number in 0..count {
            let offsets = (0..size).step_by(datagram);
            first_words.extend(offsets.map(|at| (first_word(number, at, size), (number, at))));
        }
        first_words.sort_unstable();
        Self { shape, datagram, first_words, next: (0, 0), has_all: true }
    }

    /// Finds the place of a datagram by its first word: in bytes of the messages, and whether it completes its
    /// message. `None` if it is none of them.
    #[inline]
    pub(crate) fn find(&mut self, datagram: &[u8]) -> Option<(u64, bool)> {
        let Shape { size, count } = self.shape;
        let length = datagram.len();
        let mut word = [0; WORD_BYTES];
        let compared = length.min(WORD_BYTES);
        word[..compared].copy_from_slice(&datagram[..compared]);
        let is_next = word == first_word(self.next.0, self.next.1, size);
        let (message, offset) = if is_next {
            self.next
        } else {
            // A datagram was lost, or overtaken.
            let found = self.first_words.binary_search_by(|(first, _)| first.cmp(&word)).ok()?;
            self.first_words[found].1
        };
        if length != self.datagram.min(size - offset) {
            return None;
        }
        self.has_all = offset == 0 || (is_next && self.has_all);
        let is_last = offset + length == size;
        self.next = if is_last { ((message + 1) % count, 0) } else { (message, offset + length) };
        Some(((message * size + offset) as u64, is_last && self.has_all))
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

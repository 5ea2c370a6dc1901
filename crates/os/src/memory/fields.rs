//! Messages of several fields, each at its own place, on pages of a requested size: what a program
//! has before it sends a message.
//!
//! Every message has different bytes, which follow from its number alone, so that the receiver
//! knows what they must be. Nothing changes them after they are written: the kernel may read them
//! long after a send has returned.
//!
//! Source: writev(2) on `struct iovec`.

use std::io::{self, ErrorKind};
use std::ops::Range;

use crate::memory::arena::{Arena, PageSize};
use crate::memory::message::concatenate;
use crate::system_call::invalid;

/// How many fields a message may have: Linux takes 1,024 entries at once (`IOV_MAX`).
pub const FIELDS_MAX: usize = 128;
/// Fields begin at a cache line, with one line between them, like the one in which an allocator keeps its
/// data.
const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

/// Messages of one size, and where their fields are.
#[derive(Debug)]
pub struct Messages {
    arena: Arena,
    /// The fields' places, message by message, prepared in advance.
    parts: Vec<libc::iovec>,
    fields: usize,
    size: usize,
    count: usize,
    next: usize,
}

// SAFETY: the places lie in the arena, which it owns and which is only read once it is made.
unsafe impl Send for Messages {}
// SAFETY: as above.
unsafe impl Sync for Messages {}

impl Messages {
    /// `count` messages of `size` bytes in `fields` fields: equal shares, and the rest in the last.
    ///
    /// All first fields lie together, then all second ones, each time in an order that `shuffle` makes. So
    /// neither the fields of one message nor those of neighbouring messages are adjacent. The fields of a
    /// single message lie one after the other, a cache line apart.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no message or no field, more fields than [`FIELDS_MAX`] or than there are
    /// bytes; those of [`Arena::map`] and [`Arena::populate`].
    ///
    /// # Panics
    ///
    /// If `shuffle` leaves a message out.
    pub fn new(
        (count, size, fields): (usize, usize, usize),
        pages: PageSize,
        shuffle: &mut dyn FnMut(&mut [usize]),
    ) -> io::Result<Self> {
        if count == 0 || fields == 0 || fields > FIELDS_MAX || size < fields {
            return Err(invalid(format!("no {count} messages of {size} bytes in {fields} fields")));
        }
        let bytes = memory_bytes(count, size, fields).ok_or(ErrorKind::InvalidInput)?;
        let mut arena = Arena::map(bytes, pages)?;
        arena.populate()?;
        let nowhere = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut parts = vec![nowhere; count * fields];
        let mut order: Vec<usize> = (0..count).collect();
        let start = arena.start();
        let mut at = 0;
        for field in 0..fields {
            let range = field_range(field, size, fields);
            shuffle(&mut order);
            for &message in &order {
                let place = &mut arena.as_mut_slice()[at..][..range.len()];
                write_contents(message, range.start, place);
                parts[message * fields + field] =
                    libc::iovec { iov_base: start.wrapping_add(at).cast(), iov_len: place.len() };
                at += slot(range.len());
            }
        }
        let are_placed = parts.iter().all(|part| !part.iov_base.is_null());
        assert!(are_placed, "a message was left out of the order");
        Ok(Self { arena, parts, fields, size, count, next: 0 })
    }

    /// Bytes of a message.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many fields a message has.
    #[inline]
    pub fn fields(&self) -> usize {
        self.fields
    }

    /// The memory that they lie in.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The number of the next message; the first one follows the last.
    #[inline]
    pub(crate) fn advance(&mut self) -> usize {
        let number = self.next;
        self.next = if number + 1 == self.count { 0 } else { number + 1 };
        number
    }

    /// Where the fields of a message lie.
    #[inline]
    pub(crate) fn parts(&self, number: usize) -> &[libc::iovec] {
        &self.parts[number * self.fields..][..self.fields]
    }

    /// Copies the fields of a message one after the other to the front of `buffer`: a call of the C library's
    /// memcpy for each.
    ///
    /// # Panics
    ///
    /// If the buffer is shorter than the message, or if there is no message with this number.
    #[inline]
    pub fn serialise(&self, number: usize, buffer: &mut [u8]) {
        concatenate(self.fields_of(number), buffer);
    }

    /// Copies a message's fields to the end of a buffer, which grows if it has no room.
    #[inline]
    pub fn append(&self, number: usize, buffer: &mut Vec<u8>) {
        for field in self.fields_of(number) {
            buffer.extend_from_slice(field);
        }
    }

    #[inline]
    fn fields_of(&self, number: usize) -> impl Iterator<Item = &[u8]> {
        let start = self.arena.address();
        self.parts(number).iter().map(move |part| {
            let at = part.iov_base.addr() - start;
            &self.arena.as_slice()[at..][..part.iov_len]
        })
    }
}

/// How many bytes of memory such messages take; `None` if that overflows.
pub fn memory_bytes(count: usize, size: usize, fields: usize) -> Option<usize> {
    let share = size.checked_div(fields)?;
    let last = size - share * (fields - 1);
    let each = (fields - 1).checked_mul(slot(share))?.checked_add(slot(last))?;
    each.checked_mul(count)
}

/// A field's range in its message.
fn field_range(field: usize, size: usize, fields: usize) -> Range<usize> {
    let share = size / fields;
    let end = if field + 1 == fields { size } else { (field + 1) * share };
    field * share..end
}

/// Bytes of the arena that a field takes.
fn slot(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE_BYTES) + LINE_BYTES
}

/// The eight bytes of a message at eight times `index`: the finalizer of SplitMix64 (Steele, Lea, Flood
/// 2014), so that neighbours have nothing in common.
#[inline]
pub fn word(message: usize, index: usize) -> [u8; WORD_BYTES] {
    let mut word = ((message as u64) << 32 ^ index as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (word ^ (word >> 31)).to_le_bytes()
}

/// Writes the contents of a message from `offset` on.
pub fn write_contents(message: usize, offset: usize, into: &mut [u8]) {
    let mut written = 0;
    while written < into.len() {
        let at = offset + written;
        let within = at % WORD_BYTES;
        let bytes = (WORD_BYTES - within).min(into.len() - written);
        let word = word(message, at / WORD_BYTES);
        into[written..written + bytes].copy_from_slice(&word[within..within + bytes]);
        written += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_its_contents_whatever_its_fields() {
        for (count, size, fields) in [(1, 64, 8), (5, 83, 8), (3, 4099, 1), (2, 7, 7)] {
            let messages = Messages::new((count, size, fields), PageSize::Base, &mut |order| {
                order.rotate_left(1);
            })
            .unwrap();
            assert_eq!(messages.fields(), fields);
            for number in 0..count {
                let (mut contents, mut serialised) = (vec![0; size], vec![9; size + 1]);
                write_contents(number, 0, &mut contents);
                messages.serialise(number, &mut serialised);
                assert_eq!(serialised[..size], contents);
                assert_eq!(serialised[size], 9);
                let lens: Vec<usize> = messages.parts(number).iter().map(|p| p.iov_len).collect();
                assert!(lens[..fields - 1].iter().all(|&len| len == size / fields));
            }
        }
    }

    #[test]
    fn no_two_messages_begin_alike_and_fields_share_no_line() {
        let messages = Messages::new((100, 800, 8), PageSize::Base, &mut |_| {}).unwrap();
        let mut begins: Vec<[u8; 8]> = (0..100).map(|number| word(number, 0)).collect();
        begins.sort_unstable();
        begins.dedup();
        assert_eq!(begins.len(), 100);
        for number in 0..100 {
            for pair in messages.parts(number).windows(2) {
                let apart = pair[0].iov_base.addr().abs_diff(pair[1].iov_base.addr());
                assert!(apart >= 100 * slot(100), "{apart}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "left out")]
    fn a_message_that_the_order_leaves_out_is_a_panic_not_a_null_pointer() {
        let _ = Messages::new((2, 64, 2), PageSize::Base, &mut |order| order.fill(0));
    }

    #[test]
    fn the_last_message_is_followed_by_the_first() {
        let mut messages = Messages::new((3, 64, 8), PageSize::Base, &mut |_| {}).unwrap();
        let numbers: Vec<usize> = (0..7).map(|_| messages.advance()).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for shape in [(0, 64, 8), (1, 64, 0), (1, 7, 8), (1, 4096, FIELDS_MAX + 1)] {
            assert!(Messages::new(shape, PageSize::Base, &mut |_| {}).is_err());
        }
    }
}

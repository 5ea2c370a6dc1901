//! The contents of a data packet: a sequence of frames.
//!
//! ```text
//! padding  0x00
//! ping     0x01
//! ack      0x02 | largest | delay in µs | more ranges | numbers in the first − 1     one at most
//!               { | gap − 1 | numbers in the range − 1 } …
//! credit   0x03 | bytes | messages
//! finish   0x04 | messages sent
//! abort    0x05 | code
//! marks    0x08 | number | number | number                only from older versions; skipped
//! message  0x06 | id | length | data                      a whole one
//! fragment 0x07 | id | offset | length of the message | length | data
//! ```
//!
//! Numbers are variable-length integers; acknowledged ranges go downwards (RFC
//! 9000 section 19.3).

use crate::range_set::RangeSet;
use crate::wire::{Reader, put_varint, varint_len};
use std::ops::RangeInclusive;
use std::time::Duration;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const CREDIT: u8 = 0x03;
const FINISH: u8 = 0x04;
const ABORT: u8 = 0x05;
const MESSAGE: u8 = 0x06;
const FRAGMENT: u8 = 0x07;
/// Older versions count in it the ECN marks that they received.
const MARKS: u8 = 0x08;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Padding,
    Ping,
    Ack(Ack<'a>),
    /// How much may be sent in total since the connection began.
    Credit(Credit),
    /// The sender sent this many messages, all of which are acknowledged, and sends no more.
    Finish {
        messages: u64,
    },
    Abort {
        code: u64,
    },
    Message(Piece<'a>),
}

/// How much one end may send since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credit {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

/// A message or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) id: u64,
    pub(crate) offset: u32,
    /// The length of the message.
    pub(crate) total: u32,
    pub(crate) data: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(crate) fn whole(id: u64, data: &'a [u8]) -> Piece<'a> {
        Piece { id, offset: 0, total: data.len() as u32, data }
    }
}

/// Packet numbers that were received, already validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack<'a> {
    pub(crate) largest: u64,
    pub(crate) delay: Duration,
    more: u64,
    ranges: Reader<'a>,
}

impl Ack<'_> {
    /// The ranges from the highest to the lowest.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        let mut reader = self.ranges;
        let mut above = None;
        (0..=self.more).map_while(move |_| {
            let range = next_range(&mut reader, self.largest, above)?;
            above = Some(*range.start());
            Some(range)
        })
    }
}

fn next_range(
    reader: &mut Reader<'_>,
    largest: u64,
    above: Option<u64>,
) -> Option<RangeInclusive<u64>> {
    let high = match above {
        None => largest,
        Some(above) => above.checked_sub(reader.varint()?)?.checked_sub(2)?,
    };
    Some(high.checked_sub(reader.varint()?)?..=high)
}

impl<'a> Frame<'a> {
    /// The acknowledgement, if one comes next; `None` if it is malformed.
    #[inline]
    pub(crate) fn read_ack(reader: &mut Reader<'a>) -> Option<Option<Ack<'a>>> {
        if_next(reader, ACK, read_ack)
    }

    /// The same for a whole message.
    #[inline]
    pub(crate) fn read_message(reader: &mut Reader<'a>) -> Option<Option<Piece<'a>>> {
        if_next(reader, MESSAGE, read_message)
    }

    /// The next frame, or `None` if the bytes are not a valid frame.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Frame<'a>> {
        Some(match reader.u8()? {
            PADDING => {
                // A run of padding is one frame to the reader.
                let end = reader.0.iter().position(|byte| *byte != PADDING);
                reader.0 = &reader.0[end.unwrap_or(reader.0.len())..];
                Frame::Padding
            }
            PING => Frame::Ping,
            ACK => Frame::Ack(read_ack(reader)?),
            CREDIT => Frame::Credit(Credit { bytes: reader.varint()?, messages: reader.varint()? }),
            FINISH => Frame::Finish { messages: reader.varint()? },
            ABORT => Frame::Abort { code: reader.varint()? },
            MARKS => {
                for _ in 0..3 {
                    reader.varint()?;
                }
                Frame::Padding
            }
            MESSAGE => Frame::Message(read_message(reader)?),
            FRAGMENT => {
                let id = reader.varint()?;
                let (offset, total) = (reader.varint32()?, reader.varint32()?);
                let len = reader.varint32()?;
                let data = reader.bytes(len as usize)?;
                // An empty part of a message would make no progress.
                if len == 0 || offset.checked_add(len)? > total {
                    return None;
                }
                Frame::Message(Piece { id, offset, total, data })
            }
            _ => return None,
        })
    }

    /// Whether the receiver acknowledges a packet with it (RFC 9002 section 2).
    pub(crate) fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding | Frame::Ack(_) | Frame::Abort { .. })
    }
}

/// Reads a frame if it is of this kind. `None` if it is malformed.
#[inline]
fn if_next<'a, T>(
    reader: &mut Reader<'a>,
    kind: u8,
    read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Option<Option<T>> {
    if reader.skip(kind) { read(reader).map(Some) } else { Some(None) }
}

#[inline]
fn read_message<'a>(reader: &mut Reader<'a>) -> Option<Piece<'a>> {
    let id = reader.varint()?;
    let len = reader.varint32()?;
    Some(Piece::whole(id, reader.bytes(len as usize)?))
}

#[inline]
fn read_ack<'a>(reader: &mut Reader<'a>) -> Option<Ack<'a>> {
    let largest = reader.varint()?;
    let delay = Duration::from_micros(reader.varint()?);
    let more = reader.varint()?;
    let ranges = *reader;
    let mut above = None;
    for _ in 0..=more {
        above = Some(*next_range(reader, largest, above)?.start());
    }
    let len = ranges.0.len() - reader.0.len();
    Some(Ack { largest, delay, more, ranges: Reader(&ranges.0[..len]) })
}

/// Appends an acknowledgement of at most this many of the highest ranges, in at most this many
/// bytes. Returns whether there was room for it.
pub(crate) fn put_ack(
    out: &mut Vec<u8>,
    received: &RangeSet,
    delay: Duration,
    ranges_max: usize,
    room: usize,
) -> bool {
    // Avoids the 128-bit arithmetic of `as_micros`.
    let delay_us = (delay.as_secs().saturating_mul(1_000_000))
        .saturating_add(delay.subsec_micros().into())
        .min(1 << 30);
    let Some(highest) = received.last() else {
        return false;
    };
    let largest = highest.end - 1;
    // Reserves for the number of ranges the most bytes that it could take.
    let fixed = 1 + varint_len(largest) + varint_len(delay_us) + 4;
    let Some(mut left) = room.checked_sub(fixed) else {
        return false;
    };
    let (mut count, mut above) = (0, None);
    for range in received.iter().rev().take(ranges_max) {
        let gap_len = above.map_or(0, |above: u64| varint_len(above - range.end - 1));
        let Some(rest) = left.checked_sub(gap_len + varint_len(range.end - range.start - 1)) else {
            break;
        };
        (left, above) = (rest, Some(range.start));
        count += 1;
    }
    if count == 0 {
        return false;
    }
    out.push(ACK);
    put_varint(out, largest);
    put_varint(out, delay_us);
    put_varint(out, count as u64 - 1);
    let mut above = None;
    for range in received.iter().rev().take(count) {
        if let Some(above) = above {
            put_varint(out, above - range.end - 1);
        }
        put_varint(out, range.end - range.start - 1);
        above = Some(range.start);
    }
    true
}

pub(crate) fn put_ping(out: &mut Vec<u8>) {
    out.push(PING);
}

pub(crate) fn put_padding(out: &mut Vec<u8>, bytes: usize) {
    out.resize(out.len() + bytes, PADDING);
}

pub(crate) fn put_credit(out: &mut Vec<u8>, credit: Credit) {
    put_numbers(out, CREDIT, [credit.bytes, credit.messages]);
}

pub(crate) fn put_finish(out: &mut Vec<u8>, messages: u64) {
    put_numbers(out, FINISH, [messages]);
}

pub(crate) fn put_abort(out: &mut Vec<u8>, code: u64) {
    put_numbers(out, ABORT, [code]);
}

#[inline]
fn put_numbers<const N: usize>(out: &mut Vec<u8>, kind: u8, numbers: [u64; N]) {
    out.push(kind);
    for number in numbers {
        put_varint(out, number);
    }
}

/// How many bytes of a message, from this offset on, to put into this much room, if any: a message
/// that would fit whole into the next packet is not split for a few bytes.
pub(crate) fn fits(id: u64, offset: u32, total: u32, rest: u32, room: usize) -> Option<u32> {
    let whole = 1 + varint_len(id) + varint_len(total.into()) + total as usize;
    if rest == total && whole <= room {
        return Some(total);
    }
    let head = 1 + varint_len(id) + varint_len(offset.into()) + varint_len(total.into());
    let left = room.checked_sub(head + varint_len(room as u64))?;
    let most = u32::try_from(left).unwrap_or(u32::MAX).min(rest);
    (most == rest || most >= MIN_FRAGMENT).then_some(most).filter(|most| *most > 0)
}

/// No shorter part is split off, except the end of a message.
const MIN_FRAGMENT: u32 = 64;

/// Appends a message or a part of it.
pub(crate) fn put_message(out: &mut Vec<u8>, piece: &Piece<'_>) {
    let is_whole = piece.data.len() == piece.total as usize;
    out.push(if is_whole { MESSAGE } else { FRAGMENT });
    put_varint(out, piece.id);
    if !is_whole {
        put_varint(out, piece.offset.into());
        put_varint(out, piece.total.into());
    }
    put_varint(out, piece.data.len() as u64);
    out.extend_from_slice(piece.data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn only(bytes: &[u8]) -> Option<Frame<'_>> {
        let mut reader = Reader(bytes);
        let frame = Frame::read(&mut reader)?;
        reader.is_empty().then_some(frame)
    }

    proptest! {
        #[test]
        fn acknowledged_ranges_are_read_back(
            parts in prop::collection::vec((1..300_u64, 1..300_u64), 1..200),
            delay_us in 0..100_000_u64,
            first in 0..1_u64 << 40,
            room in 40..1500_usize,
        ) {
            let mut received = RangeSet::new();
            let mut at = first;
            for (gap, count) in parts {
                received.insert(at + gap..at + gap + count);
                at += gap + count;
            }
            let delay = Duration::from_micros(delay_us);
            let mut out = Vec::new();
            prop_assert!(put_ack(&mut out, &received, delay, usize::MAX, room));
            prop_assert!(out.len() <= room, "{} of {room}", out.len());
            let Some(Frame::Ack(ack)) = only(&out) else { panic!("{out:?}") };
            prop_assert_eq!(ack.delay, delay);
            let read: Vec<_> = ack.ranges().map(|range| *range.start()..range.end() + 1).collect();
            let written: Vec<_> = received.iter().rev().take(read.len()).cloned().collect();
            prop_assert_eq!(&read, &written);
            let is_all = read.len() == received.len();
            prop_assert!(is_all || out.len() + 8 > room, "only the room leaves ranges out");
        }

        #[test]
        fn a_message_that_fits_is_read_back_and_fits(
            id in 0..1_u64 << 40,
            data in prop::collection::vec(any::<u8>(), 0..3000),
            from in any::<prop::sample::Index>(),
            room in 0..1500_usize,
        ) {
            let total = data.len() as u32;
            let offset = from.index(data.len().max(1)) as u32;
            if let Some(len) = fits(id, offset, total, total - offset, room) {
                let end = (offset + len) as usize;
                let piece = Piece { id, offset, total, data: &data[offset as usize..end] };
                let mut out = Vec::new();
                put_message(&mut out, &piece);
                prop_assert!(out.len() <= room, "{} of {room}", out.len());
                prop_assert_eq!(only(&out), Some(Frame::Message(piece)));
            }
        }

        #[test]
        fn rubbish_is_read_to_its_end_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = Reader(&bytes);
            while let Some(frame) = Frame::read(&mut reader) {
                if let Frame::Ack(ack) = frame {
                    let mut above = u64::MAX;
                    for range in ack.ranges() {
                        prop_assert!(range.start() <= range.end() && *range.end() < above);
                        above = *range.start();
                    }
                }
            }
        }
    }

    #[test]
    fn small_frames_are_read_back() {
        let mut out = Vec::new();
        put_ping(&mut out);
        put_padding(&mut out, 2);
        let credit = Credit { bytes: 1 << 40, messages: 70 };
        put_credit(&mut out, credit);
        put_finish(&mut out, 3);
        put_abort(&mut out, 99);
        let mut reader = Reader(&out);
        let mut frames = Vec::new();
        while let Some(frame) = Frame::read(&mut reader) {
            frames.push(frame);
        }
        assert_eq!(
            frames,
            [
                Frame::Ping,
                Frame::Padding,
                Frame::Credit(credit),
                Frame::Finish { messages: 3 },
                Frame::Abort { code: 99 },
            ]
        );
        assert!(reader.is_empty());
    }
}

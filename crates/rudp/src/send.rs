//! Messages to be sent: which part is sent next, and which parts are known to have arrived.

use crate::frame::{self, Credit, Piece};
use crate::range_set::RangeSet;
use std::collections::VecDeque;

/// A part of a message, as a packet carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) id: u64,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// At most this many parts wait to be sent a second time.
const MAX_COPIES: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// From the first message that is not completely acknowledged.
    messages: VecDeque<Outgoing>,
    first_id: u64,
    /// The next new data to send: this byte of this message.
    next_id: u64,
    next_offset: u32,
    /// What is to be retransmitted.
    lost: VecDeque<Part>,
    /// Retransmitted parts, to be sent once more while there is nothing else to send.
    copies: VecDeque<Part>,
    /// Bytes of messages that are not completely acknowledged.
    unacknowledged_bytes: u64,
    /// Bytes that were never sent.
    new_bytes: u64,
    /// All messages of which some part was sent, since the start.
    begun: Credit,
    /// Messages that were completely acknowledged, since the start.
    acknowledged: u64,
}

#[derive(Debug)]
struct Outgoing {
    data: Vec<u8>,
    acknowledged: RangeSet,
    is_done: bool,
}

impl SendQueue {
    /// Takes a message and gives it a number.
    pub(crate) fn push(&mut self, data: Vec<u8>) -> u64 {
        self.unacknowledged_bytes += data.len() as u64;
        self.new_bytes += data.len() as u64;
        self.messages.push_back(Outgoing { data, acknowledged: RangeSet::new(), is_done: false });
        self.count() - 1
    }

    /// How many messages there have been.
    pub(crate) fn count(&self) -> u64 {
        self.first_id + self.messages.len() as u64
    }

    /// How many are not completely acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.count() - self.acknowledged
    }

    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.unacknowledged_bytes
    }

    pub(crate) fn new_bytes(&self) -> u64 {
        self.new_bytes
    }

    /// The position of a message, unless it was forgotten.
    fn position(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first_id)?).ok()
    }

    fn message(&self, id: u64) -> Option<&Outgoing> {
        let message = self.messages.get(self.position(id)?)?;
        (!message.is_done).then_some(message)
    }

    /// Whether a part may be sent: a lost one, or a new one within the other end's credit and the
    /// limit on messages in flight.
    pub(crate) fn has_next(&mut self, credit: Credit, max_messages: u64) -> bool {
        self.drop_known_lost();
        !self.lost.is_empty() || self.may_send_new(credit, max_messages)
    }

    /// Whether anything waits for retransmission.
    pub(crate) fn has_retransmissions(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether everything was sent, and nothing waits for retransmission.
    pub(crate) fn is_idle(&self) -> bool {
        !self.has_unsent() && !self.has_retransmissions()
    }

    /// Whether anything was never sent.
    pub(crate) fn has_unsent(&self) -> bool {
        self.next_id < self.count()
    }

    /// Whether there is new data that may not be sent yet.
    pub(crate) fn is_blocked(&self, credit: Credit, max_messages: u64) -> bool {
        self.has_unsent() && !self.may_send_new(credit, max_messages)
    }

    /// Whether the limit on messages in flight is reached.
    pub(crate) fn is_at_message_limit(&self, max_messages: u64) -> bool {
        self.next_offset == 0 && self.begun.messages - self.acknowledged >= max_messages
    }

    /// Whether only the end of a partly sent message waits, and it is shorter than this.
    pub(crate) fn has_only_a_tail(&self, bytes: u64) -> bool {
        self.lost.is_empty() && self.next_offset > 0 && self.new_bytes < bytes
    }

    fn may_send_new(&self, credit: Credit, max_messages: u64) -> bool {
        if self.next_id < self.begun.messages {
            return true;
        }
        let Some(message) = self.message(self.next_id) else {
            return false;
        };
        self.begun.messages < credit.messages
            && self.begun.bytes + message.data.len() as u64 <= credit.bytes
            && self.begun.messages - self.acknowledged < max_messages
    }

    /// Appends the next part to a packet with this much room. Returns the part, if one fits.
    pub(crate) fn write_next(
        &mut self,
        out: &mut Vec<u8>,
        room: usize,
        credit: Credit,
        max_messages: u64,
    ) -> Option<Part> {
        self.drop_known_lost();
        if let Some(part) = self.lost.front().copied() {
            let sent = self.write(out, part, room)?;
            match self.lost.front_mut() {
                Some(rest) if sent.len < rest.len => {
                    rest.offset += sent.len;
                    rest.len -= sent.len;
                }
                _ => {
                    self.lost.pop_front();
                }
            }
            if !self.has_unsent() && self.copies.len() < MAX_COPIES {
                self.copies.push_back(sent);
            }
            return Some(sent);
        }
        if !self.may_send_new(credit, max_messages) {
            return None;
        }
        let (id, offset) = (self.next_id, self.next_offset);
        let total = self.message(id)?.data.len() as u32;
        let len = total - offset;
        let sent = self.write(out, Part { id, offset, len }, room)?;
        if id == self.begun.messages {
            self.begun.messages += 1;
            self.begun.bytes += u64::from(total);
        }
        self.next_offset += sent.len;
        self.new_bytes -= u64::from(sent.len);
        if self.next_offset == total {
            self.next_id += 1;
            self.next_offset = 0;
        }
        Some(sent)
    }

    /// Whether retransmitted data may be sent once more: nothing else is to be sent.
    pub(crate) fn has_copy(&mut self) -> bool {
        while let Some(part) = self.copies.front() {
            if self.is_missing(*part) {
                return self.is_idle();
            }
            self.copies.pop_front();
        }
        false
    }

    /// Appends retransmitted data once more to a packet with this much room.
    pub(crate) fn write_copy(&mut self, out: &mut Vec<u8>, room: usize) -> Option<Part> {
        if !self.has_copy() {
            return None;
        }
        let part = self.copies.front().copied()?;
        // It had the same length before, but an acknowledgement may leave less room: then the rest
        // is dropped.
        let sent = self.write(out, part, room)?;
        self.copies.pop_front();
        Some(sent)
    }

    /// Appends as much of this part as fits. Returns what was appended, if anything.
    fn write(&self, out: &mut Vec<u8>, part: Part, room: usize) -> Option<Part> {
        let Part { id, offset, len } = part;
        let data = &self.message(id)?.data;
        let total = data.len() as u32;
        let len = frame::fits(id, offset, total, len, room)?;
        let piece =
            Piece { id, offset, total, data: &data[offset as usize..(offset + len) as usize] };
        frame::put_message(out, &piece);
        Some(Part { len, ..part })
    }

    /// A part that arrived after all need not be sent again.
    fn drop_known_lost(&mut self) {
        while let Some(part) = self.lost.front() {
            if self.is_missing(*part) {
                return;
            }
            self.lost.pop_front();
        }
    }

    /// Whether the part is not known to have arrived.
    fn is_missing(&self, part: Part) -> bool {
        self.message(part.id).is_some_and(|message| {
            part.len == 0 || !message.acknowledged.contains_range(&part.range())
        })
    }

    /// A packet with this part was lost.
    pub(crate) fn retransmit(&mut self, part: Part) {
        if self.message(part.id).is_some() {
            self.lost.push_back(part);
        }
    }

    /// A packet with this part arrived. Returns the message's number if the message is now complete
    /// there.
    pub(crate) fn acknowledge(&mut self, part: Part) -> Option<u64> {
        let at = self.position(part.id)?;
        let message = self.messages.get_mut(at).filter(|message| !message.is_done)?;
        let len = message.data.len();
        if part.len as usize != len {
            message.acknowledged.insert(part.range());
            if !message.acknowledged.contains_range(&(0..len as u64)) {
                return None;
            }
        }
        message.is_done = true;
        message.data = Vec::new();
        message.acknowledged = RangeSet::new();
        self.unacknowledged_bytes -= len as u64;
        self.acknowledged += 1;
        while self.messages.pop_front_if(|message| message.is_done).is_some() {
            self.first_id += 1;
        }
        Some(part.id)
    }

    /// Forgets everything. Returns the numbers of messages that are not known to have arrived.
    pub(crate) fn abandon(&mut self) -> Vec<u64> {
        let count = self.count();
        let open = (self.first_id..count).filter(|id| self.message(*id).is_some());
        let ids = open.collect();
        *self = SendQueue {
            first_id: count,
            next_id: count,
            acknowledged: count,
            ..SendQueue::default()
        };
        self.begun.messages = count;
        ids
    }
}

impl Part {
    fn range(&self) -> std::ops::Range<u64> {
        self.offset.into()..(u64::from(self.offset) + u64::from(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MUCH: Credit = Credit { bytes: 1 << 30, messages: 1 << 30 };

    fn next(sending: &mut SendQueue, room: usize) -> Option<Part> {
        sending.write_next(&mut Vec::new(), room, MUCH, u64::MAX)
    }

    #[test]
    fn a_message_is_done_when_every_byte_arrived() {
        let mut sending = SendQueue::default();
        assert_eq!(sending.push(vec![1; 1000]), 0);
        assert_eq!(sending.push(Vec::new()), 1);
        let first = next(&mut sending, 600).unwrap();
        let second = next(&mut sending, 600).unwrap();
        let empty = next(&mut sending, 600).unwrap();
        assert_eq!((first.len + second.len, empty.len), (1000, 0));
        assert_eq!(next(&mut sending, 600), None);
        assert_eq!(sending.acknowledge(empty), Some(1));
        sending.retransmit(first);
        // A lost part may be split differently; the first packet arrives after all.
        let again = next(&mut sending, 200).unwrap();
        assert!(again.len < first.len);
        assert_eq!(sending.acknowledge(second), None);
        assert_eq!(sending.acknowledge(first), Some(0));
        assert_eq!(sending.acknowledge(again), None);
        assert_eq!(next(&mut sending, 600), None, "nothing is retransmitted needlessly");
        assert_eq!((sending.unacknowledged(), sending.unacknowledged_bytes()), (0, 0));
    }

    #[test]
    fn the_other_ends_credit_and_the_window_in_messages_are_kept() {
        let mut sending = SendQueue::default();
        for _ in 0..3 {
            sending.push(vec![1; 100]);
        }
        let credit = |bytes, messages| Credit { bytes, messages };
        let write = |sending: &mut SendQueue, credit, messages| {
            sending.write_next(&mut Vec::new(), 1000, credit, messages)
        };
        let first = write(&mut sending, credit(250, 3), 1).unwrap();
        assert_eq!(write(&mut sending, credit(250, 3), 1), None);
        assert!(sending.is_blocked(credit(250, 3), 1));
        sending.acknowledge(first);
        assert!(write(&mut sending, credit(250, 3), 1).is_some());
        let third = |sending: &mut SendQueue, credit| write(sending, credit, 9);
        assert_eq!(third(&mut sending, credit(250, 3)), None, "300 of 250 bytes");
        assert_eq!(third(&mut sending, credit(300, 2)), None, "3 of 2 messages");
        assert!(third(&mut sending, credit(300, 3)).is_some());
    }

    #[test]
    fn what_was_lost_goes_twice_while_nothing_else_is_to_be_sent() {
        let mut sending = SendQueue::default();
        sending.push(vec![1; 100]);
        let first = next(&mut sending, 1000).unwrap();
        assert!(!sending.has_copy(), "new data is sent once");
        sending.retransmit(first);
        assert_eq!(next(&mut sending, 1000), Some(first));
        sending.push(vec![2; 100]);
        assert!(!sending.has_copy(), "something else is to be sent");
        next(&mut sending, 1000).unwrap();
        assert!(sending.has_copy());
        assert_eq!(sending.write_copy(&mut Vec::new(), 1000), Some(first));
        assert!(!sending.has_copy(), "at most one copy");
        // A part that has arrived meanwhile needs no copy.
        sending.retransmit(first);
        next(&mut sending, 1000).unwrap();
        sending.acknowledge(first);
        assert!(!sending.has_copy());
    }

    #[test]
    fn what_is_given_up_is_named() {
        let mut sending = SendQueue::default();
        for _ in 0..3 {
            sending.push(vec![1; 10]);
        }
        next(&mut sending, 100);
        let second = next(&mut sending, 100).unwrap();
        sending.acknowledge(second);
        assert_eq!(sending.abandon(), [0, 2]);
        assert_eq!(sending.unacknowledged(), 0);
        assert_eq!(next(&mut sending, 100), None);
        assert_eq!(sending.push(vec![1]), 3);
        assert!(next(&mut sending, 100).is_some());
    }
}

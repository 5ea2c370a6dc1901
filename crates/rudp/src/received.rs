//! Which packets came, and when that is to be acknowledged (RFC 9000 section
//! 13.2).

use crate::ecn::{Ecn, Marks};
use crate::frame;
use crate::ranges::Ranges;
use crate::time::Time;
use std::time::Duration;

/// The longest that an acknowledgement waits for a packet to travel with. Both ends
/// know it: it is part of the protocol.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(5);
/// After so many packets an acknowledgement waits no longer (RFC 9000 section 13.2.2).
const PACKETS_MAX: u32 = 2;
/// How many ranges are remembered: a window of 100 Mb/s over 190 ms with 30 % loss
/// has some 700 gaps. Beyond that the lowest packets are taken for lost.
const RANGES_MAX: usize = 4096;
/// How many ranges most acknowledgements carry. At one for two packets each range is
/// told some fifty times.
const RANGES_TOLD: usize = 48;
/// Every so manyth acknowledgement carries as many ranges as fit.
const TOLD_IN_FULL: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Received {
    came: Ranges,
    /// Packets below this one are not told apart any more.
    floor: u64,
    largest_at: Time,
    /// Packets to be acknowledged that no acknowledgement has told of.
    untold: u32,
    /// When they are to be told of at the latest.
    due: Option<Time>,
    acks: u32,
    marks: Marks,
}

impl Received {
    /// Whether the packet did not come before, as far as is remembered.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.floor && !self.came.contains(number)
    }

    /// A new packet came, whose sender has given up on those below `waits_from`.
    pub(crate) fn take(
        &mut self,
        now: Time,
        number: u64,
        waits_from: u64,
        is_eliciting: bool,
        is_awaited: bool,
        ecn: Option<Ecn>,
    ) {
        self.marks.count(ecn);
        let expected = self.came.last().map_or(self.floor, |range| range.end);
        self.came.insert(number..number + 1);
        if number >= expected {
            self.largest_at = now;
        }
        self.forget_below(waits_from);
        if self.came.len() > RANGES_MAX {
            let lowest = self.came.iter().nth(self.came.len() - RANGES_MAX);
            let floor = lowest.map_or(self.floor, |range| range.start);
            self.forget_below(floor);
        }
        if is_eliciting {
            self.untold += 1;
            // A gap, what fills one, or a queue's mark is told at once (RFC 9000 section 13.2.1).
            let is_urgent = is_awaited || number != expected || ecn == Some(Ecn::Ce);
            let is_at_once = is_urgent || self.untold >= PACKETS_MAX;
            let due = if is_at_once { now } else { now + DELAY_MAX };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    fn forget_below(&mut self, number: u64) {
        if number > self.floor {
            self.floor = number;
            self.came.remove_below(number);
        }
    }

    /// When an acknowledgement is to leave even if nothing else does.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Appends what there is to be told, if anything, in at most so many bytes.
    pub(crate) fn write_ack(&mut self, now: Time, out: &mut Vec<u8>, room: usize) {
        if self.due.is_none() {
            return;
        }
        let start = out.len();
        // With each acknowledgement, because any may be lost, and before it, because it is held
        // against them.
        if !self.marks.is_none() {
            frame::put_marks(out, self.marks, room);
        }
        let room = room.saturating_sub(out.len() - start);
        self.acks = self.acks.wrapping_add(1);
        let ranges = match self.acks % TOLD_IN_FULL {
            0 => usize::MAX,
            _ => RANGES_TOLD,
        };
        let delay = now.since(self.largest_at);
        // Packets that fit nothing are refused before they come here.
        if frame::put_ack(out, &self.came, delay, ranges, room) {
            self.untold = 0;
            self.due = None;
        }
    }

    /// How many ranges are remembered.
    pub(crate) fn ranges(&self) -> usize {
        self.came.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Time = Time::from_nanos(1_000_000);

    #[test]
    fn two_packets_or_a_gap_or_a_waiting_sender_are_acknowledged_at_once() {
        let mut received = Received::default();
        received.take(T, 0, 0, true, false, None);
        assert_eq!(received.due(), Some(T + DELAY_MAX));
        received.take(T, 1, 0, true, false, None);
        assert!(received.is_due(T));
        let mut out = Vec::new();
        received.write_ack(T, &mut out, 100);
        assert_eq!(received.due(), None);
        received.take(T, 3, 0, true, false, None);
        assert!(received.is_due(T));
        received.write_ack(T, &mut out, 100);
        received.take(T, 4, 0, true, true, None);
        assert!(received.is_due(T));
        received.write_ack(T, &mut out, 100);
        received.take(T, 5, 0, false, false, None);
        assert_eq!(received.due(), None);
        assert!(!received.is_new(3) && received.is_new(2));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_given_up_is_forgotten() {
        let mut received = Received::default();
        for number in 0..20_000 {
            received.take(T, 2 * number, 0, true, false, None);
        }
        assert_eq!(received.ranges(), RANGES_MAX);
        assert!(!received.is_new(1), "too old to be told from one that came");
        received.take(T, 40_000, 39_990, true, false, None);
        assert_eq!(received.ranges(), 6);
        assert!(!received.is_new(39_989) && received.is_new(39_991));
    }
}

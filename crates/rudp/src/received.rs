//! Which packets were received, and when to acknowledge them (RFC 9000 section 13.2).

use crate::frame;
use crate::packet::Data;
use crate::range_set::RangeSet;
use crate::time::Time;
use std::time::Duration;

/// How long an acknowledgement may wait for a packet to be sent with. Both ends know this value: it
/// is part of the protocol.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(5);
/// After this many packets an acknowledgement waits no longer (RFC 9000 section 13.2.2).
const PACKETS_MAX: u32 = 2;
/// At most this many ranges are kept: a window of 100 Mb/s over 190 ms with 30 % loss has some 700
/// gaps. Beyond that, the lowest packets are given up as lost.
const MAX_RANGES: usize = 4096;
/// How many ranges most acknowledgements carry. With one acknowledgement for two packets, each
/// range is reported some fifty times.
const ACK_RANGES: usize = 48;
/// One in this many acknowledgements carries as many ranges as fit.
const FULL_ACK_EVERY: u32 = 16;

#[derive(Debug, Default)]
pub(crate) struct Received {
    numbers: RangeSet,
    /// Packets below this one count as received.
    floor: u64,
    largest_at: Time,
    /// Ack-eliciting packets since the last acknowledgement.
    unacked: u32,
    /// The latest time to acknowledge them.
    due: Option<Time>,
    acks: u32,
}

impl Received {
    /// Whether the packet has not been received before, as far as is remembered.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.floor && !self.numbers.contains(number)
    }

    /// Records a new packet. Its sender expects no acknowledgement of packets below
    /// `least_unacked`.
    pub(crate) fn record(&mut self, now: Time, packet: &Data<'_>, is_ack_eliciting: bool) {
        let number = packet.number;
        let expected = self.numbers.last().map_or(self.floor, |range| range.end);
        self.numbers.insert(number..number + 1);
        if number >= expected {
            self.largest_at = now;
        }
        self.forget_below(packet.least_unacked);
        if self.numbers.len() > MAX_RANGES {
            let lowest = self.numbers.iter().nth(self.numbers.len() - MAX_RANGES);
            let floor = lowest.map_or(self.floor, |range| range.start);
            self.forget_below(floor);
        }
        if is_ack_eliciting {
            self.unacked += 1;
            // A gap, or a packet that fills one, is acknowledged at once (RFC 9000 section 13.2.1).
            let is_urgent = packet.wants_ack || number != expected;
            let is_at_once = is_urgent || self.unacked >= PACKETS_MAX;
            let due = if is_at_once { now } else { now + MAX_ACK_DELAY };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    fn forget_below(&mut self, number: u64) {
        if number > self.floor {
            self.floor = number;
            self.numbers.remove_below(number);
        }
    }

    /// When an acknowledgement must leave even if nothing else does.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Appends an acknowledgement if one is pending, in at most this many bytes.
    pub(crate) fn write_ack(&mut self, now: Time, out: &mut Vec<u8>, room: usize) {
        if self.due.is_none() {
            return;
        }
        self.acks = self.acks.wrapping_add(1);
        let ranges = match self.acks % FULL_ACK_EVERY {
            0 => usize::MAX,
            _ => ACK_RANGES,
        };
        let delay = now.since(self.largest_at);
        // Packets that fit no state are rejected before they get here.
        if frame::put_ack(out, &self.numbers, delay, ranges, room) {
            self.unacked = 0;
            self.due = None;
        }
    }

    /// How many ranges are remembered.
    pub(crate) fn ranges(&self) -> usize {
        self.numbers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Time = Time::from_nanos(1_000_000);

    fn record(received: &mut Received, number: u64, least_unacked: u64) {
        received.record(T, &Data::new(number, least_unacked, false), true);
    }

    #[test]
    fn two_packets_or_a_gap_or_a_waiting_sender_are_acknowledged_at_once() {
        let mut received = Received::default();
        let ack = |received: &mut Received| {
            assert!(received.is_due(T));
            received.write_ack(T, &mut Vec::new(), 100);
            assert_eq!(received.due(), None);
        };
        record(&mut received, 0, 0);
        assert_eq!(received.due(), Some(T + MAX_ACK_DELAY));
        record(&mut received, 1, 0);
        ack(&mut received);
        record(&mut received, 3, 0);
        ack(&mut received);
        received.record(T, &Data::new(4, 0, true), true);
        ack(&mut received);
        received.record(T, &Data::new(5, 0, false), false);
        assert_eq!(received.due(), None);
        assert!(!received.is_new(3) && received.is_new(2));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_was_given_up_is_forgotten() {
        let mut received = Received::default();
        for number in 0..20_000 {
            record(&mut received, 2 * number, 0);
        }
        assert_eq!(received.ranges(), MAX_RANGES);
        assert!(!received.is_new(1), "too old to be distinguished from a duplicate");
        record(&mut received, 40_000, 39_990);
        assert_eq!(received.ranges(), 6);
        assert!(!received.is_new(39_989) && received.is_new(39_991));
    }
}

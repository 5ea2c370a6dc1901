//! Explicit congestion notification (RFC 3168): a queue that fills marks packets instead of
//! dropping them. The receiver counts the marks, and its acknowledgements report the counts. A
//! sender stops sending ECN-capable packets if the counts are not plausible (RFC 9000 section
//! 13.4).

/// The ECN codepoint of a datagram: the two low bits of IPv4's type of service or IPv6's traffic
/// class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0): the sender is ECN-capable. This library sends it.
    Ect0,
    /// ECT(1): the same.
    Ect1,
    /// CE: a queue on the way is filling.
    Ce,
}

impl Ecn {
    /// The codepoint in these bits; only the lowest two count. `None`: the sender is not
    /// ECN-capable.
    pub const fn from_bits(bits: u8) -> Option<Ecn> {
        match bits & 0b11 {
            0b10 => Some(Ecn::Ect0),
            0b01 => Some(Ecn::Ect1),
            0b11 => Some(Ecn::Ce),
            _ => None,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::Ect0 => 0b10,
            Ecn::Ect1 => 0b01,
            Ecn::Ce => 0b11,
        }
    }
}

/// How many packets were received with each codepoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnCounts {
    pub(crate) ect0: u64,
    pub(crate) ect1: u64,
    pub(crate) ce: u64,
}

impl EcnCounts {
    pub(crate) fn count(&mut self, ecn: Option<Ecn>) {
        match ecn {
            Some(Ecn::Ect0) => self.ect0 += 1,
            Some(Ecn::Ect1) => self.ect1 += 1,
            Some(Ecn::Ce) => self.ce += 1,
            None => {}
        }
    }

    pub(crate) fn is_none(self) -> bool {
        self == EcnCounts::default()
    }
}

/// How many packets are sent as ECN-capable before the other end has reported any (RFC 9000
/// appendix A.4). A path that drops ECN-capable packets costs no more than these.
const TEST_PACKETS: u64 = 10;

/// Whether this end sends ECN-capable packets.
#[derive(Debug, Default)]
pub(crate) struct EcnValidation {
    sent: u64,
    /// ECN-capable packets that were acknowledged.
    acked: u64,
    /// The highest counts that the other end has reported.
    reported: EcnCounts,
    ce_known: u64,
    /// There was a probe timeout before any of them was known to arrive.
    is_suspended: bool,
    has_failed: bool,
}

impl EcnValidation {
    pub(crate) fn may_send_ect(&self) -> bool {
        let is_tried = self.sent < TEST_PACKETS && !self.is_suspended;
        !self.has_failed && (self.acked > 0 || is_tried)
    }

    /// An ECN-capable packet was sent.
    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    /// The other end reports its counts at the time of the acknowledgement that follows.
    pub(crate) fn report(&mut self, marks: EcnCounts) {
        self.reported.ect0 = self.reported.ect0.max(marks.ect0);
        self.reported.ect1 = self.reported.ect1.max(marks.ect1);
        self.reported.ce = self.reported.ce.max(marks.ce);
    }

    /// This many more ECN-capable packets are known to have arrived. Returns how many more packets
    /// were marked CE.
    ///
    /// RFC 9000 section 13.4.2.1 compares the increase of the counts with the packets that the same
    /// acknowledgement covers. Here an acknowledgement may report an old packet for which earlier
    /// ones had no room. So the sums are compared: everything acknowledged by now was counted by
    /// now, in whatever order it arrived.
    pub(crate) fn acknowledged(&mut self, marked: u64) -> u64 {
        self.acked += marked;
        let counted = self.reported.ect0.saturating_add(self.reported.ce);
        // Too few: the path clears marks. Too many, or others: the path adds them.
        if counted < self.acked || counted > self.sent || self.reported.ect1 > 0 {
            self.has_failed = true;
        }
        if self.has_failed {
            return 0;
        }
        let new = self.reported.ce - self.ce_known;
        self.ce_known = self.reported.ce;
        new
    }

    /// There was a probe timeout. No ECN-capable packets are sent until some are known to arrive: a
    /// path that drops them would otherwise keep a server from hearing its client.
    pub(crate) fn suspend(&mut self) {
        self.is_suspended = true;
    }

    /// Nothing arrives any more, perhaps because packets are ECN-capable.
    pub(crate) fn stop(&mut self) {
        self.has_failed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1, ce }
    }

    fn after(sent: u64, reported: EcnCounts, acked: u64) -> (u64, bool) {
        let mut marking = EcnValidation::default();
        (0..sent).for_each(|_| marking.sent());
        marking.report(reported);
        (marking.acknowledged(acked), marking.may_send_ect())
    }

    #[test]
    fn marks_that_come_through_go_on_and_those_of_queues_are_told_once() {
        let mut marking = EcnValidation::default();
        for _ in 0..TEST_PACKETS {
            assert!(marking.may_send_ect());
            marking.sent();
        }
        assert!(!marking.may_send_ect(), "none is known to have arrived yet");
        marking.report(marks(3, 0, 2));
        assert_eq!(marking.acknowledged(5), 2);
        assert!(marking.may_send_ect());
        assert_eq!(marking.acknowledged(0), 0);
        // An older acknowledgement arrives late.
        marking.report(marks(2, 0, 1));
        assert_eq!((marking.acknowledged(0), marking.may_send_ect()), (0, true));
    }

    #[test]
    fn marks_that_are_cleared_or_made_up_end_it() {
        assert_eq!(after(5, marks(5, 0, 0), 5), (0, true));
        assert_eq!(after(5, marks(0, 0, 0), 5), (0, false), "all cleared");
        assert_eq!(after(5, marks(3, 0, 1), 5), (0, false), "one cleared");
        assert_eq!(after(5, marks(0, 5, 0), 5), (0, false), "turned into ECT(1)");
        assert_eq!(after(5, marks(4, 1, 1), 5), (0, false), "an invented mark");
        assert_eq!(after(5, marks(1 << 61, 0, 1 << 61), 5), (0, false));
        let mut marking = EcnValidation::default();
        marking.sent();
        marking.suspend();
        assert!(!marking.may_send_ect());
        marking.report(marks(1, 0, 0));
        marking.acknowledged(1);
        assert!(marking.may_send_ect(), "some arrived");
        marking.stop();
        assert!(!marking.may_send_ect());
    }

    #[test]
    fn bits_are_read_back() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).map_or(0, Ecn::bits), bits);
            assert_eq!(Ecn::from_bits(0xfc | bits), Ecn::from_bits(bits));
        }
    }
}

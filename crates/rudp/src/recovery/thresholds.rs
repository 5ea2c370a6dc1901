//! When a packet is declared lost (RFC 9002 section 6.1). The thresholds grow if such a packet
//! arrives after all.

/// The thresholds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// How many later packets must have arrived.
    pub(super) packets: u64,
    /// By how many eighths of a round trip it may be later than others.
    pub(super) eighths: u32,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { packets: 3, eighths: 1 }
    }
}

impl Thresholds {
    /// The largest thresholds.
    const MAX: Thresholds = Thresholds { packets: 128, eighths: 8 };

    /// A packet that was declared lost has arrived after `later` later ones.
    pub(super) fn grow(&mut self, later: u64) {
        let packets = self.packets.max(later + 1);
        self.packets = packets.min(Thresholds::MAX.packets);
        self.eighths = (self.eighths + 1).min(Thresholds::MAX.eighths);
    }
}

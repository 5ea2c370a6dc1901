//! What an acknowledgement or a timeout changed: which packets arrived, which were lost, and what they
//! carried.

use crate::send::Part;
use crate::time::Time;

/// What a packet carried besides parts of messages; it is sent again if the packet is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) credit: bool,
    pub(crate) finish: bool,
}

impl Carried {
    pub(crate) fn add(&mut self, other: Carried) {
        self.credit |= other.credit;
        self.finish |= other.finish;
    }
}

/// The delivery rate, from one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    /// Bytes per second.
    pub(crate) rate: f64,
    /// Whether the sender had less to send than it could have sent (app-limited).
    pub(crate) is_app_limited: bool,
}

/// What an acknowledgement or a timeout changed. Kept between calls to reuse its memory.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) acknowledged: Vec<Part>,
    pub(crate) lost: Vec<Part>,
    pub(crate) carried_acknowledged: Carried,
    pub(crate) carried_lost: Carried,
    pub(crate) acknowledged_bytes: u64,
    /// When the newest of the acknowledged packets was sent.
    pub(crate) acknowledged_sent_at: Option<Time>,
    /// How much had been delivered when it was sent.
    pub(crate) prior_delivered: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
    /// When the newest of the lost packets was sent.
    pub(crate) lost_sent_at: Option<Time>,
    /// Packets declared lost that arrived after all.
    pub(crate) spurious_packets: u64,
    pub(crate) spurious_bytes: u64,
    pub(crate) delivery: Option<Delivery>,
    pub(crate) has_rtt: bool,
}

impl Outcome {
    pub(crate) fn clear(&mut self) {
        self.acknowledged.clear();
        self.lost.clear();
        *self = Outcome {
            acknowledged: std::mem::take(&mut self.acknowledged),
            lost: std::mem::take(&mut self.lost),
            ..Outcome::default()
        };
    }
}

//! A packet that was sent, kept as long as it matters for recovery.

use crate::outcome::Carried;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    InFlight,
    Lost(Time),
    /// It arrived, or needs no acknowledgement.
    Done,
}

/// A packet that was sent. The last five fields are as in the delivery rate estimator
/// of draft-ietf-ccwg-bbr section 4.1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) bytes: u32,
    pub(super) state: State,
    /// What it carried is retransmitted already: it is a copy, or there was a probe timeout.
    pub(super) is_retransmitted: bool,
    pub(super) carried: Carried,
    pub(super) parts: u32,
    pub(super) parts_end: u64,
    pub(super) delivered: u64,
    pub(super) delivered_at: Time,
    pub(super) first_sent_at: Time,
    pub(super) is_app_limited: bool,
}

//! The axes that the probes of transfers share, besides the stack.

use crate::prelude::*;
use crate::two_ends::over::Over;
use costof_exchange::stream::MIN_MESSAGE_BYTES;
use costof_model::typed::AxisOf;

words! {
    /// The congestion control of rudp.
    pub(crate) enum Control {
        /// CUBIC (RFC 9438), its default
        Cubic = "cubic",
        /// rate-based: estimates the path's rate, so that random loss hardly slows it
        Rate = "rate",
        /// always `window` messages, whatever the network does
        Fixed = "fixed",
    }
}

impl Control {
    pub(super) fn axis() -> AxisOf<Control> {
        words().about("the congestion control of rudp")
    }
}

/// What carries the messages of a transfer.
pub(super) fn stack_axis() -> AxisOf<Over> {
    words_of(&[Over::Rudp, Over::Study, Over::Quic, Over::Tcp]).about("what carries the messages")
}

pub(super) fn size_axis(defaults: &[u64]) -> AxisOf<usize> {
    bytes(MIN_MESSAGE_BYTES as u64..=1 << 20, defaults)
        .about("bytes of a message; with stack=study at most 65499, in one datagram")
}

/// The axis `window`.
pub(super) fn window_axis(defaults: &[u64]) -> AxisOf<u64> {
    count(0..=4096,
        defaults).about("the most messages in flight; 0: as many as the stack allows (one with stack=study or control=fixed)")
}

/// The fewest messages timed: whole windows, and several of them, since the rate excludes the
/// first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

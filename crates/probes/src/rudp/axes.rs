//! What the probes of transfers by several stacks vary, beside the stack.

use crate::prelude::*;
use costof_exchange::stream::MIN_MESSAGE_BYTES;
use costof_model::typed::AxisOf;

words! {
    /// By what rudp decides how much may be in flight.
    pub(crate) enum Control {
        /// CUBIC (RFC 9438), its default
        Cubic = "cubic",
        /// a model of the path's rate, which random loss does not starve
        Rate = "rate",
        /// `window` messages, whatever the network does
        Fixed = "fixed",
    }
}

impl Control {
    /// The axis.
    pub(super) fn axis() -> AxisOf<Control> {
        words().about("by what rudp decides how much may be in flight")
    }
}

/// The axis `size`.
pub(super) fn size_axis(defaults: &[u64]) -> AxisOf<usize> {
    bytes(MIN_MESSAGE_BYTES as u64..=1 << 20, defaults)
        .about("bytes of a message; the study's has 65499 at most, in one datagram")
}

/// The axis `window`.
pub(super) fn window_axis(defaults: &[u64]) -> AxisOf<u64> {
    count(0..=4096,
        defaults).about("messages in flight at most; 0: as many as the stack allows, which is one with stack=study and control=fixed")
}

/// How many messages are timed at least: whole windows, and several, since the rate leaves out the first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

//! The axes that streams of messages share.

use crate::prelude::*;
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
    pub(crate) fn axis() -> AxisOf<Control> {
        words().about("the congestion control of rudp")
    }
}

/// The axis `window`.
pub(crate) fn window_axis(defaults: &[u64]) -> AxisOf<u64> {
    count(0..=4096, defaults).about(
        "the most messages in flight; 0: as many as the transport allows (one by the study's protocol or \
         control=fixed)",
    )
}

/// The fewest messages timed: whole windows, and several of them, since the rate excludes the
/// first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

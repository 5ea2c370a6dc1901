//! The axes of messages between two ends.

use crate::prelude::*;
use costof_exchange::transport;

words! {
    /// How an end waits for a message.
    pub(crate) enum Wait => transport::Wait {
        /// blocked in the kernel
        Block = "block",
        /// polling without pause
        Spin = "spin",
    }

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

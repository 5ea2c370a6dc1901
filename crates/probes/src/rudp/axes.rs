//! What the probes of transfers by several stacks vary, and what of it cannot be.

use super::carrier::{Carrier, Properties};
use crate::net::congestion_control::CongestionControl;
use crate::prelude::*;
use costof_exchange::stream::MIN_MESSAGE_BYTES;
use costof_exchange::stream::transport::Transport;
use costof_model::typed::AxisOf;
use std::io;
use std::time::Duration;

words! {
    /// What carries the messages of a transfer.
    pub(crate) enum Stack => Carrier {
        /// the library rudp: not encrypted
        Rudp = "rudp",
        /// the study's protocol: a numbered datagram, its number back, a retransmission after a second; not encrypted
        Study = "study",
        /// QUIC by the library quinn, one stream: encrypted and authenticated, as it always is (TLS 1.3)
        Quic = "quic",
        /// a TCP connection of the kernel: not encrypted
        Tcp = "tcp",
    }
}

impl Stack {
    /// The axis.
    pub(super) fn axis() -> AxisOf<Stack> {
        words().about("what carries the messages")
    }
}

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

/// What the two ends of a transfer have to agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) carrier: Carrier,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// As the axis has it: see [`Transfer::in_flight`].
    pub(crate) window: u64,
    pub(crate) control: Control,
    pub(crate) congestion_control: CongestionControl,
}

impl Transfer {
    /// Messages of so many bytes, with the defaults of the other axes.
    pub(crate) fn new(carrier: impl Into<Carrier>, size: usize) -> Transfer {
        Transfer {
            carrier: carrier.into(),
            size,
            window: 0,
            control: Control::Cubic,
            congestion_control: CongestionControl::Default,
        }
    }

    /// How many messages may be in flight; none where the transport itself decides.
    pub(super) fn in_flight(&self) -> Option<u64> {
        let has_fixed_rto = self.carrier.properties().fixed_rto.is_some();
        let is_fixed = self.carrier == Carrier::Rudp && self.control == Control::Fixed;
        let is_counted = has_fixed_rto || is_fixed;
        match self.window {
            0 => is_counted.then_some(1),
            window => Some(window),
        }
    }

    /// What carries it.
    ///
    /// # Errors
    /// Those of [`Carrier::open`].
    pub(super) fn open(&self) -> io::Result<Box<dyn Transport>> {
        let control = self.congestion_control.name();
        self.carrier
            .open(self.size, self.in_flight(), control, self.control_of_rudp())
    }

    /// The control, as rudp has it.
    fn control_of_rudp(&self) -> ::rudp::Control {
        match self.control {
            Control::Cubic => ::rudp::Control::Cubic,
            Control::Rate => ::rudp::Control::Rate,
            Control::Fixed => ::rudp::Control::Fixed {
                messages: self.in_flight().map_or(1, |window| window as u32),
            },
        }
    }

    /// What cannot be measured anywhere.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Properties {
            datagram_limit,
            has_congestion_control,
            ..
        } = self.carrier.properties();
        let reason = if datagram_limit.is_some_and(|limit| self.size > limit) {
            "a message of the study is one datagram, with 65499 B of it at most (--set size=65499)"
        } else if self.carrier != Carrier::Rudp && self.control != Control::Cubic {
            "only rudp has this control (--set control=cubic; TCP and QUIC have --set \
             congestion_control)"
        } else if !has_congestion_control && self.congestion_control.name().is_some() {
            "only TCP and QUIC have a congestion control of that name (--set \
             congestion_control=default; rudp has --set control)"
        } else if self.carrier == Carrier::Quic && !cfg!(feature = "quic") {
            "this costof was built without quinn (build it with --features quic)"
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

/// How long messages that are timed may take: enough for retransmissions after a second or two.
pub(super) const TIMED: Duration = Duration::from_secs(12);

/// How many are timed at least, if they arrive within that: whole windows, and several, since the rate
/// leaves out the first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

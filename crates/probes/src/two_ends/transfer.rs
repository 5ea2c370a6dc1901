//! The parameters on which the two ends of a transfer of messages agree.

pub(crate) mod order;
pub(crate) mod predict;
pub(crate) mod roles;

use crate::prelude::*;
use crate::two_ends::over::{Description, Opened};
use crate::two_ends::{CongestionControl, Control, Over};
use ::rudp::study::RETRY;
use costof_exchange::stream::MIN_MESSAGE_BYTES;
use costof_model::protocol::{ByHand, Conditions};

/// The parameters on which the two ends of a transfer agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) over: Over,
    pub(crate) size: usize,
    /// The axis's value: see [`Transfer::in_flight`].
    pub(crate) window: u64,
    pub(crate) control: Control,
    pub(crate) congestion_control: CongestionControl,
    /// The retransmission timeout of the study's protocol.
    pub(crate) retry: Duration,
    /// The share of datagrams that the receiver drops on purpose.
    pub(crate) lose: f64,
    /// Whether each message is timed, where a window limits how many are in flight; otherwise only the rate.
    pub(crate) timed: bool,
}

impl Transfer {
    pub(crate) fn new(over: Over, size: usize) -> Transfer {
        Transfer {
            over,
            size,
            window: 0,
            control: Control::Cubic,
            congestion_control: CongestionControl::Default,
            retry: RETRY,
            lose: 0.0,
            timed: false,
        }
    }

    /// Under the conditions that a user who sends by hand has set.
    fn under(self, by_hand: Option<ByHand>) -> Transfer {
        let Conditions { retry_ns, drop } = by_hand.unwrap_or_default().conditions;
        let retry = retry_ns.map_or(self.retry, Duration::from_nanos);
        Transfer { retry, lose: drop, ..self }
    }

    /// What carries it.
    fn carrier(&self) -> &'static Description {
        self.over.description()
    }

    pub(crate) fn controlled(
        self,
        window: u64,
        control: Control,
        congestion_control: CongestionControl,
    ) -> Transfer {
        Transfer { window, control, congestion_control, ..self }
    }

    /// The most messages in flight; none where the transport itself decides.
    pub(crate) fn in_flight(&self) -> Option<u64> {
        let is_fixed = self.carrier().has_rudp_control && self.control == Control::Fixed;
        let is_counted = self.carrier().fixed_rto.is_some() || is_fixed;
        match self.window {
            0 => is_counted.then_some(1),
            window => Some(window),
        }
    }

    /// The window, if each message is timed.
    pub(crate) fn timed_window(&self) -> Option<u64> {
        self.in_flight().filter(|_| self.timed)
    }

    /// Whether messages begin with a header, which has their number and the duration. Without it, both ends
    /// derive the duration from the point.
    pub(crate) fn has_header(&self) -> bool {
        /// The longest message with a header.
        const MAX_BYTES: usize = 1 << 20;
        let is_call = self.carrier().stack.is_some();
        !is_call && (MIN_MESSAGE_BYTES..=MAX_BYTES).contains(&self.size)
    }

    /// # Errors
    /// `Unsupported` where this build does not have it.
    fn open(&self) -> Opened {
        let open = self.carrier().open.ok_or(io::ErrorKind::Unsupported)?;
        open(self)
    }

    pub(crate) fn control_of_rudp(&self) -> ::rudp::Control {
        match self.control {
            Control::Cubic => ::rudp::Control::Cubic,
            Control::Rate => ::rudp::Control::Rate,
            Control::Fixed => ::rudp::Control::Fixed {
                messages: self.in_flight().map_or(1, |window| window as u32),
            },
        }
    }

    /// Refuses what this build cannot measure.
    pub(crate) fn check(&self) -> Result {
        self.check_axes()?;
        match self.over.in_this_build()?.open {
            Some(_) => Ok(()),
            None => Err(Failure::unsupported(
                "this has no stream of messages (rudp, study, tcp and others have one)",
            )),
        }
    }

    /// Refuses what cannot be measured anywhere.
    pub(crate) fn check_axes(&self) -> Result {
        let carrier = self.carrier();
        let reason = if carrier.datagram_limit.is_some_and(|limit| self.size > limit) {
            "a message of the study's protocol is one datagram, and has 65499 B at most (--set size=65499)"
        } else if !carrier.has_rudp_control && self.control != Control::Cubic {
            "only rudp has this control (--set over=rudp, or control=cubic; TCP and QUIC have --set \
             congestion_control)"
        } else if !carrier.has_congestion_control && self.congestion_control.name().is_some() {
            "only TCP and QUIC have a congestion control of that name (--set \
             congestion_control=default; rudp has --set control)"
        } else if carrier.stack.is_some() && self.window > 0 {
            "calls have no window of messages (--set window=0)"
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

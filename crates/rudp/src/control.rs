//! How much may be in flight, and how fast it may leave.

mod cubic;
mod rate;

use crate::config::Control;
use crate::outcome::Delivery;
use crate::rtt::Rtt;
use crate::time::Time;
use cubic::Cubic;
use rate::Rate;

/// What an acknowledgement reports to a congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged<'a> {
    pub(crate) now: Time,
    pub(crate) bytes: u64,
    /// When the newest of these packets was sent, and how much had been delivered then.
    pub(crate) sent_at: Time,
    pub(crate) prior_delivered: u64,
    pub(crate) delivered: u64,
    pub(crate) rtt: &'a Rtt,
    pub(crate) has_rtt: bool,
    pub(crate) delivery: Option<Delivery>,
    /// Whether the sender had less to send than it could have sent (app-limited).
    pub(crate) is_app_limited: bool,
    pub(crate) is_window_unused: bool,
}

#[derive(Debug)]
pub(crate) enum Controller {
    /// A fixed number of messages in flight, regardless of the network. One is stop-and-wait: the
    /// rate is then the size of a message divided by the round trip.
    Fixed {
        messages: u64,
    },
    Cubic(Cubic),
    Rate(Box<Rate>),
}

impl Controller {
    /// For packets of at most this many bytes.
    pub(crate) fn new(control: Control, packet: usize) -> Controller {
        match control {
            Control::Fixed { messages } => Controller::Fixed { messages: messages.max(1).into() },
            Control::Cubic => Controller::Cubic(Cubic::new(packet)),
            Control::Rate => Controller::Rate(Box::new(Rate::new(packet))),
        }
    }

    pub(crate) fn acknowledged(&mut self, ack: &Acknowledged<'_>) {
        match self {
            Controller::Fixed { .. } => {}
            Controller::Cubic(cubic) => cubic.acknowledged(ack),
            Controller::Rate(rate) => rate.acknowledged(ack),
        }
    }

    /// Packets were lost, the newest of which was sent at this time.
    pub(crate) fn lost(&mut self, now: Time, bytes: u64, sent_at: Time) {
        match self {
            Controller::Fixed { .. } => {}
            Controller::Cubic(cubic) => cubic.congested(now, sent_at),
            Controller::Rate(rate) => rate.lost(bytes),
        }
    }

    /// This many bytes that were declared lost arrived.
    pub(crate) fn spurious(&mut self, bytes: u64) {
        if let Controller::Rate(rate) = self {
            rate.spurious(bytes);
        }
    }

    /// Nothing was acknowledged for several probe timeouts (RFC 9002 section 7.6).
    pub(crate) fn persistent_congestion(&mut self) {
        match self {
            Controller::Fixed { .. } => {}
            Controller::Cubic(cubic) => cubic.persistent_congestion(),
            Controller::Rate(rate) => rate.persistent_congestion(),
        }
    }

    /// How many bytes may be in flight.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Controller::Fixed { .. } => u64::MAX,
            Controller::Cubic(cubic) => cubic.window(),
            Controller::Rate(rate) => rate.window(),
        }
    }

    /// How many messages may be in flight.
    pub(crate) fn messages(&self) -> u64 {
        match self {
            Controller::Fixed { messages } => *messages,
            Controller::Cubic(_) | Controller::Rate(_) => u64::MAX,
        }
    }

    /// How many bytes may leave per second; `None` without pacing.
    pub(crate) fn pacing(&self, rtt: &Rtt) -> Option<f64> {
        match self {
            Controller::Fixed { .. } => None,
            Controller::Cubic(cubic) => cubic.pacing(rtt),
            Controller::Rate(rate) => rate.pacing(),
        }
    }
}

/// The initial window (RFC 9002 section 7.2).
const INITIAL_PACKETS: f64 = 10.0;
/// The smallest window (RFC 9002 section 7.2).
const MIN_PACKETS: f64 = 2.0;

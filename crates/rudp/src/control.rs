//! How much may be under way, and how fast it may leave.

mod cubic;
mod fixed;
mod rate;

use crate::config::Control;
use crate::recovery::Delivery;
use crate::rtt::Rtt;
use crate::time::Time;
use cubic::Cubic;
use fixed::Fixed;
use rate::Rate;

/// What an acknowledgement says to a control.
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
    /// Whether there was less to send than might have gone.
    pub(crate) is_app_limited: bool,
    pub(crate) is_window_unused: bool,
}

/// What a loss says to a control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) now: Time,
    pub(crate) bytes: u64,
    /// When the newest of the lost packets was sent.
    pub(crate) sent_at: Time,
}

/// What marks of queues that fill say to a control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marked {
    pub(crate) now: Time,
    pub(crate) packets: u64,
    /// When the newest packet that is acknowledged with them was sent.
    pub(crate) sent_at: Time,
}

#[derive(Debug)]
pub(crate) enum Controller {
    Fixed(Fixed),
    Cubic(Cubic),
    Rate(Box<Rate>),
}

impl Controller {
    /// For packets of at most so many bytes.
    pub(crate) fn new(control: Control, packet: usize) -> Controller {
        match control {
            Control::Fixed { messages } => Controller::Fixed(Fixed::new(messages)),
            Control::Cubic => Controller::Cubic(Cubic::new(packet)),
            Control::Rate => Controller::Rate(Box::new(Rate::new(packet))),
        }
    }

    pub(crate) fn acknowledged(&mut self, what: &Acknowledged<'_>) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Cubic(cubic) => cubic.acknowledged(what),
            Controller::Rate(rate) => rate.acknowledged(what),
        }
    }

    pub(crate) fn lost(&mut self, what: &Lost) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Cubic(cubic) => cubic.lost(what),
            Controller::Rate(rate) => rate.lost(what.bytes),
        }
    }

    /// Queues on the path fill: congestion, as loss is (RFC 9002 section 7.1).
    pub(crate) fn marked(&mut self, what: &Marked) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Cubic(cubic) => cubic.congested(what.now, what.sent_at),
            Controller::Rate(rate) => rate.marked(what.packets),
        }
    }

    /// So many bytes that were taken for lost arrived.
    pub(crate) fn spurious(&mut self, bytes: u64) {
        if let Controller::Rate(rate) = self {
            rate.spurious(bytes);
        }
    }

    /// Nothing was acknowledged for several probe timeouts (RFC 9002 section 7.6).
    pub(crate) fn persistent(&mut self) {
        match self {
            Controller::Fixed(_) => {}
            Controller::Cubic(cubic) => cubic.persistent(),
            Controller::Rate(rate) => rate.persistent(),
        }
    }

    /// How many bytes may be under way.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Controller::Fixed(_) => u64::MAX,
            Controller::Cubic(cubic) => cubic.window(),
            Controller::Rate(rate) => rate.window(),
        }
    }

    /// How many messages may be under way.
    pub(crate) fn messages(&self) -> u64 {
        match self {
            Controller::Fixed(fixed) => fixed.messages(),
            Controller::Cubic(_) | Controller::Rate(_) => u64::MAX,
        }
    }

    /// How many bytes may leave in a second; `None` where they are not spread.
    pub(crate) fn pacing(&self, rtt: &Rtt) -> Option<f64> {
        match self {
            Controller::Fixed(_) => None,
            Controller::Cubic(cubic) => cubic.pacing(rtt),
            Controller::Rate(rate) => rate.pacing(),
        }
    }
}

/// The window before anything is known (RFC 9002 section 7.2).
const INITIAL_PACKETS: f64 = 10.0;
/// The smallest window (RFC 9002 section 7.2).
const LEAST_PACKETS: f64 = 2.0;

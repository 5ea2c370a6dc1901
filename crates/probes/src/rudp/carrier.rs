//! The transports of a transfer of messages: their words, how they are opened, their properties,
//! and how they react to loss. No other file of the probes knows a transport.

use super::axes::Control;
use crate::net::axes::Over;
use crate::net::congestion_control::CongestionControl;
use crate::net::flows::MIN_DURATION;
use crate::net::path::{TCP_HEADERS, UDP_HEADERS};
use crate::prelude::*;
use ::rudp::study::RETRY;
use costof_exchange::transport::rudp::stream::Rudp;
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
use costof_exchange::transport::study::stream::Study;
use costof_exchange::transport::{Transport, calls::Calls, tcp::Tcp};
use costof_model::typed::AxisOf;
use std::io;
use std::time::Duration;

words! {
    /// What carries the messages of a transfer.
    pub(crate) enum Stack {
        /// the library rudp; not encrypted
        Rudp = "rudp",
        /// the study's protocol: each numbered datagram is answered by its number, and
        /// retransmitted after a second without an answer; not encrypted
        Study = "study",
        /// QUIC by the library quinn, one stream; always encrypted and authenticated (TLS 1.3)
        Quic = "quic",
        /// a TCP connection of the kernel; not encrypted
        Tcp = "tcp",
    }
}

impl From<Stack> for &'static Carrier {
    fn from(stack: Stack) -> &'static Carrier {
        match stack {
            Stack::Rudp => &RUDP,
            Stack::Study => &STUDY,
            Stack::Quic => &QUIC,
            Stack::Tcp => &TCP,
        }
    }
}

impl Stack {
    pub(super) fn axis() -> AxisOf<Stack> {
        words().about("what carries the messages")
    }
}

/// A transport of messages, for the probes of rudp and others with the same roles.
#[derive(Debug)]
pub(crate) struct Carrier {
    open: fn(&Transfer) -> io::Result<Box<dyn Transport>>,
    /// What this build lacks for it, and how to get it.
    missing: Option<&'static str>,
    /// Bytes of headers per packet below its own headers.
    pub(super) headers: u64,
    /// The longest message, if each message is one datagram.
    pub(super) datagram_limit: Option<usize>,
    /// Its retransmission timeout, if fixed. Such a transport has no congestion control but a
    /// window of messages.
    pub(super) fixed_rto: Option<Duration>,
    /// Its first retransmission timeout while it connects, which doubles with each timeout, and its smallest one
    /// later over a short path.
    pub(super) first_rto: Duration,
    pub(super) min_rto: Duration,
    has_rudp_control: bool,
    /// Whether it uses the kernel's names of congestion controls.
    has_congestion_control: bool,
    /// How its congestion control reacts to random loss, if known.
    pub(super) reaction: fn(&Transfer) -> Option<Reaction>,
    pub(super) is_encrypted: bool,
    /// Whether only the sender knows how much has arrived, and when.
    pub(super) sender_counts: bool,
    pub(super) min_duration: Duration,
    /// Its rate on loopback relative to net.bandwidth, if known.
    pub(super) share: Option<Share>,
}

/// A share of a rate of net.bandwidth.
#[derive(Debug)]
pub(super) struct Share {
    /// The first of these that was measured.
    pub(super) over: &'static [Over],
    /// The lowest and the highest share.
    pub(super) range: (f64, f64),
    pub(super) why: &'static str,
}

/// How a congestion control reacts to random loss.
#[derive(Debug)]
pub(super) enum Reaction {
    /// It keeps at least this share of the rate, up to this loss.
    Keeps { share: f64, max_loss: f64 },
    /// By CUBIC's response function (RFC 9438).
    Cubic,
}

pub(crate) const RUDP: Carrier = Carrier {
    open: |transfer| Ok(Box::new(Rudp(transfer.control_of_rudp()))),
    missing: None,
    headers: UDP_HEADERS,
    datagram_limit: None,
    fixed_rto: None,
    first_rto: Duration::from_millis(250),
    min_rto: Duration::from_millis(10),
    has_rudp_control: true,
    has_congestion_control: false,
    reaction: |transfer| match transfer.control {
        Control::Rate => Some(Reaction::Keeps { share: 0.8, max_loss: 1.0 }),
        Control::Cubic => Some(Reaction::Cubic),
        Control::Fixed => None,
    },
    is_encrypted: false,
    sender_counts: false,
    min_duration: MIN_DURATION,
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.2, 1.0),
        why: "copying messages into packets and out of them, and computing a tag over each at both \
              ends, takes up to five times as long",
    }),
};

const STUDY: Carrier = Carrier {
    open: |transfer| {
        let window = transfer.in_flight();
        let study = Study::new(transfer.size, window, transfer.retry);
        Ok(Box::new(study))
    },
    datagram_limit: Some(MAX_MESSAGE_BYTES),
    fixed_rto: Some(RETRY),
    // It has no handshake.
    first_rto: Duration::ZERO,
    min_rto: Duration::ZERO,
    has_rudp_control: false,
    reaction: |_| None,
    // The second half contains at least one retransmission.
    min_duration: Duration::from_millis(2400),
    share: None,
    ..RUDP
};

const QUIC: Carrier = Carrier {
    open: open_quic,
    missing: if cfg!(feature = "quic") {
        None
    } else {
        Some("this costof was built without quinn (build it with --features quic)")
    },
    has_rudp_control: false,
    has_congestion_control: true,
    reaction: |transfer| match transfer.congestion_control {
        CongestionControl::Default | CongestionControl::Cubic => Some(Reaction::Cubic),
        CongestionControl::Bbr | CongestionControl::Reno => None,
    },
    is_encrypted: true,
    // RFC 9002, section 6.2.
    first_rto: Duration::from_secs(1),
    min_rto: Duration::from_millis(30),
    // It first searches for the longest datagram that the path carries.
    min_duration: Duration::from_secs(1),
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.03, 0.5),
        why: "the stream is copied into packets and out of them, and each is encrypted and decrypted",
    }),
    ..RUDP
};

#[cfg(feature = "quic")]
fn open_quic(transfer: &Transfer) -> io::Result<Box<dyn Transport>> {
    let control = transfer.congestion_control.name();
    Ok(Box::new(costof_exchange::transport::quic::Quic::new(control)))
}

#[cfg(not(feature = "quic"))]
fn open_quic(_: &Transfer) -> io::Result<Box<dyn Transport>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) const TCP: Carrier = Carrier {
    open: |transfer| Ok(Box::new(Tcp(transfer.congestion_control.name()))),
    headers: TCP_HEADERS,
    // RFC 6298, with Linux's least.
    first_rto: Duration::from_secs(1),
    min_rto: Duration::from_millis(200),
    has_rudp_control: false,
    has_congestion_control: true,
    reaction: |transfer| match transfer.congestion_control {
        CongestionControl::Bbr => Some(Reaction::Keeps { share: 0.5, max_loss: 0.15 }),
        CongestionControl::Cubic => Some(Reaction::Cubic),
        CongestionControl::Default | CongestionControl::Reno => None,
    },
    share: Some(Share { over: &[Over::Tcp], range: (0.6, 1.2), why: "as fast" }),
    ..RUDP
};

/// RPCs over TCP.
pub(crate) const GRPC: Carrier = Carrier {
    open: |_| Ok(Box::new(Calls(costof_rpc::Stack::Grpc))),
    has_congestion_control: false,
    reaction: |_| None,
    sender_counts: true,
    share: None,
    ..TCP
};

pub(crate) const THRIFT: Carrier =
    Carrier { open: |_| Ok(Box::new(Calls(costof_rpc::Stack::THRIFT))), ..GRPC };

/// The parameters on which the two ends of a transfer agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) carrier: &'static Carrier,
    pub(crate) size: usize,
    /// The axis's value: see [`Transfer::in_flight`].
    pub(crate) window: u64,
    pub(crate) control: Control,
    pub(crate) congestion_control: CongestionControl,
    /// The retransmission timeout of the study's protocol.
    pub(crate) retry: Duration,
    /// The share of datagrams that the receiver drops on purpose.
    pub(crate) lose: f64,
}

impl Transfer {
    pub(crate) fn new(carrier: impl Into<&'static Carrier>, size: usize) -> Transfer {
        Transfer {
            carrier: carrier.into(),
            size,
            window: 0,
            control: Control::Cubic,
            congestion_control: CongestionControl::Default,
            retry: RETRY,
            lose: 0.0,
        }
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
    pub(super) fn in_flight(&self) -> Option<u64> {
        let is_fixed = self.carrier.has_rudp_control && self.control == Control::Fixed;
        let is_counted = self.carrier.fixed_rto.is_some() || is_fixed;
        match self.window {
            0 => is_counted.then_some(1),
            window => Some(window),
        }
    }

    /// # Errors
    /// `Unsupported` where this build does not have it.
    pub(super) fn open(&self) -> io::Result<Box<dyn Transport>> {
        (self.carrier.open)(self)
    }

    fn control_of_rudp(&self) -> ::rudp::Control {
        match self.control {
            Control::Cubic => ::rudp::Control::Cubic,
            Control::Rate => ::rudp::Control::Rate,
            Control::Fixed => ::rudp::Control::Fixed {
                messages: self.in_flight().map_or(1, |window| window as u32),
            },
        }
    }

    /// Refuses what this build cannot measure.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.check_axes()?;
        match self.carrier.missing {
            Some(missing) => Err(Failure::unsupported(missing)),
            None => Ok(()),
        }
    }

    /// Refuses what cannot be measured anywhere.
    pub(crate) fn check_axes(&self) -> Result<(), Failure> {
        let carrier = self.carrier;
        let reason = if carrier.datagram_limit.is_some_and(|limit| self.size > limit) {
            "with stack=study a message is one datagram, and has 65499 B at most (--set size=65499)"
        } else if !carrier.has_rudp_control && self.control != Control::Cubic {
            "only rudp has this control (--set control=cubic; TCP and QUIC have --set \
             congestion_control)"
        } else if !carrier.has_congestion_control && self.congestion_control.name().is_some() {
            "only TCP and QUIC have a congestion control of that name (--set \
             congestion_control=default; rudp has --set control)"
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

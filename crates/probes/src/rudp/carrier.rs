//! What carries a transfer of messages. All that the probes know of a stream's transport is here: its
//! word, how it is opened, its properties, and how it reacts to loss.

use super::axes::Control;
use crate::net::axes::Over;
use crate::net::congestion_control::CongestionControl;
use crate::net::flows::MIN_DURATION;
use crate::net::path::{TCP_HEADERS, UDP_HEADERS};
use crate::prelude::*;
use ::rudp::study::RETRY;
use costof_exchange::stream::transport::{Transport, calls::Calls, rudp::Rudp, study, tcp::Tcp};
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
use costof_model::typed::AxisOf;
use std::io;
use std::time::Duration;

words! {
    /// What carries the messages of a transfer.
    pub(crate) enum Stack {
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
    /// The axis.
    pub(super) fn axis() -> AxisOf<Stack> {
        words().about("what carries the messages")
    }
}

/// A transport of messages, of the probes of rudp and of those that have the same roles.
#[derive(Debug)]
pub(crate) struct Carrier {
    /// Opens it for a transfer.
    open: fn(&Transfer) -> io::Result<Box<dyn Transport>>,
    /// What this build lacks for it, and the way out.
    missing: Option<&'static str>,
    /// Bytes of headers beneath its own in a packet.
    pub(super) headers: u64,
    /// The longest message, where each is one datagram, whatever its packets hold.
    pub(super) datagram_limit: Option<usize>,
    /// After how long it retransmits, where that is fixed. Such a transport has no congestion control:
    /// it has a window of messages.
    pub(super) fixed_rto: Option<Duration>,
    /// After how long it sends the beginning of a connection again, the first time, and later anything else
    /// over a short path. Both double with each time.
    pub(super) first_rto: Duration,
    pub(super) min_rto: Duration,
    /// Whether it has the controls of the axis `control`.
    has_rudp_control: bool,
    /// Whether it has congestion controls by the names that the kernel's have.
    has_congestion_control: bool,
    /// How its congestion control reacts to random loss, where that is known.
    pub(super) reaction: fn(&Transfer) -> Option<Reaction>,
    pub(super) is_encrypted: bool,
    /// Whether the sender alone knows how much has arrived, and when.
    pub(super) sender_counts: bool,
    /// How long a transfer lasts at least.
    pub(super) min_duration: Duration,
    /// How fast it is on loopback, where that is known from net.bandwidth.
    pub(super) share: Option<Share>,
}

/// A share of what net.bandwidth has measured.
#[derive(Debug)]
pub(super) struct Share {
    /// Over the first of these that it has measured.
    pub(super) over: &'static [Over],
    /// The least and the most.
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
        Control::Rate => Some(Reaction::Keeps {
            share: 0.8,
            max_loss: 1.0,
        }),
        Control::Cubic => Some(Reaction::Cubic),
        Control::Fixed => None,
    },
    is_encrypted: false,
    sender_counts: false,
    min_duration: MIN_DURATION,
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.2, 1.0),
        why: "with the copies of a message into packets and out of them, and a tag over each at both \
              ends, up to five times as long",
    }),
};

const STUDY: Carrier = Carrier {
    open: |transfer| {
        let window = transfer.in_flight();
        let study = study::Study::new(transfer.size, window, transfer.retry);
        Ok(Box::new(study))
    },
    datagram_limit: Some(MAX_MESSAGE_BYTES),
    fixed_rto: Some(RETRY),
    // It has no handshake.
    first_rto: Duration::ZERO,
    min_rto: Duration::ZERO,
    has_rudp_control: false,
    reaction: |_| None,
    // The half that counts has one retransmission at least.
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
        why: "with the copies of a stream into packets and out of them, each encrypted and decrypted",
    }),
    ..RUDP
};

#[cfg(feature = "quic")]
fn open_quic(transfer: &Transfer) -> io::Result<Box<dyn Transport>> {
    let control = transfer.congestion_control.name();
    Ok(Box::new(
        costof_exchange::stream::transport::quic::Quic::new(control),
    ))
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
        CongestionControl::Bbr => Some(Reaction::Keeps {
            share: 0.5,
            max_loss: 0.15,
        }),
        CongestionControl::Cubic => Some(Reaction::Cubic),
        CongestionControl::Default | CongestionControl::Reno => None,
    },
    share: Some(Share {
        over: &[Over::Tcp],
        range: (0.6, 1.2),
        why: "as fast",
    }),
    ..RUDP
};

/// Calls of procedures over TCP.
pub(crate) const GRPC: Carrier = Carrier {
    open: |_| Ok(Box::new(Calls(costof_rpc::Stack::Grpc))),
    has_congestion_control: false,
    reaction: |_| None,
    sender_counts: true,
    share: None,
    ..TCP
};

pub(crate) const THRIFT: Carrier = Carrier {
    open: |_| Ok(Box::new(Calls(costof_rpc::Stack::THRIFT))),
    ..GRPC
};

/// What the two ends of a transfer have to agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) carrier: &'static Carrier,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// As the axis has it: see [`Transfer::in_flight`].
    pub(crate) window: u64,
    pub(crate) control: Control,
    pub(crate) congestion_control: CongestionControl,
    /// After how long the study's protocol retransmits.
    pub(crate) retry: Duration,
    /// The share of datagrams that the receiver is to lose.
    pub(crate) lose: f64,
}

impl Transfer {
    /// Messages of so many bytes, with the defaults of the other axes.
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

    /// The same with this window and these controls.
    pub(crate) fn controlled(
        self,
        window: u64,
        control: Control,
        congestion_control: CongestionControl,
    ) -> Transfer {
        Transfer {
            window,
            control,
            congestion_control,
            ..self
        }
    }

    /// How many messages may be in flight; none where the transport itself decides.
    pub(super) fn in_flight(&self) -> Option<u64> {
        let is_fixed = self.carrier.has_rudp_control && self.control == Control::Fixed;
        let is_counted = self.carrier.fixed_rto.is_some() || is_fixed;
        match self.window {
            0 => is_counted.then_some(1),
            window => Some(window),
        }
    }

    /// What carries it.
    ///
    /// # Errors
    /// `Unsupported` where this build does not have it.
    pub(super) fn open(&self) -> io::Result<Box<dyn Transport>> {
        (self.carrier.open)(self)
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
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let carrier = self.carrier;
        let reason = if carrier
            .datagram_limit
            .is_some_and(|limit| self.size > limit)
        {
            "a message of the study is one datagram, with 65499 B of it at most (--set size=65499)"
        } else if !carrier.has_rudp_control && self.control != Control::Cubic {
            "only rudp has this control (--set control=cubic; TCP and QUIC have --set \
             congestion_control)"
        } else if !carrier.has_congestion_control && self.congestion_control.name().is_some() {
            "only TCP and QUIC have a congestion control of that name (--set \
             congestion_control=default; rudp has --set control)"
        } else if let Some(missing) = carrier.missing {
            missing
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

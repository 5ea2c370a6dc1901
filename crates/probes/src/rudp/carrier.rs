//! What carries a transfer of messages: how each transport is opened, and what is known of it before it
//! is measured.

use crate::net::axes::Over;
use crate::net::flows::MIN_DURATION;
use crate::net::path::{TCP_HEADERS, UDP_HEADERS};
use ::rudp::Control;
use ::rudp::study::RETRY;
#[cfg(feature = "quic")]
use costof_exchange::stream::transport::quic::Quic;
use costof_exchange::stream::transport::{Transport, calls::Calls, rudp::Rudp, study, tcp::Tcp};
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
use std::io;
use std::time::Duration;

/// A transport of messages, of the probes of rudp and of those that have the same roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Rudp,
    Study,
    Quic,
    Tcp,
    /// Calls of procedures over TCP.
    Calls(costof_rpc::Stack),
}

/// What is known of a transport.
pub(super) struct Properties {
    /// Bytes of headers beneath its own in a packet.
    pub(super) headers: u64,
    /// The longest message, where each is one datagram, whatever its packets hold.
    pub(super) datagram_limit: Option<usize>,
    /// After how long it retransmits, where that is fixed. Such a transport has no congestion control:
    /// it has a window of messages.
    pub(super) fixed_rto: Option<Duration>,
    /// Whether it has congestion controls by the names that the kernel's have.
    pub(super) has_congestion_control: bool,
    pub(super) is_encrypted: bool,
    /// How long a transfer lasts at least.
    pub(super) min_duration: Duration,
    /// How fast it is on loopback, where that is known from net.bandwidth.
    pub(super) share: Option<Share>,
}

/// A share of what net.bandwidth has measured.
pub(super) struct Share {
    /// Over the first of these that it has measured.
    pub(super) over: &'static [Over],
    /// The least and the most.
    pub(super) range: (f64, f64),
    pub(super) why: &'static str,
}

const RUDP: Properties = Properties {
    headers: UDP_HEADERS,
    datagram_limit: None,
    fixed_rto: None,
    has_congestion_control: false,
    is_encrypted: false,
    min_duration: MIN_DURATION,
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.2, 1.0),
        why: "with the copies of a message into packets and out of them, and a tag over each at both \
              ends, up to five times as long",
    }),
};

const STUDY: Properties = Properties {
    datagram_limit: Some(MAX_MESSAGE_BYTES),
    fixed_rto: Some(RETRY),
    // The half that counts has one retransmission at least.
    min_duration: Duration::from_millis(2400),
    share: None,
    ..RUDP
};

const QUIC: Properties = Properties {
    has_congestion_control: true,
    is_encrypted: true,
    // It first searches for the longest datagram that the path carries.
    min_duration: Duration::from_secs(1),
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.03, 0.5),
        why: "with the copies of a stream into packets and out of them, each encrypted and decrypted",
    }),
    ..RUDP
};

const TCP: Properties = Properties {
    headers: TCP_HEADERS,
    has_congestion_control: true,
    share: Some(Share {
        over: &[Over::Tcp],
        range: (0.6, 1.2),
        why: "as fast",
    }),
    ..RUDP
};

const CALLS: Properties = Properties {
    has_congestion_control: false,
    share: None,
    ..TCP
};

impl Carrier {
    pub(super) fn properties(self) -> &'static Properties {
        match self {
            Carrier::Rudp => &RUDP,
            Carrier::Study => &STUDY,
            Carrier::Quic => &QUIC,
            Carrier::Tcp => &TCP,
            Carrier::Calls(_) => &CALLS,
        }
    }

    /// The transport of a transfer of messages of `size` bytes, of which so many may be in flight where
    /// it has no congestion control; else by the kernel's, or the library's own, control.
    ///
    /// # Errors
    /// `Unsupported` where this build does not have it.
    pub(super) fn open(
        self,
        size: usize,
        in_flight: Option<u64>,
        control: Option<&'static str>,
        control_of_rudp: Control,
    ) -> io::Result<Box<dyn Transport>> {
        Ok(match self {
            Carrier::Rudp => Box::new(Rudp(control_of_rudp)),
            Carrier::Study => Box::new(study::Study::new(size, in_flight)),
            #[cfg(feature = "quic")]
            Carrier::Quic => Box::new(Quic::new(control)),
            #[cfg(not(feature = "quic"))]
            Carrier::Quic => return Err(io::ErrorKind::Unsupported.into()),
            Carrier::Tcp => Box::new(Tcp(control)),
            Carrier::Calls(stack) => Box::new(Calls(stack)),
        })
    }
}

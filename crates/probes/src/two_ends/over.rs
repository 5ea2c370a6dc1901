//! What carries messages between two ends: one word, and one description of all that probes know of it.

use crate::net::congestion_control::CongestionControl;
use crate::net::flows::MIN_DURATION;
use crate::net::path::{TCP_HEADERS, UDP_HEADERS};
use crate::prelude::*;
use crate::rudp::axes::Control;
use crate::rudp::transfer::Transfer;
use ::rudp::study::RETRY;
use costof_exchange::rendezvous;
use costof_exchange::transport::rudp::stream::Rudp;
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
use costof_exchange::transport::study::stream::Study;
use costof_exchange::transport::{Transport, calls::Calls, tcp::Tcp};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use std::io;
use std::time::Duration;

words! {
    /// What carries messages between two ends. Each probe has those that it can measure.
    pub(crate) enum Over {
        /// a TCP connection of the kernel, with TCP_NODELAY; not encrypted
        Tcp = "tcp",
        /// UDP: each message is a datagram, which may be lost
        Udp = "udp",
        /// UDP with segmentation offload: a message is passed to the kernel at once and cut into
        /// datagrams of 1452 B (UDP_SEGMENT) by the kernel or the device, and received several at a
        /// time (UDP_GRO)
        UdpGso = "udp_gso",
        /// a Unix stream socket, on one machine without a link
        Unix = "unix",
        /// the library rudp: reliable datagrams, which it acknowledges, tags and paces; not
        /// encrypted
        Rudp = "rudp",
        /// the protocol of the study of reliable datagrams: each numbered datagram is answered by
        /// its number, and retransmitted after a second without an answer; not encrypted
        Study = "study",
        /// QUIC by the library quinn, one stream; always encrypted and authenticated (TLS 1.3)
        Quic = "quic",
        /// gRPC: protobuf over HTTP/2, by tonic, on a runtime of one thread at each end
        Grpc = "grpc",
        /// Apache Thrift: its binary protocol in frames, by Apache's own crate
        Thrift = "thrift",
    }
}

/// The kinds of sockets that carry single messages.
pub(crate) const SOCKETS: &[Over] = &[Over::Tcp, Over::Udp, Over::Unix];

impl Over {
    /// What the probes have to know of it.
    pub(crate) fn description(self) -> &'static Description {
        match self {
            Over::Tcp => &TCP,
            Over::Udp => &UDP,
            Over::UdpGso => &UDP_GSO,
            Over::Unix => &UNIX,
            Over::Rudp => &RUDP,
            Over::Study => &STUDY,
            Over::Quic => &QUIC,
            Over::Grpc => &GRPC,
            Over::Thrift => &THRIFT,
        }
    }

    /// The word for the kind of socket below.
    pub(crate) fn below(self) -> Over {
        match self.description().socket {
            rendezvous::Over::Tcp => Over::Tcp,
            rendezvous::Over::Udp | rendezvous::Over::UdpGso => Over::Udp,
            rendezvous::Over::Unix => Over::Unix,
        }
    }

    /// The stack of procedure calls; `None` if it carries messages alone.
    pub(crate) fn calls(self) -> Option<costof_rpc::Stack> {
        match self {
            Over::Grpc => Some(costof_rpc::Stack::Grpc),
            Over::Thrift => Some(costof_rpc::Stack::THRIFT),
            Over::Tcp
            | Over::Udp
            | Over::UdpGso
            | Over::Unix
            | Over::Rudp
            | Over::Study
            | Over::Quic => None,
        }
    }
}

impl From<Over> for rendezvous::Over {
    fn from(over: Over) -> rendezvous::Over {
        over.description().socket
    }
}

/// What the probes have to know of something that carries messages.
#[derive(Debug)]
pub(crate) struct Description {
    /// The kind of socket below.
    pub(crate) socket: rendezvous::Over,
    /// Whether its ends exchange messages one at a time.
    pub(crate) exchanges: bool,
    /// Makes the ends of a stream of messages.
    pub(crate) open: fn(&Transfer) -> io::Result<Box<dyn Transport>>,
    /// Why it has no streams of messages, or none in this build, and the way out.
    pub(crate) missing: Option<&'static str>,
    /// Bytes of headers per packet below its own headers.
    pub(crate) headers: u64,
    /// The longest message, if each message is one datagram.
    pub(crate) datagram_limit: Option<usize>,
    /// Its retransmission timeout, if fixed. Such a transport has no congestion control but a
    /// window of messages.
    pub(crate) fixed_rto: Option<Duration>,
    /// Its first retransmission timeout while it connects, which doubles with each timeout, and its smallest one
    /// later over a short path.
    pub(crate) first_rto: Duration,
    pub(crate) min_rto: Duration,
    /// Whether its congestion control is one of rudp's.
    pub(crate) has_rudp_control: bool,
    /// Whether it uses the kernel's names of congestion controls.
    pub(crate) has_congestion_control: bool,
    /// How its congestion control reacts to random loss, if known.
    pub(crate) reaction: fn(&Transfer) -> Option<Reaction>,
    pub(crate) is_encrypted: bool,
    /// Whether only the sender knows how much has arrived, and when.
    pub(crate) sender_counts: bool,
    pub(crate) min_duration: Duration,
    /// Its rate on loopback relative to net.bandwidth, if known.
    pub(crate) share: Option<Share>,
}

/// A share of a rate of net.bandwidth.
#[derive(Debug)]
pub(crate) struct Share {
    /// The first of these that was measured.
    pub(crate) over: &'static [Over],
    /// The lowest and the highest share.
    pub(crate) range: (f64, f64),
    pub(crate) why: &'static str,
}

/// How a congestion control reacts to random loss.
#[derive(Debug)]
pub(crate) enum Reaction {
    /// It keeps at least this share of the rate, up to this loss.
    Keeps { share: f64, max_loss: f64 },
    /// By CUBIC's response function (RFC 9438).
    Cubic,
}

const RUDP: Description = Description {
    socket: rendezvous::Over::Udp,
    exchanges: true,
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

const STUDY: Description = Description {
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

const QUIC: Description = Description {
    exchanges: false,
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

const TCP: Description = Description {
    socket: rendezvous::Over::Tcp,
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
const GRPC: Description = Description {
    exchanges: false,
    open: |_| Ok(Box::new(Calls(costof_rpc::Stack::Grpc))),
    has_congestion_control: false,
    reaction: |_| None,
    sender_counts: true,
    share: None,
    ..TCP
};

const THRIFT: Description =
    Description { open: |_| Ok(Box::new(Calls(costof_rpc::Stack::THRIFT))), ..GRPC };

/// Blocks alone: no messages that arrive whole, or are known to have arrived.
const UDP: Description = Description {
    missing: Some("this has no stream of messages (rudp, study, tcp and others have one)"),
    open: |_| Err(io::ErrorKind::Unsupported.into()),
    datagram_limit: Some(DATAGRAM_MAX_BYTES),
    share: None,
    ..RUDP
};

const UDP_GSO: Description =
    Description { socket: rendezvous::Over::UdpGso, exchanges: false, ..UDP };

const UNIX: Description = Description {
    socket: rendezvous::Over::Unix,
    headers: TCP_HEADERS,
    datagram_limit: None,
    ..UDP
};

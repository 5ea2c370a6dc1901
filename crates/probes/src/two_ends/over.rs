//! What carries messages between two ends: one word, and one description of all that probes know of it.

use crate::net::rtt::Rtt;
use crate::net::rtt::client::{over_calls, over_channel, over_socket};
use crate::prelude::*;
use crate::rpc::expect;
use crate::two_ends::calls::serve_calls;
use crate::two_ends::exchange::added_by_rudp;
use crate::two_ends::exchange::roles::serve_channel;
use crate::two_ends::flows::MIN_DURATION;
use crate::two_ends::path::{TCP_HEADERS, UDP_HEADERS};
use crate::two_ends::stamped::StampedEnds;
use crate::two_ends::{Acceptor, CongestionControl, Connector, Control, Exchange, Transfer};
use ::rudp::study::RETRY;
use costof_exchange::rendezvous;
use costof_exchange::transport::rudp::{Rudp as RudpChannel, stamped::StampedRudp, stream::Rudp};
use costof_exchange::transport::socket::Socket;
use costof_exchange::transport::stamped::Stamped;
use costof_exchange::transport::study::{
    MAX_MESSAGE_BYTES, SEQUENCE_NUMBER_BYTES, StudyClient, stream::Study,
};
use costof_exchange::transport::{Channels, Transport, calls::Calls, tcp::Tcp};
use costof_rpc::Stack;

/// Declares what carries messages: its meaning, its word and its description.
macro_rules! transports {
    ($($(#[doc = $about:literal])+ $variant:ident = $word:literal: $description:ident,)+) => {
        words! {
            /// What carries messages between two ends. Each probe has those that it can measure.
            pub(crate) enum Over {
                $($(#[doc = $about])+ $variant = $word,)+
            }
        }

        impl Over {
            /// What the probes have to know of it.
            pub(crate) fn description(self) -> &'static Description {
                match self {
                    $(Over::$variant => &$description,)+
                }
            }
        }
    };
}

transports! {
    /// a TCP connection of the kernel, with TCP_NODELAY; not encrypted
    Tcp = "tcp": TCP,
    /// UDP: each message is a datagram, which may be lost
    Udp = "udp": UDP,
    /// UDP with segmentation offload: a message is passed to the kernel at once and cut into
    /// datagrams of 1452 B (UDP_SEGMENT) by the kernel or the device, and received several at a
    /// time (UDP_GRO)
    UdpGso = "udp_gso": UDP_GSO,
    /// a Unix stream socket, on one machine without a link
    Unix = "unix": UNIX,
    /// the library rudp: reliable datagrams, which it acknowledges, tags and paces; not
    /// encrypted
    Rudp = "rudp": RUDP,
    /// the protocol of the study of reliable datagrams: each numbered datagram is answered by
    /// its number, and retransmitted after a second without an answer; not encrypted
    Study = "study": STUDY,
    /// QUIC by the library quinn, one stream; always encrypted and authenticated (TLS 1.3)
    Quic = "quic": QUIC,
    /// gRPC: protobuf over HTTP/2, by tonic, on a runtime of one thread at each end
    Grpc = "grpc": GRPC,
    /// gRPC over TLS 1.3, by rustls with a key made for the launch; encrypted and authenticated
    GrpcTls = "grpc_tls": GRPC_TLS,
    /// gRPC whose ends compress each message by gzip. A string here is the alphabet again and again, of which a
    /// few bytes are left: yours takes longer, and more of it is left
    GrpcGzip = "grpc_gzip": GRPC_GZIP,
    /// Apache Thrift: its binary protocol in frames, by Apache's own crate
    Thrift = "thrift": THRIFT,
    /// gRPC over a Unix socket
    GrpcUnix = "grpc_unix": GRPC_UNIX,
    /// Thrift over a Unix socket
    ThriftUnix = "thrift_unix": THRIFT_UNIX,
}

/// The kinds of sockets.
pub(crate) const SOCKETS: &[Over] = &[Over::Tcp, Over::Udp, Over::UdpGso, Over::Unix];

impl Over {
    /// The axis of all that can carry what a probe measures; the default is `first`.
    pub(crate) fn that(first: Over, can: fn(Over, &Description) -> bool) -> AxisOf<Over> {
        let able = Over::ALL.iter().copied().filter(|over| can(*over, over.description()));
        let mut able: Vec<Over> = able.collect();
        able.sort_by_key(|over| *over != first);
        words_of(&able)
    }

    /// The name that the axis of this probe had.
    pub(crate) fn was_stack(probe: &str) -> Vec<Alias> {
        vec![Alias::new(format!("{probe}(stack=*)"), format!("{probe}(over=*)"))]
    }

    /// The word for the kind of socket below.
    pub(crate) fn below(self) -> Over {
        let is_below = |over: &Over| over.description().socket == self.description().socket;
        SOCKETS.iter().copied().find(is_below).unwrap_or(self)
    }

    /// The stack of procedure calls; `None` if it carries messages alone.
    pub(crate) fn stack(self) -> Option<Stack> {
        self.description().stack
    }

    /// What the probes have to know of it, if this build has it. The other end may be a different build.
    ///
    /// # Errors
    /// It has not, with the way out.
    pub(crate) fn in_this_build(self) -> Result<&'static Description> {
        let description = self.description();
        description.missing.map_or(Ok(description), |why| Err(Failure::unsupported(why)))
    }

    /// What its two ends do with messages that are answered one at a time.
    ///
    /// # Errors
    /// It has only streams.
    pub(crate) fn round_trips(self) -> Result<&'static RoundTrips> {
        self.description().round_trips.as_ref().ok_or_else(|| {
            Failure::unsupported("this carries no messages that are answered one at a time")
        })
    }
}

impl From<Over> for rendezvous::Over {
    fn from(over: Over) -> rendezvous::Over {
        over.description().socket
    }
}

/// The ends of a stream, or why there are none.
pub(crate) type Opened = io::Result<Box<dyn Transport>>;

/// What the probes have to know of something that carries messages.
#[derive(Debug)]
pub(crate) struct Description {
    /// The kind of socket below.
    pub(crate) socket: rendezvous::Over,
    /// Its ends, if they exchange messages one at a time.
    pub(crate) round_trips: Option<RoundTrips>,
    /// The same over sockets whose packets the kernel stamps.
    pub(crate) stamped: Option<StampedEnds>,
    /// What it adds to a round trip of its socket.
    pub(crate) added: fn(&Exchange, &str, &MeasuredRows<'_>) -> Option<Cost>,
    /// Bytes that come back, if they are not those of the message.
    pub(crate) acknowledgement: Option<usize>,
    /// The stack of procedure calls, if it carries calls.
    pub(crate) stack: Option<Stack>,
    /// Makes the ends of a stream of messages, if it has streams.
    pub(crate) open: Option<fn(&Transfer) -> Opened>,
    /// Why this build does not have it, and the way out.
    pub(crate) missing: Option<&'static str>,
    /// Bytes of headers per packet below its own headers.
    pub(crate) headers: u64,
    /// The kernel's work for a round trip of a small message by the socket, in reads, and what it goes through.
    pub(crate) round_trip_reads: ((f64, f64), &'static str),
    /// Both ends' work for a packet of a stream by the socket, in reads.
    pub(crate) packet_reads: (f64, f64),
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
    /// Of messages without a header: the time of the busier thread for one, in reads, and for copying at a rate in
    /// GB/s, and what it is.
    pub(crate) message: ((f64, f64), (f64, f64), &'static str),
    /// Its rate on loopback relative to net.bandwidth, if known.
    pub(crate) share: Option<Share>,
}

/// Both ends of messages that are answered one at a time, compiled for their transport, so that nothing timed is
/// dispatched.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// Answers until the client is done.
    pub(crate) serve: fn(&Exchange, &str, &mut Acceptor, &mut Meter<'_>) -> Result,
    /// Measures `net.rtt`.
    pub(crate) measure: fn(&At<Rtt>, &mut Connector, &mut Meter<'_>) -> Result,
}

impl RoundTrips {
    const fn of<C: Channels>() -> RoundTrips {
        RoundTrips { serve: serve_channel::<C>, measure: over_channel::<C> }
    }
}

const SOCKET: RoundTrips = RoundTrips { serve: serve_channel::<Socket>, measure: over_socket };
const CALLS: RoundTrips = RoundTrips { serve: serve_calls, measure: over_calls };

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
    round_trips: Some(RoundTrips::of::<RudpChannel>()),
    stamped: Some(StampedEnds::of::<StampedRudp>()),
    added: added_by_rudp,
    acknowledgement: None,
    stack: None,
    open: Some(|transfer| Ok(Box::new(Rudp(transfer.control_of_rudp())))),
    missing: None,
    headers: UDP_HEADERS,
    round_trip_reads: ((13.0, 42.0), "UDP, IP and the device"),
    packet_reads: (6.0, 30.0),
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
    message: ((0.1, 15.0), (0.4, 10.0), "a message in packets with a tag each"),
    share: Some(Share {
        over: &[Over::Udp, Over::Tcp],
        range: (0.2, 1.0),
        why: "copying messages into packets and out of them, and computing a tag over each at both \
              ends, takes up to five times as long",
    }),
};

const STUDY: Description = Description {
    round_trips: Some(RoundTrips::of::<StudyClient<Socket>>()),
    stamped: Some(StampedEnds::of::<StudyClient<Stamped>>()),
    added: |_, _, _| Some(Cost::default()),
    acknowledgement: Some(SEQUENCE_NUMBER_BYTES),
    open: Some(|transfer| {
        let window = transfer.in_flight();
        let study = Study::new(transfer.size, window, transfer.retry);
        Ok(Box::new(study))
    }),
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
    round_trips: None,
    stamped: None,
    open: Some(open_quic),
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
fn open_quic(transfer: &Transfer) -> Opened {
    let control = transfer.congestion_control.name();
    Ok(Box::new(costof_exchange::transport::quic::Quic::new(control)))
}

#[cfg(not(feature = "quic"))]
fn open_quic(_: &Transfer) -> Opened {
    Err(io::ErrorKind::Unsupported.into())
}

const TCP: Description = Description {
    socket: rendezvous::Over::Tcp,
    round_trips: Some(SOCKET),
    stamped: Some(StampedEnds::of::<Stamped>()),
    added: |_, _, _| Some(Cost::default()),
    open: Some(|transfer| Ok(Box::new(Tcp(transfer.congestion_control.name())))),
    headers: TCP_HEADERS,
    round_trip_reads: ((18.0, 54.0), "TCP, IP and the device"),
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
    message: ((0.7, 12.0), (1.0, 20.0), "a write through TCP"),
    share: Some(Share { over: &[Over::Tcp], range: (0.6, 1.2), why: "as fast" }),
    ..RUDP
};

/// RPCs over TCP.
const GRPC: Description = Description {
    round_trips: Some(CALLS),
    stamped: None,
    added: expect::added,
    stack: Some(Stack::Grpc),
    open: Some(|_| Ok(Box::new(Calls(Stack::Grpc)))),
    has_congestion_control: false,
    reaction: |_| None,
    sender_counts: true,
    // Many small ones go into one write.
    message: (
        (0.3, 20.0),
        (0.5, 10.0),
        "a frame of HTTP/2, a buffer and a task that wakes another",
    ),
    share: None,
    ..TCP
};

const GRPC_TLS: Description = Description {
    stack: Some(Stack::GrpcTls),
    open: Some(|_| Ok(Box::new(Calls(Stack::GrpcTls)))),
    missing: if cfg!(feature = "quic") {
        None
    } else {
        Some("this costof was built without rustls (build it with --features quic)")
    },
    is_encrypted: true,
    message: ((0.3, 50.0), (0.2, 5.0), "a frame of HTTP/2, encrypted and decrypted"),
    ..GRPC
};

const GRPC_GZIP: Description = Description {
    stack: Some(Stack::GrpcGzip),
    open: Some(|_| Ok(Box::new(Calls(Stack::GrpcGzip)))),
    message: ((10.0, 1500.0), (0.02, 1.5), "a frame of HTTP/2, compressed and decompressed"),
    ..GRPC
};

const THRIFT: Description = Description {
    stack: Some(Stack::Thrift),
    open: Some(|_| Ok(Box::new(Calls(Stack::Thrift)))),
    message: ((1.0, 15.0), (0.5, 10.0), "a call in a frame, written at once"),
    ..GRPC
};

const GRPC_UNIX: Description = Description {
    socket: rendezvous::Over::Unix,
    round_trip_reads: UNIX.round_trip_reads,
    open: None,
    ..GRPC
};
const THRIFT_UNIX: Description = Description {
    socket: rendezvous::Over::Unix,
    round_trip_reads: UNIX.round_trip_reads,
    open: None,
    ..THRIFT
};

/// Blocks alone: no messages that arrive whole, or are known to have arrived.
const UDP: Description = Description {
    round_trips: Some(SOCKET),
    stamped: Some(StampedEnds::of::<Stamped>()),
    added: |_, _, _| Some(Cost::default()),
    open: None,
    datagram_limit: Some(DATAGRAM_MAX_BYTES),
    share: None,
    ..RUDP
};

const UDP_GSO: Description =
    Description { socket: rendezvous::Over::UdpGso, round_trips: None, stamped: None, ..UDP };

const UNIX: Description = Description {
    socket: rendezvous::Over::Unix,
    stamped: None,
    headers: TCP_HEADERS,
    round_trip_reads: ((5.0, 16.0), "a queue of buffers"),
    packet_reads: (3.0, 15.0),
    datagram_limit: None,
    ..UDP
};

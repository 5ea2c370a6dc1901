//! Messages that are answered one at a time: their two ends over each transport, and its cost beyond a
//! socket's.

use crate::ends::{self, Cpus};
use crate::net::axes::Wait;
use crate::net::path::{self, UDP_HEADERS};
use crate::net::peers::{Acceptor, Connector, Placement};
use crate::net::rendezvous::broken;
use crate::prelude::*;
use crate::two_ends::over::Over;
use crate::wake::{Awake, Wake};
use costof_exchange::transport::rudp::{Rudp, stamped::StampedRudp};
use costof_exchange::transport::socket::Socket;
use costof_exchange::transport::stamped::{Stamped, Stamps};
use costof_exchange::transport::study::{SEQUENCE_NUMBER_BYTES, StudyClient, StudyServer};
use costof_exchange::transport::{Channel, IDLE_TIMEOUT};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use rudp::Config;
use std::time::Duration;

/// What carries messages that are reliable datagrams, or as one of them.
pub(crate) fn datagrams_axis() -> AxisOf<Over> {
    words_of(&[Over::Rudp, Over::Study, Over::Udp]).about("what carries the message")
}

/// The parameters on which a client and a server agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// What carries the messages.
    pub(crate) over: Over,
    /// Bytes of a message, and of its answer.
    pub(crate) size: usize,
    pub(crate) wait: Wait,
    pub(crate) cpus: Cpus,
    pub(crate) wake: Wake,
}

/// A point at which a client and a server exchange messages.
pub(crate) trait Exchanges {
    fn exchange(&self) -> Exchange;

    /// Refuses points that the exchange itself does not refuse.
    ///
    /// # Errors
    /// Why the point cannot be measured anywhere.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The roles of every exchange; the second one leads.
pub(crate) const ROLE_NAMES: &[&str] = &["server", "client"];

/// Refuses points that cannot be measured anywhere.
///
/// # Errors
/// Why not.
pub(crate) fn check_axes<P: Exchanges>(point: &At<P>) -> Result<(), Failure> {
    let exchange = point.exchange();
    exchange.check()?;
    let spins = exchange.wait == Wait::Spin;
    // Over a link with delays, a CPU that both ends share idles too.
    if spins || path::is_plain(&point.link) {
        ends::check(exchange.cpus, exchange.wake, spins)?;
    }
    point.check()
}

impl Exchanges for Exchange {
    fn exchange(&self) -> Exchange {
        *self
    }
}

impl Exchange {
    pub(crate) fn headers(&self) -> u64 {
        self.over.description().headers
    }

    pub(crate) fn placement(&self) -> Placement {
        Placement { cpus: self.cpus, wake: self.wake, blocks: self.blocks() }
    }

    /// Whether the ends wait in the kernel.
    pub(crate) fn blocks(&self) -> bool {
        self.wait == Wait::Block
    }

    /// How many ends wait in the kernel, with one message at a time.
    pub(crate) fn waiting_ends(&self) -> f64 {
        let waits = self.blocks() && self.cpus != Cpus::OneThread;
        if waits { 2.0 } else { 0.0 }
    }

    /// How long the link may delay a round trip; 0 for an unknown link.
    pub(crate) fn may_take(&self, link: &str) -> Duration {
        path::may_take(link, self.size as u64, self.headers())
    }

    /// As [`path::least_ns`].
    pub(crate) fn least_ns(&self, link: &str) -> f64 {
        path::least_ns(link, self.size as u64, self.headers())
    }

    /// The socket that carries the messages, or the datagrams of the transport.
    pub(crate) fn socket(&self) -> Over {
        self.over.below()
    }

    /// Refuses a message that no datagram holds.
    ///
    /// # Errors
    /// How much a datagram holds.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let carrier = self.over.description();
        if !carrier.exchanges {
            return Err(no_exchange());
        }
        let limit = carrier.datagram_limit;
        match limit.filter(|limit| self.size > *limit) {
            None => Ok(()),
            Some(most) => Err(Failure::unsupported(format!(
                "a message is one datagram here, which carries {most} B of it at most (--set \
                 size={most}; over=tcp or stack=rudp carry more)"
            ))),
        }
    }

    /// What the transport adds to a round trip of its socket.
    pub(crate) fn added(&self, link: &str, measured: &MeasuredRows<'_>) -> Option<Cost> {
        match self.over {
            Over::Rudp => library(link, self.size, measured),
            Over::Tcp
            | Over::Udp
            | Over::UdpGso
            | Over::Unix
            | Over::Study
            | Over::Quic
            | Over::Grpc
            | Over::Thrift => Some(Cost::default()),
        }
    }

    /// Predicts a round trip from one of the socket below.
    pub(crate) fn round_trip(
        &self,
        link: &str,
        socket: Cost,
        measured: &MeasuredRows<'_>,
    ) -> Option<Cost> {
        match self.over {
            Over::Study => {
                let link_ns = |bytes: usize| {
                    let cost = path::cost(link, bytes as u64, UDP_HEADERS)?;
                    Some(cost.range.0)
                };
                let whole_ns = link_ns(self.size)? - link_ns(SEQUENCE_NUMBER_BYTES)?;
                let low_ns = socket.range.0 - whole_ns / 2.0;
                let socket = socket.named("a round trip of which 8 B come back");
                Some(socket.at_least(low_ns))
            }
            Over::Tcp
            | Over::Udp
            | Over::UdpGso
            | Over::Unix
            | Over::Rudp
            | Over::Quic
            | Over::Grpc
            | Over::Thrift => Some(socket + self.added(link, measured)?),
        }
    }

    /// Connects a socket to the server. The second value keeps the CPU awake.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(crate) fn connect_socket(
        &self,
        connector: &mut Connector,
    ) -> Result<(Awake, Socket), Failure> {
        let (over, wait) = (self.over.into(), self.wait.into());
        connector.connect(|address, token| Socket::connect(over, address, wait, token))
    }

    /// Connects to the server, and runs the client's end.
    ///
    /// # Errors
    /// Why the server cannot be reached; those of the end.
    pub(crate) fn connect(
        &self,
        link: &str,
        connector: &mut Connector,
        client: impl End,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        match self.over {
            Over::Tcp | Over::Udp | Over::Unix => {
                let (_awake, socket) = self.connect_socket(connector)?;
                client.run(socket, meter)
            }
            Over::Study => {
                let (_awake, socket) = self.connect_socket(connector)?;
                client.run(StudyClient::new(socket), meter)
            }
            Over::Rudp => {
                let (_awake, rudp) = connector.connect(|address, token| {
                    let config = config(link, self.size);
                    Rudp::connect(address, token, config, self.wait.into())
                })?;
                client.run(rudp, meter)
            }
            Over::UdpGso | Over::Quic | Over::Grpc | Over::Thrift => Err(no_exchange()),
        }
    }

    /// Accepts the client, unless the launch has already ended, and runs the server's end.
    ///
    /// # Errors
    /// Why no client connected; those of the end.
    pub(crate) fn accept(
        &self,
        link: &str,
        acceptor: &mut Acceptor,
        server: impl End,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let (size, wait) = (self.size, self.wait.into());
        match self.over {
            Over::Tcp | Over::Udp | Over::Unix => {
                let accepted = acceptor
                    .accept(meter, |listener, stop| Socket::accept(listener, wait, stop))?;
                run_if_accepted(accepted, server, meter)
            }
            Over::Study => {
                let accepted = acceptor.accept(meter, |listener, stop| {
                    let socket = Socket::accept(listener, wait, stop)?;
                    Ok(StudyServer::new(socket, size))
                })?;
                run_if_accepted(accepted, server, meter)
            }
            Over::Rudp => {
                let accepted = acceptor.accept(meter, |listener, stop| {
                    Rudp::accept(listener, config(link, size), wait, stop)
                })?;
                run_if_accepted(accepted, server, meter)
            }
            Over::UdpGso | Over::Quic | Over::Grpc | Over::Thrift => Err(no_exchange()),
        }
    }

    /// Runs the client's end over a stamped socket to the server.
    ///
    /// # Errors
    /// Why the ends do not connect; those of the end.
    pub(crate) fn connect_stamped(
        &self,
        link: &str,
        socket: Stamped,
        client: impl StampedEnd,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        match self.over {
            Over::Tcp | Over::Udp | Over::Unix => client.run(socket, meter),
            Over::Study => client.run(StudyClient::new(socket), meter),
            Over::Rudp => {
                let connected = StampedRudp::connect(socket, stamped_config(link, self.size));
                client.run(connected.map_err(|error| broken(&error))?, meter)
            }
            Over::UdpGso | Over::Quic | Over::Grpc | Over::Thrift => Err(no_exchange()),
        }
    }

    /// Runs the server's end over a stamped socket to the client.
    ///
    /// # Errors
    /// Why the ends do not connect; those of the end.
    pub(crate) fn accept_stamped(
        &self,
        link: &str,
        socket: Stamped,
        server: impl StampedEnd,
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        match self.over {
            Over::Tcp | Over::Udp | Over::Unix => server.run(socket, meter),
            Over::Study => server.run(StudyServer::new(socket, self.size), meter),
            Over::Rudp => {
                let accepted = StampedRudp::accept(socket, stamped_config(link, self.size));
                server.run(accepted.map_err(|error| broken(&error))?, meter)
            }
            Over::UdpGso | Over::Quic | Over::Grpc | Over::Thrift => Err(no_exchange()),
        }
    }
}

/// Of something that carries streams alone.
fn no_exchange() -> Failure {
    Failure::unsupported("this carries no messages that are answered one at a time")
}

/// What an end does with its transport. It is compiled for each transport, so that nothing timed is
/// dispatched.
pub(crate) trait End {
    /// # Errors
    /// Why the exchange has failed.
    fn run<T: Channel>(self, transport: T, meter: &mut Meter<'_>) -> Result<(), Failure>;
}

/// As [`End`], over a socket whose packets are stamped.
pub(crate) trait StampedEnd {
    /// # Errors
    /// Why the exchange has failed.
    fn run<T: Stamps>(self, transport: T, meter: &mut Meter<'_>) -> Result<(), Failure>;
}

fn run_if_accepted<T: Channel>(
    accepted: Option<(Awake, T)>,
    server: impl End,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    match accepted {
        Some((_awake, transport)) => server.run(transport, meter),
        None => Ok(()),
    }
}

/// The configuration of rudp on this link for messages up to `message_bytes`: datagrams that the
/// link carries whole. For a remote link that is assumed to be Ethernet.
fn config(link: &str, message_bytes: usize) -> Config {
    /// Messages in flight to an end that rudp buffers, besides a minimum in bytes: messages are
    /// small and many.
    const WINDOW_MESSAGES: u64 = 2;
    const MIN_WINDOW_BYTES: u64 = 1 << 20;
    let defaults = Config::default();
    Config {
        datagram_bytes: match link {
            "loopback" => DATAGRAM_MAX_BYTES,
            _ => defaults.datagram_bytes,
        },
        message_bytes,
        window_bytes: MIN_WINDOW_BYTES.max(WINDOW_MESSAGES * message_bytes as u64),
        idle_timeout: IDLE_TIMEOUT,
        ..defaults
    }
}

/// Over stamped sockets all transports send datagrams as long as IP allows, which IP fragments.
fn stamped_config(link: &str, message_bytes: usize) -> Config {
    Config { datagram_bytes: DATAGRAM_MAX_BYTES, ..config(link, message_bytes) }
}

/// Datagrams of the library for a message of this size.
fn datagrams(link: &str, size: usize) -> u64 {
    let config = config(link, size);
    (size as u64).div_ceil(config.datagram_bytes as u64).max(1)
}

/// What the library adds to a UDP round trip of this size: at each end a datagram's state, tag and
/// copy, and longer system calls.
fn library(link: &str, size: usize, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let (handled, size) = (4.0 * datagrams(link, size) as f64, size as f64);
    let datagrams = (read.clone() * (0.5, 8.0)) * handled;
    let calls = read * (0.0, 4.0);
    let bytes = (4.0 * size / 20.0, 12.0 * size / 5.0);
    Some(
        datagrams.named(format!("{handled} datagrams written or read by the library"))
            + calls.named("its other system calls")
            + Cost::new(bytes, format!("for 4 tags and up to 8 copies of {size} B")),
    )
}

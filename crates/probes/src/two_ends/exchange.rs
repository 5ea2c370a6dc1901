//! Messages that are answered one at a time: what the two ends agree on, and what a transport adds to the round
//! trip of its socket.

pub(crate) mod roles;

use crate::prelude::*;
use crate::rpc::axes::{Kind, bytes_of};
use crate::two_ends::{Connector, Over, Wait, path};
use costof_exchange::rendezvous;
use costof_exchange::transport::Messages;
use costof_exchange::transport::rudp;
use costof_exchange::transport::socket::Socket;

/// The parameters on which a client and a server agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// What carries the messages.
    pub(crate) over: Over,
    /// What goes there and comes back: bytes, or the argument of a call.
    pub(crate) payload: Kind,
    pub(crate) wait: Wait,
    pub(crate) cpus: Cpus,
    pub(crate) wake: Wake,
}

/// A point at which a client and a server exchange messages.
pub(crate) trait Exchanges {
    fn exchange(&self) -> Exchange;

    /// How many connections the ends have.
    fn connections(&self) -> usize {
        1
    }

    /// Whether the client waits in the kernel.
    fn client_blocks(&self) -> bool {
        self.exchange().blocks()
    }

    /// Refuses points that the exchange itself does not refuse.
    ///
    /// # Errors
    /// Why the point cannot be measured anywhere.
    fn check(&self) -> Result {
        Ok(())
    }
}

/// The roles of every exchange; the second one leads.
pub(crate) const ROLE_NAMES: &[&str] = &["server", "client"];

/// Refuses points that cannot be measured anywhere.
///
/// # Errors
/// Why not.
pub(crate) fn check_axes<P: Exchanges>(point: &At<P>) -> Result {
    let exchange = point.exchange();
    exchange.check()?;
    let spins = exchange.wait == Wait::Spin;
    // Over a link with delays, a CPU that both ends share idles too.
    if spins || path::is_plain(&point.link) {
        ends::check(exchange.cpus, exchange.wake, spins)?;
    }
    point.check()
}

impl Exchange {
    /// Bytes of a message, and of its answer.
    pub(crate) fn size(&self) -> usize {
        bytes_of(self.payload)
    }

    pub(crate) fn headers(&self) -> u64 {
        self.over.description().headers
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
        path::may_take(link, self.size() as u64, self.headers())
    }

    /// As [`path::least_ns`].
    pub(crate) fn least_ns(&self, link: &str) -> f64 {
        path::least_ns(link, self.size() as u64, self.headers())
    }

    /// The kind of socket that carries the messages, or the packets of the transport.
    pub(crate) fn socket(&self) -> rendezvous::Over {
        self.over.into()
    }

    /// What the ends of a transport agree on.
    pub(crate) fn messages(&self, link: &str) -> Messages {
        Messages {
            over: self.socket(),
            size: self.size(),
            wait: self.wait.into(),
            long_datagrams: link == "loopback",
        }
    }

    /// Refuses a message that no datagram holds.
    ///
    /// # Errors
    /// How much a datagram holds.
    pub(crate) fn check(&self) -> Result {
        let limit = self.over.description().datagram_limit;
        match limit.filter(|limit| self.size() > *limit) {
            None => Ok(()),
            Some(most) => Err(Failure::unsupported(format!(
                "a message is one datagram here, which carries {most} B of it at most (--set \
                 size={most}; over=tcp and over=rudp carry more)"
            ))),
        }
    }

    /// Predicts a round trip from one of the socket below.
    pub(crate) fn round_trip(
        &self,
        link: &str,
        socket: Cost,
        measured: &MeasuredRows<'_>,
    ) -> Option<Cost> {
        let carrier = self.over.description();
        let mut cost = socket;
        if let Some(bytes) = carrier.acknowledgement {
            let link_ns = |bytes: usize| {
                let cost = path::cost(link, bytes as u64, carrier.headers)?;
                Some(cost.range.0)
            };
            let saved_ns = (link_ns(self.size())? - link_ns(bytes)?) / 2.0;
            let low_ns = cost.range.0 - saved_ns;
            cost = cost.named(format!("a round trip of which {bytes} B come back"));
            cost = cost.at_least(low_ns);
        }
        if self.over == Over::GrpcGzip && !path::is_plain(link) {
            // How few bytes are left for the link is not known.
            cost = cost.at_least(path::cost(link, 1, carrier.headers)?.range.0);
        }
        Some(cost + (carrier.added)(self, link, measured)?)
    }

    /// Connects a socket to the server. The second value keeps the CPU awake.
    ///
    /// # Errors
    /// Why the server cannot be reached.
    pub(crate) fn connect_socket(&self, connector: &mut Connector) -> Result<(Awake, Socket)> {
        let (over, wait) = (self.socket(), self.wait.into());
        connector.connect(|address, token| Socket::connect(over, address, wait, token))
    }
}

/// What the library rudp adds to a UDP round trip: at each end a datagram's state, tag and copy, and longer
/// system calls.
pub(crate) fn added_by_rudp(
    exchange: &Exchange,
    link: &str,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let messages = exchange.messages(link);
    let datagram = rudp::config(messages.size, messages.long_datagrams).datagram_bytes;
    let datagrams = messages.size.div_ceil(datagram).max(1);
    let (handled, size) = (4.0 * datagrams as f64, messages.size as f64);
    let bytes = (4.0 * size / 20.0, 12.0 * size / 5.0);
    Some(
        (read.clone() * (0.5, 8.0) * handled)
            .named(format!("{handled} datagrams written or read by the library"))
            + (read * (0.0, 4.0)).named("its other system calls")
            + Cost::new(bytes, format!("for 4 tags and up to 8 copies of {size} B")),
    )
}

//! What probes of messages between two ends vary.

use crate::ends::Cpus;
use crate::net::path::{self, TCP_HEADERS, UDP_HEADERS};
use crate::net::peers::Placement;
use crate::wake::Wake;
use costof_exchange::rendezvous;
use costof_exchange::transport;
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
use costof_model::failure::Failure;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::time::Duration;

costof_model::words! {
    /// What goes between two ends.
    pub(crate) enum Over {
        /// a TCP connection with TCP_NODELAY
        Tcp = "tcp",
        /// UDP datagrams
        Udp = "udp",
        /// a Unix stream socket, on one machine without a link
        Unix = "unix",
    }
}

costof_model::words! {
    /// How an end waits for a message.
    pub(crate) enum Wait {
        /// in the kernel
        Block = "block",
        /// by asking again and again
        Spin = "spin",
    }
}

impl From<Over> for rendezvous::Over {
    fn from(over: Over) -> rendezvous::Over {
        match over {
            Over::Tcp => rendezvous::Over::Tcp,
            Over::Udp => rendezvous::Over::Udp,
            Over::Unix => rendezvous::Over::Unix,
        }
    }
}

impl From<Wait> for transport::Wait {
    fn from(wait: Wait) -> transport::Wait {
        match wait {
            Wait::Block => transport::Wait::Block,
            Wait::Spin => transport::Wait::Spin,
        }
    }
}

/// What carries the messages of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Socket(Over),
    /// The library rudp.
    Rudp,
    /// The protocol of the reliable-datagrams study.
    Study,
}

/// What a client and a server have to agree on to exchange messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exchange {
    pub(crate) transport: Transport,
    /// Bytes of a message, and of its answer.
    pub(crate) size: usize,
    pub(crate) wait: Wait,
    pub(crate) cpus: Cpus,
    pub(crate) wake: Wake,
}

/// A point at which a client and a server exchange messages.
pub(crate) trait Exchanges {
    /// Which messages, and how.
    fn exchange(&self) -> Exchange;

    /// Refuses what the exchange alone does not refuse.
    ///
    /// # Errors
    /// Why the point cannot be, wherever it is tried.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

impl Exchanges for Exchange {
    fn exchange(&self) -> Exchange {
        *self
    }
}

impl Exchange {
    /// The socket that carries the messages, or the datagrams of the transport.
    pub(crate) fn over(&self) -> Over {
        match self.transport {
            Transport::Socket(over) => over,
            Transport::Rudp | Transport::Study => Over::Udp,
        }
    }

    /// Bytes of headers of a packet.
    pub(crate) fn headers(&self) -> u64 {
        match self.over() {
            Over::Udp => UDP_HEADERS,
            Over::Tcp | Over::Unix => TCP_HEADERS,
        }
    }

    /// Where its ends run.
    pub(crate) fn placement(&self) -> Placement {
        Placement {
            cpus: self.cpus,
            wake: self.wake,
            blocks: self.blocks(),
        }
    }

    /// Whether the ends wait in the kernel.
    pub(crate) fn blocks(&self) -> bool {
        self.wait == Wait::Block
    }

    /// How many ends wait in the kernel, one message at a time.
    pub(crate) fn waiting_ends(&self) -> f64 {
        if self.blocks() { 2.0 } else { 0.0 }
    }

    /// How long the link may hold up a round trip; nothing where nothing is known of it.
    pub(crate) fn may_take(&self, link: &str) -> Duration {
        path::may_take(link, self.size as u64, self.headers())
    }

    /// As [`path::least_ns`].
    pub(crate) fn least_ns(&self, link: &str) -> f64 {
        path::least_ns(link, self.size as u64, self.headers())
    }

    /// Refuses a message that no datagram holds.
    ///
    /// # Errors
    /// How much a datagram holds.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let most = match self.transport {
            Transport::Study => MAX_MESSAGE_BYTES,
            Transport::Socket(Over::Udp) => DATAGRAM_MOST_BYTES,
            Transport::Rudp | Transport::Socket(Over::Tcp | Over::Unix) => return Ok(()),
        };
        if self.size <= most {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "a message is one datagram here, which carries {most} B of it at most (--set \
             size={most}; over=tcp or stack=rudp carry more)"
        )))
    }
}

//! The transports of messages: everything that differs between transports, and not between
//! patterns.

use std::io;
use std::os::fd::OwnedFd;

use crate::progress::POLL_INTERVAL;
use crate::rendezvous::Over;
use costof_os::net::segments::{self, SEGMENT_BYTES};
use costof_os::net::socket::receive_within;

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// UDP: each message is a datagram.
    Udp,
    /// UDP: each message is sent at once as several datagrams of [`SEGMENT_BYTES`], and several are
    /// received at once (Linux 5.0).
    UdpGso,
    /// A Unix stream socket.
    Unix,
}

impl From<Over> for Transport {
    fn from(over: Over) -> Self {
        match over {
            Over::Tcp => Self::Tcp,
            Over::Udp => Self::Udp,
            Over::Unix => Self::Unix,
        }
    }
}

impl Transport {
    /// How the peers find each other.
    pub fn over(self) -> Over {
        match self {
            Self::Tcp => Over::Tcp,
            Self::Udp | Self::UdpGso => Over::Udp,
            Self::Unix => Over::Unix,
        }
    }

    /// Whether messages are sent as datagrams, some of which may be lost.
    #[inline]
    pub fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::UdpGso)
    }

    /// How many datagrams a message of `size` bytes takes; 1 in a stream.
    pub fn datagrams_per_message(self, size: usize) -> usize {
        let datagram = self.datagram_bytes(size);
        datagram.map_or(1, |bytes| size.div_ceil(bytes))
    }

    /// The longest datagram for messages of `size` bytes, in bytes; `None` for a stream.
    pub(super) fn datagram_bytes(self, size: usize) -> Option<usize> {
        match self {
            Self::Udp => Some(size),
            Self::UdpGso => Some(SEGMENT_BYTES),
            Self::Tcp | Self::Unix => None,
        }
    }

    /// A connected socket as both peers use it: receives return after [`POLL_INTERVAL`].
    pub(super) fn configured(self, socket: OwnedFd) -> io::Result<OwnedFd> {
        receive_within(&socket, POLL_INTERVAL)?;
        if self == Self::UdpGso {
            segments::enable(&socket)?;
        }
        Ok(socket)
    }
}

//! The axes of messages between two ends.

use costof_exchange::rendezvous;
use costof_exchange::transport;

costof_model::words! {
    /// What carries messages between two ends.
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
        /// blocked in the kernel
        Block = "block",
        /// polling without pause
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

//! What probes of messages between two ends vary.

use crate::ends::Cpus;
use crate::wake::Wake;
use costof_exchange::conversation;
use costof_exchange::rendezvous;

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

impl From<Wait> for conversation::Wait {
    fn from(wait: Wait) -> conversation::Wait {
        match wait {
            Wait::Block => conversation::Wait::Block,
            Wait::Spin => conversation::Wait::Spin,
        }
    }
}

/// What the two ends of a round trip have to agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    pub(crate) over: Over,
    /// Bytes of a message, and of its answer.
    pub(crate) size: usize,
    pub(crate) wait: Wait,
    pub(crate) cpus: Cpus,
    pub(crate) wake: Wake,
}

impl Exchange {
    /// Whether the ends wait in the kernel.
    pub(crate) fn blocks(&self) -> bool {
        self.wait == Wait::Block
    }

    /// A message, in which no two neighbours are alike.
    pub(crate) fn message(&self) -> Vec<u8> {
        (0..self.size).map(|byte| (byte % 251) as u8).collect()
    }
}

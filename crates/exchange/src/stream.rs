//! A stream of messages from one end to another, over any transport.
//!
//! [`Outgoing`] decides what the sender sends next and when it is done. [`Incoming`] checks and
//! counts what arrives. Both record their progress. None of them does any I/O: a transport is a
//! [`MessageSender`] and a [`MessageReceiver`] that carry the bytes between them.

mod incoming;
mod outgoing;
pub use incoming::Incoming;
pub use outgoing::{Order, Outgoing};

use costof_os::net::socket::dropped_datagrams;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

/// The shortest message with a header: its number, how long the transfer lasts, and bytes to compare.
pub const MIN_MESSAGE_BYTES: usize = 64;
/// Bytes of a message's header: its number, and how long the transfer lasts.
const HEADER_BYTES: usize = 16;

/// The end that sends.
pub trait MessageSender: Send {
    /// Sends until the transfer is over.
    ///
    /// # Errors
    /// The system's, or how the connection ended.
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()>;

    /// What it has counted.
    ///
    /// # Errors
    /// The system's.
    fn statistics(&self) -> io::Result<SenderStatistics>;
}

/// The end that receives.
pub trait MessageReceiver: Send {
    /// Receives until `stop` is set: data that a link loses never arrives.
    ///
    /// # Errors
    /// The system's; `InvalidData` if something arrived that was not sent.
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()>;

    /// Its datagrams; `None` if the transport has none.
    ///
    /// # Errors
    /// The system's.
    fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        Ok(None)
    }

    /// Receives each datagram by itself, for a socket that is to lose some of them.
    ///
    /// # Errors
    /// The system's.
    fn receive_singly(&self) -> io::Result<()> {
        Ok(())
    }

    /// CPU time of the receiving threads other than the caller's, in nanoseconds.
    fn cpu_ns(&self) -> Option<f64> {
        None
    }
}

/// What a sender has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderStatistics {
    /// The share of sent data that was retransmitted, or considered lost.
    pub retransmissions: f64,
    /// Datagrams sent; `None` if the transport has none.
    pub datagrams: Option<u64>,
}

/// Datagrams of a flow, at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Datagrams that arrived, duplicates included.
    pub arrived: u64,
    /// Datagrams for which the receiver's queue had no room.
    pub dropped: u64,
}

impl Datagrams {
    /// Those that arrived at this socket, and those that it dropped.
    pub(crate) fn at(socket: impl AsFd, arrived: u64) -> io::Result<Datagrams> {
        Ok(Datagrams { arrived, dropped: dropped_datagrams(socket)?.into() })
    }
}

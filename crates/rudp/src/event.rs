//! What a connection reports to its caller.

use thiserror::Error;

/// The number that [`send`](crate::Connection::send) gave a message: 0, 1, 2 …
pub type MessageId = u64;

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established; messages can be sent. The first event of every connection
    /// that succeeds.
    Connected,
    /// A message was received completely, and only once.
    Message(Vec<u8>),
    /// The other end has received this message completely. Reported after a message that arrived
    /// together with the acknowledgement.
    Acknowledged(MessageId),
    /// The connection ended before the other end acknowledged this message: it may or may not have
    /// been delivered there.
    Undeliverable(MessageId),
    /// The last event of every connection.
    Closed(Reason),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One end closed it, and each has everything that the other sent.
    Finished,
    /// This end aborted it.
    Aborted,
    /// The other end aborted it, with a reason.
    AbortedByPeer {
        /// What it passed to [`abort`](crate::Connection::abort).
        code: u64,
    },
    /// Nothing was received from the other end for the idle timeout.
    TimedOut,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The connection is not established yet: wait for [`Event::Connected`].
    #[error("the connection is not established yet")]
    NotConnected,
    /// One end closes the connection, or it has ended.
    #[error("the connection is closing or closed")]
    Closed,
    /// The other end does not accept messages of this length.
    #[error("a message of {bytes} bytes: the other end takes up to {most}")]
    TooLong {
        /// The message's length.
        bytes: usize,
        /// The longest message that the other end accepts.
        most: usize,
    },
    /// The queue is full: try again after [`Event::Acknowledged`].
    #[error("the queue is full (queue_bytes, queue_messages): wait for an acknowledgement")]
    Full,
}

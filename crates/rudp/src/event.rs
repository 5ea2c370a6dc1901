//! What a connection reports to its caller.

use thiserror::Error;

/// The number that [`send`](crate::Connection::send) gave a message: 0, 1, 2 …
pub type MessageId = u64;

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Both ends know each other; messages can be sent. The first event of every
    /// connection that comes about.
    Connected,
    /// A message was received, whole and once.
    Message(Vec<u8>),
    /// The other end has all of this message. Reported after a message that arrived with the
    /// acknowledgement.
    Acknowledged(MessageId),
    /// The connection ended before the other end was known to have this message: it may or
    /// may not have been delivered there.
    Undeliverable(MessageId),
    /// The last event of every connection.
    Closed(Reason),
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One end closed it, and each has everything that the other sent.
    Finished,
    /// This end gave it up.
    Aborted,
    /// The other end gave it up, and says why.
    AbortedByPeer {
        /// What it passed to [`abort`](crate::Connection::abort).
        code: u64,
    },
    /// The other end was silent for the idle timeout.
    TimedOut,
}

/// Why a message was not taken to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Not before [`Event::Connected`].
    #[error("the connection is not established yet")]
    NotConnected,
    /// One end closes the connection, or it has ended.
    #[error("the connection is closing or closed")]
    Closed,
    /// The other end takes no message that long.
    #[error("a message of {bytes} bytes: the other end takes up to {most}")]
    TooLong {
        /// The message's length.
        bytes: usize,
        /// The longest that the other end takes.
        most: usize,
    },
    /// Try again after [`Event::Acknowledged`].
    #[error("as much waits to be acknowledged as the configuration allows")]
    Full,
}

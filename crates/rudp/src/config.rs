//! The configuration that the caller chooses.

use std::time::Duration;
use thiserror::Error;

/// The shortest allowed limit on datagrams: a packet with an acknowledgement and some data.
pub(crate) const MIN_DATAGRAM: usize = 200;
/// The longest: what UDP carries over IPv4.
const MAX_DATAGRAM: usize = 65_507;
/// The longest message.
const MAX_MESSAGE: usize = 16 << 20;
/// The largest windows, in bytes and messages.
const MAX_WINDOW: u64 = 1 << 39;
const MAX_MESSAGES: u32 = 1 << 24;

/// The congestion control of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// A fixed number of messages in flight, regardless of the network; 1 is stop-and-wait. For
    /// measurements and private networks.
    Fixed {
        /// The number, at least one.
        messages: u32,
    },
    /// CUBIC (RFC 9438): fair to TCP, but slow if packets are lost at random.
    #[default]
    Cubic,
    /// Estimates the path's rate and compensates for its loss, so that random loss does not starve
    /// it; yields when the round trip grows.
    Rate,
}

/// The behaviour of a connection. Each end chooses its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The congestion control of what this end sends.
    pub control: Control,
    /// Whether messages are delivered here in the order in which the other end sent them. If not,
    /// each is delivered as soon as it is complete.
    pub is_ordered: bool,
    /// The longest datagram to send or accept, in bytes of UDP payload: 200 to 65,507. The path
    /// must carry it; the smaller value of both ends applies.
    pub datagram_bytes: usize,
    /// The longest message to accept, in bytes: up to 16 MiB.
    pub message_bytes: usize,
    /// How many bytes of messages are buffered until the caller takes them; at least the longest
    /// message.
    pub window_bytes: u64,
    /// How many messages are buffered until the caller takes them.
    pub window_messages: u32,
    /// How many bytes of messages may wait to be sent or acknowledged. Beyond that,
    /// [`send`](crate::Connection::send) returns an error.
    pub queue_bytes: u64,
    /// How many messages may wait to be sent or acknowledged.
    pub queue_messages: u32,
    /// After this time without a packet, the other end is considered dead; the smaller value of
    /// both ends applies.
    pub idle_timeout: Duration,
    /// After this time without a packet, this end sends a ping; with `None`, only while something
    /// is unacknowledged.
    pub keep_alive: Option<Duration>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            control: Control::default(),
            is_ordered: true,
            // An Ethernet frame's 1500 bytes minus the headers of IPv6 and UDP.
            datagram_bytes: 1452,
            message_bytes: MAX_MESSAGE,
            window_bytes: 2 * MAX_MESSAGE as u64,
            window_messages: 16_384,
            queue_bytes: 2 * MAX_MESSAGE as u64,
            queue_messages: 16_384,
            idle_timeout: Duration::from_secs(30),
            keep_alive: Some(Duration::from_secs(5)),
        }
    }
}

/// What is wrong with a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Too short for the headers, or longer than UDP carries.
    #[error("datagrams of {0} bytes: choose 200 to 65507")]
    Datagram(usize),
    /// Longer than the longest possible message.
    #[error("messages of up to {0} bytes: choose up to 16777216")]
    Message(usize),
    /// The windows are zero, smaller than the longest message, or unreasonably large.
    #[error(
        "a window of {bytes} bytes and {messages} messages: choose at least the longest message, and at most 2^39 bytes and 2^24 messages"
    )]
    Window {
        /// The window in bytes.
        bytes: u64,
        /// The window in messages.
        messages: u32,
    },
    /// Every connection would time out at once.
    #[error("an idle timeout of {0:?}: choose 1 ms to 49 days")]
    Idle(Duration),
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&self.datagram_bytes) {
            return Err(ConfigError::Datagram(self.datagram_bytes));
        }
        if self.message_bytes > MAX_MESSAGE {
            return Err(ConfigError::Message(self.message_bytes));
        }
        let (bytes, messages) = (self.window_bytes, self.window_messages);
        let holds = self.message_bytes as u64..=MAX_WINDOW;
        if !holds.contains(&bytes) || !(1..=MAX_MESSAGES).contains(&messages) {
            return Err(ConfigError::Window { bytes, messages });
        }
        let idle = self.idle_timeout.as_millis();
        if !(1..=u32::MAX.into()).contains(&idle) {
            return Err(ConfigError::Idle(self.idle_timeout));
        }
        Ok(())
    }
}

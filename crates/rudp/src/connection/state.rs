//! The states of a connection.

use crate::time::Time;
use crate::token::Token;
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The client sends hellos, first without a token, then with it.
    Connecting(Hello),
    /// The server has accepted, and waits for the client's first packet.
    Accepting {
        is_answer_due: bool,
    },
    Open,
    /// This end aborted. It answers every packet that still arrives with the reason.
    Aborting {
        code: u64,
        is_answer_due: bool,
    },
    /// It is over, and the other end may still need acknowledgements.
    Lingering,
    Drained,
}

/// The client's hello, repeated until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) token: Option<Token>,
    pub(super) next_at: Time,
    pub(super) interval: Duration,
    /// How often it was sent with this token.
    pub(super) count: u32,
}

/// Whether the other end knows that everything was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    NotSent,
    Sent,
    Acknowledged,
}

/// What happens to a datagram that would be mostly empty while many are in flight: it waits for the
/// next acknowledgement, but not for long (as Nagle's algorithm does, RFC 896).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nagle {
    Delay,
    DelayUntil(Time),
    Send,
}

/// An acknowledgement of all that was in flight, which arrived with a message. Nothing is lost then, so the
/// answer to the message may leave before the acknowledgement is applied. After that this answer alone
/// is in flight, which any window allows.
#[derive(Clone, Debug)]
pub(super) struct DeferredAck {
    pub(super) received_at: Time,
    pub(super) numbers: RangeInclusive<u64>,
    pub(super) delay: Duration,
    /// Whether one datagram has left since; others then wait.
    pub(super) is_overtaken: bool,
}

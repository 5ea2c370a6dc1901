//! What the ends send each other: a line with the token, then JSON, one message a line.

use super::Refusal;
use super::workload::Asked;
use costof_model::failure::Failure;
use costof_model::protocol::{Offers, Report};
use serde::{Deserialize, Serialize};

/// The longest lines that are accepted of a sender: the first one, and the others.
pub(super) const FIRST_MOST_BYTES: usize = 512;
pub(super) const LINE_MOST_BYTES: usize = 64 << 10;
/// And of a receiver: a report may have a histogram.
pub(super) const REPLY_MOST_BYTES: usize = 4 << 20;

/// What the first line begins with. A newer costof sends another number.
const MAGIC: &str = "costof send 1 ";

/// The first line of a sender.
pub(super) fn first_line(token: Option<&str>) -> String {
    format!("{MAGIC}{}\n", token.unwrap_or_default())
}

/// The token in a first line; none where it is not from a costof.
pub(super) fn token_of(first: &[u8]) -> Option<&[u8]> {
    first.strip_prefix(MAGIC.as_bytes())
}

/// Where an end is, so that both know whether they are on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The machine's boot.
    pub(super) boot: Option<String>,
    /// The network namespace, as the kernel names it.
    pub(super) namespace: Option<String>,
}

/// What a sender sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Request {
    /// The first message.
    Will {
        /// What it will send.
        asked: Asked,
        /// Where it is.
        place: Place,
    },
    /// It has sent all.
    Done {
        /// So many messages.
        messages: u64,
    },
    /// It could not.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What a receiver sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Reply {
    /// It does not accept that, or not from this sender.
    Refused {
        /// Why, and the way out.
        reason: String,
        /// Whether the request is wrong; else it may succeed later.
        wrong: bool,
    },
    /// Begin.
    Begin {
        /// Where its role can be called.
        offers: Offers,
        /// What each flow sends first.
        token: String,
        /// Where it is.
        place: Place,
    },
    /// Stop sending.
    End,
    /// What arrived.
    Arrived {
        /// What it measured.
        report: Result<Report, Failure>,
        /// Payload, in bytes.
        bytes: u64,
    },
}

impl Reply {
    /// Why a sender is not served.
    pub(super) fn refused(refusal: &Refusal) -> Reply {
        let (Refusal::Wrong(reason) | Refusal::Nothing(reason)) = refusal;
        Reply::Refused {
            reason: reason.clone(),
            wrong: matches!(refusal, Refusal::Wrong(_)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_costof_has_a_token() {
        assert_eq!(token_of(b"costof send 1 abc"), Some(&b"abc"[..]));
        assert_eq!(
            token_of(first_line(None).trim_end_matches('\n').as_bytes()),
            Some(&b""[..])
        );
        for stranger in [&b"GET / HTTP/1.1\r"[..], b"", b"costof send 2 abc"] {
            assert_eq!(token_of(stranger), None);
        }
    }
}

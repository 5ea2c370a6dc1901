//! What the ends send each other: the sender a line that names the protocol, the receiver a challenge, the
//! sender its answer, which proves that it has the token; then JSON, one message a line.
//!
//! The token itself is never sent. The answer is the HMAC of the challenge with the token as its key, and
//! each challenge is used once, so that an answer that somebody has seen is of no use.
//!
//! Source: RFC 2104, HMAC; FIPS 180-4, SHA-256.

use super::Refusal;
use super::workload::Asked;
use costof_model::failure::Failure;
use costof_model::protocol::{Offers, Report};
use hmac_sha256::HMAC;
use serde::{Deserialize, Serialize};

/// The longest lines that are accepted of a sender: the first one, and the others.
pub(super) const FIRST_MOST_BYTES: usize = 512;
pub(super) const LINE_MOST_BYTES: usize = 64 << 10;
/// And of a receiver: a report may have a histogram.
pub(super) const REPLY_MOST_BYTES: usize = 4 << 20;

/// The first line of a sender. A newer costof sends another number.
pub(super) const FIRST_LINE: &str = "costof send 2";
/// What the first line of every release begins with.
pub(super) const MAGIC: &str = "costof send ";
/// What a challenge begins with; a number that is used once follows it.
pub(super) const CHALLENGE: &str = "costof challenge ";

/// The answer to a challenge: 64 hexadecimal digits; nothing where the sender has no token.
pub(super) fn answer(token: Option<&str>, challenge: &str) -> String {
    let Some(token) = token else {
        return String::new();
    };
    let bytes = HMAC::mac(challenge, token);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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

    /// RFC 4231, test case 2.
    #[test]
    fn an_answer_is_the_hmac_of_the_challenge() {
        let answer = answer(Some("Jefe"), "what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(answer, expected);
    }

    #[test]
    fn an_answer_is_of_one_token_and_one_challenge() {
        let own = answer(Some("token"), "costof challenge 1");
        for (token, challenge) in [
            (Some("token"), "costof challenge 2"),
            (Some("other"), "costof challenge 1"),
            (None, "costof challenge 1"),
        ] {
            assert_ne!(answer(token, challenge), own);
        }
    }
}

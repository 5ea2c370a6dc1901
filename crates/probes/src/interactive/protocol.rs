//! The messages between the ends. The sender sends a line that names the protocol, the receiver a
//! challenge, and the sender its answer, which proves that it has the token. Then follows JSON, one
//! message per line.
//!
//! The token itself is never sent. The answer is the HMAC of the challenge with the token as its
//! key. Each challenge is used once, so an overheard answer is useless.
//!
//! Source: RFC 2104, HMAC; FIPS 180-4, SHA-256.

use super::Refusal;
use super::workload::Asked;
use costof_model::failure::Failure;
use costof_model::protocol::{Offers, Report};
use hmac_sha256::HMAC;
use serde::{Deserialize, Serialize};

/// The longest lines that are accepted from a sender: the first one, and the others.
pub(super) const FIRST_MAX_BYTES: usize = 512;
pub(super) const LINE_MAX_BYTES: usize = 64 << 10;
/// The longest line from a receiver: a report may have a histogram.
pub(super) const REPLY_MAX_BYTES: usize = 4 << 20;

/// The first line of a sender. A newer costof sends another number.
pub(super) const FIRST_LINE: &str = "costof send 2";
/// The beginning of the first line, for every release.
pub(super) const MAGIC: &str = "costof send ";
/// The beginning of a challenge, followed by a number that is used once.
pub(super) const CHALLENGE: &str = "costof challenge ";

/// The answer to a challenge: 64 hexadecimal digits; nothing where the sender has no token.
pub(super) fn answer(token: Option<&str>, challenge: &str) -> String {
    let Some(token) = token else {
        return String::new();
    };
    let bytes = HMAC::mac(challenge, token);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where an end runs, so that both know whether they are on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The machine's boot.
    pub(super) boot: Option<String>,
    /// The network namespace, as the kernel names it.
    pub(super) namespace: Option<String>,
    /// The link of `costof link` that it belongs to, seen from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
}

/// Messages of a sender.
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
    /// All messages were sent.
    Done {
        /// How many.
        messages: u64,
    },
    /// Sending failed.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Messages of a receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Reply {
    /// The request is not accepted, or not from this sender.
    Refused {
        /// The reason, and what to do about it.
        reason: String,
        /// Whether the request is wrong; otherwise it may succeed later.
        wrong: bool,
    },
    /// Begin.
    Begin {
        /// Where its role listens.
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
        Reply::Refused { reason: reason.clone(), wrong: matches!(refusal, Refusal::Wrong(_)) }
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

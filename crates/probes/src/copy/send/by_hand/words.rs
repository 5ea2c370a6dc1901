//! What the ends say to each other: a line with the token, then JSON, one message a line.

use costof_model::axis::Axes;
use costof_model::failure::Failure;
use costof_model::protocol::{Offers, Report};
use serde::{Deserialize, Serialize};

/// The longest lines that are accepted of who calls: the first one, and the others.
pub(super) const FIRST_MOST_BYTES: usize = 512;
pub(super) const LINE_MOST_BYTES: usize = 64 << 10;
/// And the longest answer: a report may have a histogram.
pub(super) const ANSWER_MOST_BYTES: usize = 4 << 20;

/// What the first line begins with. A newer costof says another number.
const MAGIC: &str = "costof send 1 ";

/// The first line of who calls.
pub(super) fn first(token: Option<&str>) -> String {
    format!("{MAGIC}{}\n", token.unwrap_or_default())
}

/// The token in a first line; none of what is no costof.
pub(super) fn token(first: &[u8]) -> Option<&[u8]> {
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

/// What the sender says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Said {
    /// What it will send.
    Will {
        /// The version of the probe's method.
        method: u32,
        /// What.
        axes: Axes,
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

/// What the receiver answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum Answer {
    /// It does not take that, or not from this one.
    Refused {
        /// Why, and the way out.
        reason: String,
        /// Whether what was asked is wrong, or only that it was now.
        wrong: bool,
    },
    /// Begin.
    Begin {
        /// Where its role can be called.
        offers: Offers,
        /// What each flow says first.
        token: String,
        /// Where it is.
        place: Place,
    },
    /// Come to an end.
    End,
    /// What arrived.
    Arrived {
        /// What it measured.
        report: Result<Report, Failure>,
        /// In bytes.
        bytes: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_costof_has_a_token() {
        assert_eq!(token(b"costof send 1 abc"), Some(&b"abc"[..]));
        assert_eq!(
            token(first(None).trim_end_matches('\n').as_bytes()),
            Some(&b""[..])
        );
        for stranger in [&b"GET / HTTP/1.1\r"[..], b"", b"costof send 2 abc"] {
            assert_eq!(token(stranger), None);
        }
    }
}

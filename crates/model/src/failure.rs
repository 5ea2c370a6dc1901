//! Why a point, or a launch of it, has no number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// This machine, kernel or permission does not offer what is asked.
    Unsupported,
    /// The worker ended before it answered.
    Crashed,
    /// The worker did not answer in time and was ended.
    TimedOut,
    /// Something else went wrong; the reason says what.
    Error,
}

/// Why there is no number: a row of the run file, not an exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What was tried, on what, why it failed, and the way out where there is one.
    pub reason: String,
}

impl Failure {
    /// What is asked is not to be had here.
    pub fn unsupported(reason: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Unsupported,
            reason: reason.into(),
        }
    }

    /// Something went wrong.
    pub fn error(reason: impl Into<String>) -> Failure {
        Failure {
            kind: FailureKind::Error,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FailureKind::Unsupported => "unsupported",
            FailureKind::Crashed => "crashed",
            FailureKind::TimedOut => "timed out",
            FailureKind::Error => "error",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.reason)
    }
}

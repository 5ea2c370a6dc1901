//! Why a point, or a launch of it, has no number.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// This machine, its kernel or the permissions do not allow it.
    #[error("unsupported")]
    Unsupported,
    /// The worker ended before it answered.
    #[error("crashed")]
    Crashed,
    /// The worker did not answer in time and was killed.
    #[error("timed out")]
    TimedOut,
    /// Something else went wrong; the reason says what.
    #[error("error")]
    Error,
}

/// Why there is no number: a row of the run file, not an exit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Error)]
#[error("{kind}: {reason}")]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    /// What was tried, on what, why it failed, and what to do about it, if anything.
    pub reason: String,
}

impl Failure {
    /// This machine cannot do it.
    pub fn unsupported(reason: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Unsupported, reason: reason.into() }
    }

    /// Something failed.
    pub fn error(reason: impl Into<String>) -> Failure {
        Failure { kind: FailureKind::Error, reason: reason.into() }
    }
}

/// Returns from the function with a failure and its formatted reason.
#[macro_export]
macro_rules! fail {
    ($($format:tt)+) => {
        return Err($crate::failure::Failure::error(format!($($format)+)))
    };
}

/// Returns from the function with a failure and its formatted reason, unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($format:tt)+) => {
        if !$condition {
            $crate::fail!($($format)+);
        }
    };
}

/// Returns from the function with an "unsupported" failure and its formatted reason: this machine
/// cannot do it.
#[macro_export]
macro_rules! unsupported {
    ($($format:tt)+) => {
        return Err($crate::failure::Failure::unsupported(format!($($format)+)))
    };
}

/// Turns an error of the system into a failure.
pub trait OrFailure<T> {
    /// A failure with the reason `what: error`.
    ///
    /// # Errors
    /// The failure.
    fn or_fail(self, what: impl fmt::Display) -> Result<T, Failure>;

    /// An "unsupported" failure with the reason `what: error`.
    ///
    /// # Errors
    /// The failure.
    fn or_unsupported(self, what: impl fmt::Display) -> Result<T, Failure>;

    /// An "unsupported" failure with the reason `what: error (hint)`.
    ///
    /// # Errors
    /// The failure.
    fn or_unsupported_hint(
        self,
        what: impl fmt::Display,
        hint: impl fmt::Display,
    ) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> OrFailure<T> for Result<T, E> {
    fn or_fail(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::error(format!("{what}: {error}")))
    }

    fn or_unsupported(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::unsupported(format!("{what}: {error}")))
    }

    fn or_unsupported_hint(
        self,
        what: impl fmt::Display,
        hint: impl fmt::Display,
    ) -> Result<T, Failure> {
        self.map_err(|error| Failure::unsupported(format!("{what}: {error} ({hint})")))
    }
}

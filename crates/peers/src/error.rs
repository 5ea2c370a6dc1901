//! Errors that end a comparison before its verdict.

use std::fmt::Display;

/// Why something has no number.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Something is missing or failed. The text says what, and what to do about it.
    #[error("{0}")]
    Failed(String),
    /// The user interrupted.
    #[error("interrupted; everything that it had started has ended")]
    Interrupted,
}

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds to an error of another crate what could not be done.
pub trait OrCannot<T> {
    /// The value, or `cannot ACTION: ERROR`.
    fn or_cannot(self, action: impl Display) -> Result<T>;
}

impl<T, E: Display> OrCannot<T> for std::result::Result<T, E> {
    fn or_cannot(self, action: impl Display) -> Result<T> {
        self.map_err(|error| failed(format!("cannot {action}: {error}")))
    }
}

/// An error with this text.
pub fn failed(text: impl ToString) -> Error {
    Error::Failed(text.to_string())
}

//! What ends a comparison before its verdict.

use std::fmt::Display;

/// Why something has no number.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Something is missing or went wrong: what, and the way out.
    #[error("{0}")]
    Failed(String),
    /// The user ended it.
    #[error("interrupted; everything that it had started has ended")]
    Interrupted,
}

/// What can go wrong here.
pub type Result<T> = std::result::Result<T, Error>;

/// Names what could not be done in the error of another crate.
pub trait OrCannot<T> {
    /// The value, or `cannot ACTION: ERROR`.
    ///
    /// # Errors
    /// There is no value.
    fn or_cannot(self, action: impl Display) -> Result<T>;
}

impl<T, E: Display> OrCannot<T> for std::result::Result<T, E> {
    fn or_cannot(self, action: impl Display) -> Result<T> {
        self.map_err(|error| failed(format!("cannot {action}: {error}")))
    }
}

/// `text` as an error.
pub fn failed(text: impl ToString) -> Error {
    Error::Failed(text.to_string())
}

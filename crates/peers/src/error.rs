//! What ends a comparison before its verdict.

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

/// `text` as an error.
pub fn failed(text: impl ToString) -> Error {
    Error::Failed(text.to_string())
}

//! What ends a command, and its exit code.

use std::io;

/// Why a command ended without doing what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command or an input is wrong: exit code 2.
    #[error("{0}")]
    Wrong(String),
    /// Nothing could be measured: exit code 3.
    #[error("{0}")]
    Nothing(String),
    /// The user interrupted it: exit code 130.
    #[error("interrupted")]
    Interrupted,
    /// The output could not be written: exit code 2.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Wrong(_) | Error::Output(_) => 2,
            Error::Nothing(_) => 3,
            Error::Interrupted => 130,
        }
    }
}

/// `text` as the error of a wrong command or input.
pub(crate) fn wrong(text: impl ToString) -> Error {
    Error::Wrong(text.to_string())
}

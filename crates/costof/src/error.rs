//! Errors that end a command, and their exit codes.

use crate::cli::gate::Undecided;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// How a command ends: with an exit code, or with an error that is printed once.
pub(crate) type Done = Result<ExitCode, Error>;

/// Why a command ended without success.
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

/// The exit code of an interrupted command.
pub(crate) const INTERRUPTED: u8 = 130;

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Wrong(_) | Error::Output(_) => 2,
            Error::Nothing(_) => 3,
            Error::Interrupted => INTERRUPTED,
        }
    }
}

/// The exit code of a command that checks: 1 if a check failed, and 3 if one could not be decided, unless the user lets
/// that pass.
pub(crate) fn gated(has_failed: bool, is_undecided: bool, undecided: Undecided) -> ExitCode {
    ExitCode::from(match (has_failed, is_undecided) {
        (true, _) => 1,
        (false, true) if undecided == Undecided::Fail => 3,
        (false, _) => 0,
    })
}

/// The error for a wrong command or input, with this text.
pub(crate) fn wrong(text: impl ToString) -> Error {
    Error::Wrong(text.to_string())
}

/// Returns an error for a wrong command or input, formatted like `format!`.
macro_rules! bail {
    ($($text:tt)*) => {
        return Err($crate::error::Error::Wrong(format!($($text)*)))
    };
}
pub(crate) use bail;

/// Adds to an error the operation that failed, and its object.
pub(crate) trait Context<T> {
    /// `cannot …: why`, as an error for a wrong command or input.
    fn context(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|error| wrong(format_args!("{what}: {error}")))
    }
}

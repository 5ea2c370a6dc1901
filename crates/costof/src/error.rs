//! Errors that end a command, and their exit codes.

use crate::cli::gate::{Gate, Required, Undecided};
use crate::files;
use crate::plan::request::infos;
use crate::record::Table;
use costof_lab::worker::Lost;
use costof_model::plan::select;
use costof_report::check::{self, Rules, Suite, Word, junit};
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// What a part of a command gives, or why the command ends without success.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// How a command ends: with an exit code, or with an error that is printed once.
pub(crate) type Done = Result<ExitCode>;

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

impl From<Lost> for Error {
    fn from(lost: Lost) -> Error {
        match lost {
            Lost::Failed(_, failure) => Error::Nothing(failure.reason),
            Lost::Interrupted => Error::Interrupted,
        }
    }
}

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Wrong(_) | Error::Output(_) => 2,
            Error::Nothing(_) => 3,
            Error::Interrupted => INTERRUPTED,
        }
    }
}

/// What must be decided, by these options and the probes of this table.
///
/// # Errors
/// There is no such probe.
pub(crate) fn rules(gate: &Gate, required: &Required, table: Table) -> Result<Rules> {
    files::refuse_standard_output(gate.junit.as_deref(), "--junit names a file")?;
    let infos = infos(table);
    let required = required.require.iter().map(|pattern| {
        let probes = select(&infos, pattern)?.into_iter().map(|info| info.id.clone());
        Ok(check::Required { name: pattern.clone().into(), probes: probes.collect() })
    });
    let required = required.collect::<Result<Vec<_>, String>>().context("--require")?;
    Ok(Rules { undecided_passes: gate.undecided == Undecided::Pass, required })
}

/// Ends a command that checks: with 1 if something failed, and with 3 if something that must be decided is not. What was
/// checked is written for a pipeline, if the user wants that.
pub(crate) fn gated(gate: &Gate, suites: &[Suite]) -> Done {
    if let Some(file) = &gate.junit {
        files::write(file, &junit(suites))?;
    }
    let worst = suites.iter().map(Suite::word).max();
    Ok(ExitCode::from(match worst {
        Some(Word::Fail) => 1,
        Some(Word::CannotTell) => 3,
        Some(Word::Pass) | None => 0,
    }))
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
    fn context(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T> {
        self.map_err(|error| wrong(format_args!("{what}: {error}")))
    }
}

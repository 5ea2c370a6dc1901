//! The machine that is measured, as one of its workers describes it.

use crate::error::Error;
use costof_lab::host::WorkerCommand;
use costof_lab::launch::Place;
use costof_lab::worker::{NoAnswer, Worker};
use costof_model::protocol::{Answer, Command, Description};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Asks a worker on this machine to describe itself.
pub(crate) fn describe(
    command: &WorkerCommand,
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<Description, Error> {
    let answer = Worker::start(&Place::LOCAL, command, limit, interrupted)
        .and_then(|mut worker| worker.ask(&Command::Describe, limit, interrupted));
    match answer {
        Ok(Answer::Description(description)) => Ok(*description),
        Ok(other) => Err(Error::Nothing(format!(
            "this machine's worker answered {other:?} where it should describe itself"
        ))),
        Err(NoAnswer::Failed(failure)) => Err(Error::Nothing(failure.reason)),
        Err(NoAnswer::Interrupted) => Err(Error::Interrupted),
    }
}

/// The exit code of an interrupted command.
pub(crate) fn interrupted_code() -> ExitCode {
    ExitCode::from(130)
}

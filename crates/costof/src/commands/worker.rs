//! `costof worker`: measure what a controller asks for.

use crate::error::Error;
use costof_measure::probe::Probe;
use costof_measure::worker;
use std::process::{Command, ExitCode};

pub(crate) fn run(
    table: &'static [&'static Probe],
    end_with_parent: bool,
) -> Result<ExitCode, Error> {
    if end_with_parent {
        worker::work(table, env!("CARGO_PKG_VERSION"))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Another process of the same executable, even where its file was replaced.
    let mut guarded = Command::new("/proc/self/exe");
    let code = worker::guard(guarded.args(["worker", "--end-with-parent"]))?;
    Ok(ExitCode::from(code))
}

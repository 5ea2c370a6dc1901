//! `costof worker`: measure what a controller asks for.

use crate::error::Error;
use costof_measure::probe::Probe;
use std::process::ExitCode;

pub(crate) fn run(table: &'static [&'static Probe]) -> Result<ExitCode, Error> {
    costof_measure::worker::work(table, env!("CARGO_PKG_VERSION"))?;
    Ok(ExitCode::SUCCESS)
}

//! `costof hold`: make a link and keep it for as long as the controller wants it.

use crate::error::Error;
use costof_model::link::Link;
use std::process::ExitCode;

pub(crate) fn run(link: &Link, named: bool) -> Result<ExitCode, Error> {
    match named {
        true => costof_lab::link::hold_named(link)?,
        false => costof_lab::link::hold(link)?,
    }
    Ok(ExitCode::SUCCESS)
}

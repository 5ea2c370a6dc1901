//! `costof completions`: what a shell needs to complete the command line.

use crate::cli::{Cli, CompletionsOptions};
use crate::error::Error;
use clap::CommandFactory;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) fn run(options: &CompletionsOptions) -> Result<ExitCode, Error> {
    // clap writes to memory first: it would panic on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "costof", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

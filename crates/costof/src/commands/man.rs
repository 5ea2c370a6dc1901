//! `costof man`: the manual page.

use crate::cli::Cli;
use crate::error::Error;
use clap::CommandFactory;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) fn run() -> Result<ExitCode, Error> {
    let mut page = Vec::new();
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = sub.get_name().to_uppercase();
        writeln!(page, ".SH \"COSTOF {name}\"")?;
        let man = clap_mangen::Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    io::stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

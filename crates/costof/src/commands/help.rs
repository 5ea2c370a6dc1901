//! `costof man` and `costof completions`: the command line, for readers and shells.

use crate::cli;
use crate::error::Done;
use crate::terminal::print;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::Write;

pub(crate) fn man() -> Done {
    let mut page = Vec::new();
    let mut command = cli::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let name = sub.get_name().to_uppercase();
        writeln!(page, ".SH \"COSTOF {name}\"")?;
        let man = Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    print(page)
}

pub(crate) fn completions(shell: Shell) -> Done {
    // clap writes to memory first: it would panic on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "costof", &mut script);
    print(script)
}

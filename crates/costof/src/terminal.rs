//! Standard output, standard error and Ctrl-C: writes results, progress, warnings and errors, and receives
//! interrupts.

use crate::cli::printing::Printing;
use crate::error::{Context, Done, Error};
use anstream::AutoStream;
use clap::ColorChoice;
use costof_report::style::Style;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a line. A missing reader is not an error.
pub(crate) fn log(text: impl Display) {
    let _ = writeln!(io::stderr(), "costof: {text}");
}

/// Writes all output of a command, and ends it.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Done {
    let mut output = io::stdout().lock();
    output.write_all(text.as_ref())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// How to print a run on standard output: according to its terminal, if it is one. If `COLUMNS` is set, it is
/// the width.
pub(crate) fn style(printing: &Printing) -> Style {
    let output = io::stdout();
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let of_terminal = || terminal_size::terminal_size_of(&output).map(|(width, _)| width.0.into());
    let is_terminal = output.is_terminal();
    let width = is_terminal.then(|| columns().or_else(of_terminal).unwrap_or(80));
    let colour = match printing.color {
        ColorChoice::Auto => AutoStream::choice(&output) != anstream::ColorChoice::Never,
        chosen => chosen == ColorChoice::Always,
    };
    Style {
        width,
        colour,
        ids: printing.ids,
        notes: printing.notes,
    }
}

/// A flag that Ctrl-C and a termination signal set. A worker does not see them: it leads a process
/// group of its own.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot watch for interrupts")?;
    Ok(interrupted)
}

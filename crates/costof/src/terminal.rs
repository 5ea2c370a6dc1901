//! Standard output, standard error and Ctrl-C: writes results, progress, warnings and errors, and receives
//! interrupts.

use crate::cli::printing::Printing;
use crate::error::{Context, Done, Error, INTERRUPTED};
use anstream::AutoStream;
use clap::ColorChoice;
use costof_model::harmless;
use costof_report::style::Style;
use costof_report::text::COLUMNS;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a message, as wide as the terminal, or else as one line. A missing reader is not an error. Text in it
/// may come from anywhere.
pub(crate) fn log(text: impl Display) {
    let mut output = io::stderr();
    let text = harmless::lines(&format!("costof: {text}"));
    let width = width(&output);
    let style = Style {
        width,
        ..Style::default()
    };
    // A line that fits keeps its blanks, which may be those of a table.
    let lines = text.lines().map(|line| match line.chars().count() {
        length if length > width.unwrap_or(usize::MAX) => style.prose(line),
        _ => format!("{line}\n"),
    });
    let _ = output.write_all(lines.collect::<String>().as_bytes());
}

/// The width of an output that is a terminal: `COLUMNS` if that is set.
fn width(output: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let of_terminal = || terminal_size::terminal_size_of(output).map(|(width, _)| width.0.into());
    let is_terminal = output.is_terminal();
    is_terminal.then(|| columns().or_else(of_terminal).unwrap_or(80))
}

/// The width of standard output, if it is a terminal.
pub(crate) fn terminal_columns() -> Option<usize> {
    width(&io::stdout())
}

/// The width of prose on standard output.
pub(crate) fn prose_columns() -> usize {
    COLUMNS.min(line_columns())
}

/// The width of what another program may read line by line, on standard output.
pub(crate) fn line_columns() -> usize {
    terminal_columns().unwrap_or(usize::MAX)
}

/// The name of a file or host as it is shown: it may come from anywhere.
pub(crate) fn printable(name: impl Display) -> String {
    harmless::text(&name.to_string())
}

/// A path as a word of a command that the user may copy into a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match path.contains(|c| !is_plain(c)) {
        true => format!("'{}'", path.replace('\'', r"'\''")),
        false => path,
    }
}

/// Writes all output of a command, and ends it. Text in it, such as the name of a file, may come from anywhere.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Done {
    let text = harmless::lines(&String::from_utf8_lossy(text.as_ref()));
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// How to print a run on standard output: according to its terminal, if it is one.
pub(crate) fn style(printing: &Printing) -> Style {
    let colour = match printing.color {
        ColorChoice::Auto => AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
        chosen => chosen == ColorChoice::Always,
    };
    Style {
        width: terminal_columns(),
        colour,
        ids: printing.ids,
        notes: printing.notes,
    }
}

/// The C library of GNU starts no thread if clone3(2) fails by another error than ENOSYS.
const NO_THREAD: &str = "cannot start a thread that watches for interrupts (pids.max and ulimit -u limit \
    threads; a seccomp filter that refuses clone3 by EPERM forbids them, except to costof's static binary)";

/// A flag that Ctrl-C and a termination signal set. A worker does not see them: it leads a process
/// group of its own.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context(NO_THREAD)?;
    Ok(interrupted)
}

/// The same; a second signal ends costof at once, for a command that leaves nothing behind.
pub(crate) fn watch_interrupts_once() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    };
    ctrlc::set_handler(handler).context(NO_THREAD)?;
    Ok(interrupted)
}

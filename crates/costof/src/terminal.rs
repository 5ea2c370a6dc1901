//! Standard output, standard error and Ctrl-C: writes results, progress, warnings and errors, and receives
//! interrupts.

use crate::cli::printing::Printing;
use crate::error::{Context, Done, INTERRUPTED, Result};
use crate::files;
use anstream::AutoStream;
use clap::ColorChoice;
use costof_model::harmless;
use costof_os::process;
use costof_os::process::command::end_adopted;
use costof_report::style::Style;
use costof_report::text::COLUMNS;
use std::fmt::Display;
use std::fs;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages that nobody has read yet.
static UNREAD: Mutex<String> = Mutex::new(String::new());
/// At most this many of their bytes are kept.
const UNREAD_MAX_BYTES: usize = 1 << 20;

/// Writes a message, as wide as the terminal, or else as one line. A missing reader is not an error, and one that
/// reads nothing is not waited for while a machine may be held. Text in it may come from anywhere.
pub(crate) fn log(text: impl Display) {
    let output = io::stderr();
    let text = harmless::lines(&format!("costof: {text}"));
    let width = width(&output);
    let style = Style { width, ..Style::default() };
    // A line that fits keeps its blanks, which may be those of a table.
    let lines = text.lines().map(|line| match line.chars().count() {
        length if length > width.unwrap_or(usize::MAX) => style.prose(line),
        _ => format!("{line}\n"),
    });
    let lines: String = lines.collect();
    let mut unread = UNREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if unread.len() < UNREAD_MAX_BYTES {
        unread.push_str(&lines);
    }
    drop(unread);
    if takes_messages() {
        write_messages();
    }
}

/// Whether messages can be written without waiting for their reader, or there is time to wait.
pub(crate) fn takes_messages() -> bool {
    !IS_WORKING.load(Ordering::Relaxed) || process::can_write(&io::stderr())
}

/// Writes the messages that nobody has read yet, as many as [`takes_messages`] allows.
pub(crate) fn write_messages() {
    let unread = std::mem::take(&mut *UNREAD.lock().unwrap_or_else(PoisonError::into_inner));
    let mut rest = unread.as_str();
    while let Some(line) = rest.split_inclusive('\n').next().filter(|_| takes_messages()) {
        let _ = io::stderr().write_all(line.as_bytes());
        rest = &rest[line.len()..];
    }
    let mut unread = UNREAD.lock().unwrap_or_else(PoisonError::into_inner);
    unread.insert_str(0, rest);
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

/// Standard output, for as long as somebody reads it: the exit code of a check is the same for `| head`.
pub(crate) fn output() -> impl Write {
    Unread(io::stdout().lock())
}

struct Unread(StdoutLock<'static>);

impl Write for Unread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        other => other,
    }
}

/// Writes all output of a command, and ends it. Text in it, such as the name of a file, may come from anywhere.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Done {
    let text = harmless::lines(&String::from_utf8_lossy(text.as_ref()));
    let mut output = output();
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
    Style { width: terminal_columns(), colour, ids: printing.ids, notes: printing.notes }
}

/// The C library of GNU starts no thread if clone3(2) fails by another error than ENOSYS.
const NO_THREAD: &str = "cannot start a thread that watches for interrupts (pids.max and ulimit -u limit \
    threads; a seccomp filter that refuses clone3 by EPERM forbids them, except to costof's static binary)";

/// Whether there is something to end in order, so that the first signal only asks for it.
static IS_WORKING: AtomicBool = AtomicBool::new(false);

/// Says whether something is under way that a signal should end in order. If not, only output is left, whose reader
/// may never read it: then the first signal ends costof.
pub(crate) fn set_working(is_working: bool) {
    IS_WORKING.store(is_working, Ordering::Relaxed);
    if !is_working {
        write_messages();
    }
}

/// A flag that Ctrl-C and a termination signal set; a second one ends costof at once. A worker does not see them:
/// it leads a process group of its own.
pub(crate) fn watch_interrupts() -> Result<Arc<AtomicBool>> {
    IS_WORKING.store(true, Ordering::Relaxed);
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) || !IS_WORKING.load(Ordering::Relaxed) {
            end_at_once();
        }
    };
    on_signals(handler).context(NO_THREAD)?;
    Ok(interrupted)
}

/// Ends a command in order at each signal, unless it watches for them itself.
pub(crate) fn end_on_signals() {
    let _ = on_signals(|| end_at_once());
}

/// Calls a handler at each INT, TERM and HUP, except HUP under nohup(1). Only the first call has an effect.
fn on_signals(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    let has_nohup = process::ignores_hangup();
    ctrlc::set_handler(handler)?;
    if has_nohup {
        process::ignore_hangup();
    }
    Ok(())
}

/// Ends costof because of a signal, without the file that it writes, and the commands that it measures.
fn end_at_once() -> ! {
    end_adopted();
    // Until the end, so that no other is begun.
    let unfinished = files::unfinished();
    if let Some(path) = &*unfinished {
        let _ = fs::remove_file(path);
    }
    std::process::exit(INTERRUPTED.into());
}

//! Standard output, standard error and Ctrl-C: results, progress, warnings and errors go out, interrupts
//! come in.

use crate::error::{Context, Done, Error};
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a line. Nobody may be there to read it, which is no fault.
pub(crate) fn log(text: impl Display) {
    let _ = writeln!(io::stderr(), "costof: {text}");
}

/// Writes all that a command prints, which is then done.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Done {
    let mut output = io::stdout().lock();
    output.write_all(text.as_ref())?;
    output.flush()?;
    Ok(ExitCode::SUCCESS)
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

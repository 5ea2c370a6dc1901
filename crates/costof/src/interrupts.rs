//! Ctrl-C and a termination signal: whoever measures hears of them and comes to an orderly end.

use crate::error::{Error, wrong};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that they set. A worker does not see them: it leads a process group
/// of its own.
pub(crate) fn watch() -> Result<Arc<AtomicBool>, Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .map_err(|error| wrong(format!("cannot watch for interrupts: {error}")))?;
    Ok(interrupted)
}

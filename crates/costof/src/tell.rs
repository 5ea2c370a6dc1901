//! What people are told on standard error: progress, warnings, errors.

use std::fmt::Display;
use std::io::{self, Write};

/// Says something. Nobody may be there to read it, which is no fault.
pub(crate) fn tell(text: impl Display) {
    let _ = writeln!(io::stderr(), "costof: {text}");
}

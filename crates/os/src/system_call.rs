//! Converts the return values of system calls to results.

use std::fmt;
use std::io;

/// The return value of a system call; if it is below zero, `errno` holds the reason.
#[inline]
pub(crate) fn check<T: PartialOrd + From<i8>>(answer: T) -> io::Result<T> {
    if answer < T::from(0) {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

/// Repeats a system call until no signal interrupts it.
#[inline]
pub(crate) fn retry<T: PartialOrd + From<i8>>(mut call: impl FnMut() -> T) -> io::Result<T> {
    loop {
        match check(call()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// The error for an invalid argument, in words.
#[cold]
pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// The error for something that this machine, kernel or permission does not offer, in words.
#[cold]
pub fn unsupported(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text.into())
}

/// The same kind of error, with the text `what: error`.
#[cold]
pub(crate) fn with_context(what: impl fmt::Display, error: impl Into<io::Error>) -> io::Error {
    let error = error.into();
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

//! The page as a browser sees it, and what no run file can make of it.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod access;
mod browser;
mod hostile;
mod large;
mod made;

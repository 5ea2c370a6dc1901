//! A role that this program plays where the bench starts it again: one end of what is compared.

use std::error::Error;
use std::process::ExitCode;

/// The result of a role, or why it could not be played.
pub(crate) type RoleResult<T> = Result<T, Box<dyn Error>>;

/// Runs the role that these words of the command line name.
pub(crate) fn run(words: &[String], role: impl FnOnce(&[&str]) -> RoleResult<()>) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match role(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("costof-bench, {}: {error}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

//! A part that the bench's own program plays where it is started again: an end of what is compared.

use std::error::Error;
use std::process::ExitCode;

/// What a part came to, or why it could not be played.
pub(crate) type Played<T> = Result<T, Box<dyn Error>>;

/// Plays the part that these words say, to its end.
pub(crate) fn play(words: &[String], part: impl FnOnce(&[&str]) -> Played<()>) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match part(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("costof-bench, {}: {error}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

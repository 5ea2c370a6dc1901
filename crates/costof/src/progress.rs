//! What is shown while runs work, on standard error.

use crate::tell::tell;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, PoisonError};

/// A bar that shows how far all runs of a command are, where somebody watches.
pub(crate) struct Display {
    bar: ProgressBar,
    /// How many launches each run expects.
    expected: Mutex<Vec<u64>>,
}

/// One run's part of the bar.
pub(crate) struct Progress<'a> {
    display: &'a Display,
    position: usize,
    /// What stands before what it says; empty where it is the only run.
    name: String,
}

impl Display {
    pub(crate) fn new() -> Display {
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} launches, {elapsed} of about {duration}: {msg}",
        )
        .expect("the template is valid")
        .progress_chars("━╸ ");
        Display {
            bar: ProgressBar::new(0).with_style(style),
            expected: Mutex::default(),
        }
    }

    /// A run over so many launches, as far as is known yet.
    pub(crate) fn run(&self, launches: u64, name: Option<&str>) -> Progress<'_> {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        expected.push(launches);
        self.bar.set_length(expected.iter().sum());
        if expected.len() == 1 {
            self.bar.reset_elapsed();
        }
        Progress {
            display: self,
            position: expected.len() - 1,
            name: name.map_or_else(String::new, |name| format!("{name}: ")),
        }
    }

    /// Says something of note, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| tell(text));
    }
}

impl Progress<'_> {
    /// Corrects how many launches there are in all.
    pub(crate) fn expect(&self, launches: u64) {
        let mut expected = self
            .display
            .expected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        expected[self.position] = launches;
        self.display.bar.set_length(expected.iter().sum());
    }

    /// A launch of this probe begins.
    pub(crate) fn begin(&self, probe: &str) {
        self.display
            .bar
            .set_message(format!("{}{probe}", self.name));
        self.display.bar.tick();
    }

    /// A launch has ended, here or in an earlier attempt.
    pub(crate) fn launched(&self) {
        self.display.bar.inc(1);
    }

    /// Says something of note, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.display.say(&format!("{}{text}", self.name));
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

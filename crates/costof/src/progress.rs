//! What is shown while runs work, on standard error.

use crate::terminal::log;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// A bar over so many steps of this name.
pub(crate) fn bar(steps: u64, name: &str) -> ProgressBar {
    let template =
        format!("{{bar:30}} {{pos}}/{{len}}{name}, {{elapsed}} of about {{duration}}: {{msg}}");
    let style = ProgressStyle::with_template(&template).expect("the template is valid");
    ProgressBar::new(steps).with_style(style.progress_chars("━╸ "))
}

impl Display {
    pub(crate) fn new() -> Display {
        Display {
            bar: bar(0, " launches"),
            expected: Mutex::default(),
        }
    }

    /// A run over so many launches, as far as is known yet.
    pub(crate) fn run(&self, launches: u64, name: Option<&str>) -> Progress<'_> {
        let mut expected = self.expected();
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

    fn expected(&self) -> MutexGuard<'_, Vec<u64>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something of note, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| log(text));
    }
}

impl Progress<'_> {
    /// Corrects how many launches each block gets.
    pub(crate) fn expect(&self, launches: &[u32]) {
        let mut expected = self.display.expected();
        expected[self.position] = launches.iter().copied().map(u64::from).sum();
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

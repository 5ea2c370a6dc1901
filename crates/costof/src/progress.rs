//! What is shown while a run works, on standard error.

use crate::tell::tell;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that shows how far a run is, where somebody watches.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over so many launches, as far as is known yet.
    pub(crate) fn new(launches: u64) -> Progress {
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} launches, {elapsed} of about {duration}: {msg}",
        )
        .expect("the template is valid")
        .progress_chars("━╸ ");
        Progress(ProgressBar::new(launches).with_style(style))
    }

    /// Corrects how many launches there are in all.
    pub(crate) fn expect(&self, launches: u64) {
        self.0.set_length(launches);
    }

    /// A launch of this probe begins.
    pub(crate) fn begin(&self, probe: &str) {
        self.0.set_message(probe.to_owned());
        self.0.tick();
    }

    /// A launch has ended, here or in an earlier attempt.
    pub(crate) fn launched(&self) {
        self.0.inc(1);
    }

    /// Says something of note, above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.0.suspend(|| tell(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

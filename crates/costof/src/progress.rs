//! Shows progress on standard error while runs work.

use crate::terminal::{self, log, printable};
use costof_report::names::points_counted;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From this many hosts on, each gets one line at its end: no table, and no reports until then.
pub(crate) const MANY: usize = 5;

/// How often a run reports its progress if there is no terminal for the bar.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// A run that takes this many times as long as announced reports that,
const OVERRUN: f64 = 1.25;
/// unless it is so short that it ends before anyone has read the report.
const OVERRUN_MIN: Duration = Duration::from_secs(3);

/// A wait that is longer is mentioned.
const PATIENCE: Duration = Duration::from_secs(5);

/// A bar with the progress of all runs of a command, if standard error is a terminal.
pub(crate) struct Display {
    bar: ProgressBar,
    /// How many launches each run expects.
    expected: Mutex<Vec<u64>>,
}

/// One run's part of the bar.
pub(crate) struct Progress<'a> {
    display: &'a Display,
    position: usize,
    /// The prefix of its messages; empty if it is the only run.
    name: String,
    began: Instant,
    launched: Cell<u64>,
    pace: RefCell<Pace>,
}

/// Decides when a run reports its progress, and whether it keeps to the announced time.
struct Pace {
    announced: Duration,
    is_corrected: bool,
    /// The age of the run at which the next check is due.
    due: Duration,
}

impl Pace {
    fn new(announced: Duration) -> Pace {
        Pace { announced, is_corrected: false, due: HEARTBEAT }
    }

    /// Whether a check is due: once every heartbeat.
    fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed >= self.due;
        if is_due {
            self.due = elapsed + HEARTBEAT;
        }
        is_due
    }

    /// Whether a run that takes this long in all takes much longer than announced.
    fn is_overrun(&self, in_all: Duration) -> bool {
        in_all > self.announced.mul_f64(OVERRUN).max(OVERRUN_MIN)
    }

    /// A message, once, that the run takes much longer than announced.
    fn correction(&mut self, in_all: Duration) -> Option<String> {
        if self.is_corrected || !self.is_overrun(in_all) {
            return None;
        }
        self.is_corrected = true;
        Some(format!(
            "this takes longer than announced: about {} s in all, not {} s",
            whole_seconds(in_all),
            whole_seconds(self.announced)
        ))
    }
}

/// Decides when to mention a wait: at once, after one heartbeat, and each time its length has doubled.
#[derive(Default)]
pub(crate) struct Reminders {
    due: Duration,
}

impl Reminders {
    /// `waiting`, with the time so far, if it is time to say so.
    pub(crate) fn reminder(&mut self, waited: Duration) -> Option<String> {
        if waited < self.due {
            return None;
        }
        self.due = HEARTBEAT.max(waited * 2);
        Some(match waited.as_secs() {
            0 => "waiting".to_owned(),
            seconds => format!("waiting for {seconds} s"),
        })
    }
}

/// A time as it is announced, in whole seconds.
pub(crate) fn whole_seconds(time: Duration) -> f64 {
    time.as_secs_f64().ceil()
}

/// A bar with this many steps and this name.
pub(crate) fn bar(steps: u64, name: &str) -> ProgressBar {
    // What is measured is cut where it does not fit the terminal.
    let template = format!(
        "{{bar:24}} {{pos}}/{{len}}{name}, {{elapsed}} of about {{duration}}: {{wide_msg}}"
    );
    let style = ProgressStyle::with_template(&template).expect("the template is valid");
    ProgressBar::new(steps).with_style(style.progress_chars("━╸ "))
}

/// Gives up a bar whose terminal takes no output, as after Ctrl-S: to draw would wait for its reader, and keep the
/// machine from others.
pub(crate) fn give_way(bar: &ProgressBar) {
    if !bar.is_hidden() && !terminal::takes_messages() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
}

impl Display {
    pub(crate) fn new() -> Display {
        let bar = bar(0, " launches");
        // A bar without a length would be shown as full.
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Display { bar, expected: Mutex::default() }
    }

    /// The progress of a run with this many launches, as far as known, and with this announced time.
    pub(crate) fn run(
        &self,
        launches: u64,
        announced: Duration,
        name: Option<&str>,
    ) -> Progress<'_> {
        let mut expected = self.expected();
        expected.push(launches);
        self.bar.set_length(expected.iter().sum());
        if expected.len() == 1 {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.reset_elapsed();
        }
        Progress {
            display: self,
            position: expected.len() - 1,
            name: name.map_or_else(String::new, |name| format!("{}: ", printable(name))),
            began: Instant::now(),
            launched: Cell::default(),
            pace: RefCell::new(Pace::new(announced)),
        }
    }

    fn expected(&self) -> MutexGuard<'_, Vec<u64>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a message above the bar.
    pub(crate) fn say(&self, text: &str) {
        give_way(&self.bar);
        self.bar.suspend(|| log(text));
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        give_way(&self.bar);
        self.bar.finish_and_clear();
    }
}

impl<'a> Progress<'a> {
    /// Corrects how many launches each block gets.
    pub(crate) fn expect(&self, launches: &[u32]) {
        give_way(&self.display.bar);
        let mut expected = self.display.expected();
        expected[self.position] = launches.iter().copied().map(u64::from).sum();
        self.display.bar.set_length(expected.iter().sum());
    }

    /// A launch of this probe begins.
    pub(crate) fn begin(&self, probe: &str) {
        give_way(&self.display.bar);
        self.display.bar.set_message(format!("{}{probe}", self.name));
        self.display.bar.tick();
    }

    /// A launch has ended, here or in an earlier attempt.
    pub(crate) fn launched(&self) {
        give_way(&self.display.bar);
        self.display.bar.inc(1);
        self.launched.set(self.launched.get() + 1);
    }

    /// How many launches have ended.
    pub(crate) fn launches(&self) -> u64 {
        self.launched.get()
    }

    /// How long ago the run began, or its last attempt.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether it is time to say how far the run is.
    pub(crate) fn is_due(&self) -> bool {
        self.pace.borrow_mut().is_due(self.began.elapsed())
    }

    /// Whether the run takes much longer than announced, if it takes this long from now on.
    pub(crate) fn is_overrun(&self, left: Duration) -> bool {
        self.pace.borrow().is_overrun(self.began.elapsed() + left)
    }

    /// Reports once that the run takes much longer than announced, if the remaining time implies that.
    pub(crate) fn correct(&self, left: Duration) {
        let in_all = self.began.elapsed() + left;
        if let Some(correction) = self.pace.borrow_mut().correction(in_all) {
            self.display.say(&format!("{}{correction}", self.name));
        }
    }

    /// Reports the progress of the run if there is no bar, and it is not one of many.
    pub(crate) fn heartbeat(&self, launches: [u64; 2], points: usize, left: Duration) {
        if self.display.bar.is_hidden() && self.display.expected().len() < MANY {
            let ([done, all], left) = (launches, whole_seconds(left));
            let points = points_counted(points);
            self.say(&format!("{done} of {all} launches of {points}, about {left} s left"));
        }
    }

    /// A launch that was not planned follows.
    pub(crate) fn one_more(&self) {
        self.display.expected()[self.position] += 1;
        self.display.bar.inc_length(1);
    }

    /// So many rows begin to wait for a core that is alone, for so long at most: says so if that is long.
    pub(crate) fn wait_for_alone(&self, rows: usize, left: Duration) {
        if rows > 0 && left > PATIENCE {
            self.say(&waiting_rows(rows, left));
        }
    }

    /// So many rows wait for a core that is alone: shown by the bar, or if there is none every heartbeat.
    pub(crate) fn waits_for_alone(&self, rows: usize, left: Duration) {
        give_way(&self.display.bar);
        let text = waiting_rows(rows, left);
        if self.display.bar.is_hidden() {
            if self.is_due() && self.display.expected().len() < MANY {
                self.say(&text);
            }
        } else {
            self.display.bar.set_message(format!("{}{text}", self.name));
        }
    }

    /// Prints a message above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.display.say(&format!("{}{text}", self.name));
    }
}

fn waiting_rows(rows: usize, left: Duration) -> String {
    let wait = if rows == 1 { "row waits" } else { "rows wait" };
    let left = whole_seconds(left) as u64;
    let left = match left / 60 {
        0 => format!("{left} s"),
        minutes => format!("{minutes} min {} s", left % 60),
    };
    format!("{rows} {wait} for a core that is alone; {left} left")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Arc;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A terminal of 80 columns, and what is written on it.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bar_stays_on_one_line_of_80_columns() {
        let terminal = Terminal::default();
        let bar = bar(1234, " launches");
        bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(terminal.clone())));
        bar.set_message("a-host-with-a-long-name: file.remote_call");
        bar.force_draw();
        let shown = terminal.0.lock().unwrap().clone();
        assert!(shown.contains("0/1234 launches, "), "{shown:?}");
        assert!(shown.chars().count() <= 80, "{shown:?}");
    }

    #[test]
    fn a_run_is_looked_at_every_heartbeat_and_corrected_once() {
        let mut pace = Pace::new(seconds(40));
        let due: Vec<u64> = (0..45).filter(|at| pace.is_due(seconds(*at))).collect();
        assert_eq!(due, [10, 20, 30, 40]);
        // A launch that takes long delays the next look, and none is made up for.
        assert!(pace.is_due(seconds(75)) && !pace.is_due(seconds(84)));
        assert_eq!(pace.correction(seconds(50)), None, "a quarter over is kept");
        let said = pace.correction(seconds(51)).unwrap();
        assert!(said.contains("51 s") && said.contains("40 s"), "{said}");
        assert_eq!(pace.correction(seconds(90)), None);
        assert_eq!(Pace::new(seconds(1)).correction(seconds(3)), None);
    }

    #[test]
    fn rows_that_wait_are_counted_and_say_how_long() {
        let said = [(1, seconds(9)), (12, Duration::from_millis(79_500))]
            .map(|(rows, left)| waiting_rows(rows, left));
        assert!(said[0].starts_with("1 row waits ") && said[0].ends_with("; 9 s left"), "{said:?}");
        let many = &said[1];
        assert!(many.starts_with("12 rows wait ") && many.ends_with("; 1 min 20 s left"), "{many}");
    }

    #[test]
    fn a_wait_is_mentioned_ever_more_seldom_and_says_how_long_it_is() {
        let mut reminders = Reminders::default();
        let said: Vec<String> = (0..100).filter_map(|at| reminders.reminder(seconds(at))).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        assert_eq!(
            said,
            [
                "waiting",
                "waiting for 10 s",
                "waiting for 20 s",
                "waiting for 40 s",
                "waiting for 80 s"
            ]
        );
    }
}

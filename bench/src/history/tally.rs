//! How many changes that were reported are right, and how many that are there were reported.

use super::series::{Found, STEP_AT, Series};
use crate::share::Share;
use costof_stats::median;

/// What came of some series.
#[derive(Default)]
pub(super) struct Tally {
    /// The runs, each with a false alarm or without.
    pub(super) alarms: Share,
    false_alarms: u32,
    steps: u32,
    right: u32,
    /// With how many runs after a step it was reported.
    delays: Vec<f64>,
}

impl Tally {
    /// Adds a series, and what was reported in it.
    pub(super) fn add(&mut self, series: &Series, found: &[Found]) {
        let (right, wrong): (Vec<Found>, Vec<Found>) =
            found.iter().partition(|change| series.is_step(change));
        self.steps += u32::from(series.step.is_some());
        self.right += u32::from(!right.is_empty());
        let first = right.iter().filter_map(|change| change.found).min();
        self.delays.extend(first.map(|found| (found + 1 - STEP_AT) as f64));
        self.false_alarms += wrong.len() as u32;
        (0..series.runs).for_each(|run| self.alarms.add(run < wrong.len()));
    }

    /// These series and those.
    pub(super) fn and(mut self, other: &Tally) -> Tally {
        self.alarms = self.alarms.and(other.alarms);
        self.false_alarms += other.false_alarms;
        self.steps += other.steps;
        self.right += other.right;
        self.delays.extend(&other.delays);
        self
    }

    fn precision(&self) -> Share {
        Share::new(self.right, self.right + self.false_alarms)
    }

    fn recall(&self) -> Share {
        Share::new(self.right, self.steps)
    }

    /// F1 with its 95 % interval: of the changes that are there or were reported, the share `s` that is both, as
    /// 2 s ÷ (1 + s), which is the harmonic mean of precision and recall.
    pub(super) fn f1(&self) -> (f64, (f64, f64)) {
        let both = Share::new(self.right, self.steps + self.false_alarms);
        let f1 = |share: f64| 2.0 * share / (1.0 + share);
        let (low, high) = both.interval();
        (f1(both.share()), (f1(low), f1(high)))
    }

    /// The cells of its line in the table.
    pub(super) fn cells(&self) -> String {
        let shown = |(value, (low, high)): (f64, (f64, f64)), digits: usize| {
            format!("{value:.digits$} ({low:.digits$} to {high:.digits$})")
        };
        let of = |share: Share| (share.share(), share.interval());
        let (low, high) = self.alarms.interval();
        let alarms = (1000.0 * self.alarms.share(), (1000.0 * low, 1000.0 * high));
        let alarms = shown(alarms, 1);
        if self.steps == 0 {
            return format!("{alarms} | | | | |");
        }
        let delay = median(&self.delays).map_or("none".to_owned(), |delay| format!("{delay:.0}"));
        format!(
            "{alarms} | {} of {} | {delay} | {} | {} | {}",
            self.right,
            self.steps,
            shown(of(self.precision()), 2),
            shown(of(self.recall()), 2),
            shown(self.f1(), 2)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(step: Option<usize>) -> Series {
        Series { runs: 60, rows: Vec::new(), step, costof: Vec::new() }
    }

    fn found(row: usize, at: usize, found: usize) -> Found {
        Found { row, at: Some(at), found: Some(found) }
    }

    #[test]
    fn what_is_not_the_step_is_a_false_alarm_and_a_step_counts_once() {
        let mut tally = Tally::default();
        // The step twice, and a change in another row.
        let twice = [found(1, 31, 37), found(1, 29, 34), found(0, 30, 33)];
        tally.add(&series(Some(1)), &twice);
        tally.add(&series(Some(0)), &[]);
        assert_eq!((tally.steps, tally.right, tally.false_alarms), (2, 1, 1));
        assert_eq!(tally.delays, [5.0]);
        assert_eq!((tally.alarms.came(), tally.alarms.tries()), (1, 120));
        let (precision, recall) = (tally.precision().share(), tally.recall().share());
        let (f1, (low, high)) = tally.f1();
        assert!((f1 - 2.0 * precision * recall / (precision + recall)).abs() < 1e-12);
        assert!(low < f1 && f1 < high);
        // By hand: Wilson's of 1 of 3 is 0.0615 to 0.7923.
        assert!((low - 0.1159).abs() < 1e-3 && (high - 0.8841).abs() < 1e-3, "{low} {high}");
        assert!(tally.cells().contains("| 1 of 2 | 5 | 0.50 ("), "{}", tally.cells());
        let both = Tally::default().and(&tally).and(&tally);
        assert_eq!((both.steps, both.delays.len(), both.alarms.tries()), (4, 2, 240));
        assert_eq!(both.f1().0, f1);
    }

    #[test]
    fn series_without_a_step_have_false_alarms_alone() {
        let mut tally = Tally::default();
        tally.add(&series(None), &[found(0, 30, 34)]);
        assert!(tally.cells().starts_with("16.7 ("), "{}", tally.cells());
        assert!(tally.cells().ends_with(" | | | | |"));
        assert_eq!(tally.f1().0, 0.0);
    }
}

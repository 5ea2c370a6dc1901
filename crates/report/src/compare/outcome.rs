//! The outcome of a comparison with a threshold: pass, fail, or inconclusive.

use super::{named, share, why_missing};
use crate::text::printable;
use costof_model::Text;
use costof_model::comparison::{Compared, Comparison, Verdict};
use costof_model::id::with_id;
use costof_model::plural::counted;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit, span};
use serde::Serialize;

/// Whether the later run passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The verdict as a word.
    pub verdict: Word,
    /// How many rows could have shown a change that matters.
    pub decided: usize,
    /// How many there are, with those that cannot be compared and those that no longer have a number.
    pub rows: usize,
    /// The failures, the largest first.
    pub failed: Vec<Failed>,
    /// The reason for a pass or for a doubt.
    #[serde(skip)]
    reason: String,
}

/// The verdicts, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Nothing surely became worse by more than the threshold, and each row could have shown it.
    Pass,
    /// Nothing surely became worse, but some rows could not have shown it.
    #[serde(rename = "inconclusive")]
    CannotTell,
    /// Something became worse, or, with `missing_fails`, a point no longer has a number.
    Fail,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failed {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The metric; absent if the point no longer has a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<Text>,
    /// Point and reason: `os.syscall 7.2 % slower (5.9–8.4)`.
    pub why: String,
}

/// At most this many failures are named in a line.
const NAMED: usize = 3;

impl Outcome {
    /// Judges by the threshold of the comparison, its `matters`. A metric fails if it surely became worse by
    /// more than the threshold: the end of its interval that is nearer to no change lies beyond it. With
    /// `undecided_passes`, rows that could not have shown that are no doubt.
    pub fn new(
        comparison: &Comparison,
        after: &Run,
        missing_fails: bool,
        undecided_passes: bool,
    ) -> Outcome {
        let failed = failed(comparison, after, missing_fails);
        let compared = comparison.rows.len();
        let rows = compared + comparison.refused.len() + comparison.missing.len();
        let decided = compared - super::count(comparison, Verdict::CannotTell);
        let verdict = if !failed.is_empty() {
            Word::Fail
        } else if decided == rows && rows > 0 || undecided_passes {
            Word::Pass
        } else {
            Word::CannotTell
        };
        Outcome { reason: reason(comparison, after, decided), verdict, decided, rows, failed }
    }

    /// The verdict, the run's name if there are several, how many rows were decided, and the reason: `FAIL: 9
    /// of 9 rows decided; os.syscall 7.2 % slower (5.9–8.4)`.
    pub fn line(&self, run: Option<&str>) -> String {
        let word = match self.verdict {
            Word::Pass => "PASS",
            Word::Fail => "FAIL",
            Word::CannotTell => "INCONCLUSIVE",
        };
        let failed: Vec<String> = self.failed.iter().map(|failed| failed.why.clone()).collect();
        let reason = if failed.is_empty() { self.reason.clone() } else { some(&failed) };
        let run = run.map(|run| format!("{run}: ")).unwrap_or_default();
        let (decided, rows) = (self.decided, counted(self.rows, "row"));
        printable(&format!("{word}: {run}{decided} of {rows} decided; {reason}"))
    }
}

fn failed(comparison: &Comparison, after: &Run, missing_fails: bool) -> Vec<Failed> {
    let mut worse = beyond(comparison);
    worse.sort_by(|a, b| worse_by(b).0.total_cmp(&worse_by(a).0));
    let worse = worse.into_iter().map(|row| Failed {
        point: row.point.clone(),
        metric: Some(row.metric.clone()),
        why: format!("{} {}", named(&row.point, after), change(row)),
    });
    let missing = comparison.missing.iter().filter(|_| missing_fails);
    let missing = missing.map(|missing| Failed {
        point: missing.point.clone(),
        metric: None,
        why: format!(
            "{} no longer has a number: {}",
            named(&missing.point, after),
            why_missing(missing)
        ),
    });
    worse.chain(missing).collect()
}

/// The rows that are surely worse by more than a change that matters.
pub(super) fn beyond(comparison: &Comparison) -> Vec<&Compared> {
    let is_beyond =
        |row: &&Compared| row.verdict == Verdict::Worse && worse_by(row).1.0 > comparison.matters;
    comparison.rows.iter().filter(is_beyond).collect()
}

/// What is known of a run without a failure, and what the comparison could not check.
fn reason(comparison: &Comparison, after: &Run, decided: usize) -> String {
    let percent = share(comparison.matters);
    let mut reason = match decided {
        0 => format!("no row can show a change of {percent}"),
        _ => format!("nothing is surely more than {percent} worse"),
    };
    let missing = comparison.missing.iter().map(|missing| {
        let cause = if missing.is_noise { " (noise)" } else { "" };
        format!("{}{cause}", named(&missing.point, after))
    });
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        reason.push_str("; no number in the later run: ");
        reason.push_str(&some(&missing));
    }
    reason
}

/// The first few names, and how many more there are.
fn some(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED)].join("; ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

/// By how much the metric became worse, as a share, with its interval.
fn worse_by(row: &Compared) -> (f64, (f64, f64)) {
    let (low, high) = row.ci95;
    match row.better {
        Better::Higher => (1.0 - row.ratio, (1.0 - high, 1.0 - low)),
        Better::Lower | Better::Neither => (row.ratio - 1.0, (low - 1.0, high - 1.0)),
    }
}

/// `7.2 % slower (5.9–8.4)`.
fn change(row: &Compared) -> String {
    let (by, (low, high)) = worse_by(row);
    let word = match row.unit {
        Unit::Nanoseconds | Unit::Cycles | Unit::Hertz | Unit::BytesPerSecond => "slower",
        _ => "worse",
    };
    let [by, low, high] = [by, low, high].map(|share| format!("{:.1}", 100.0 * share));
    format!("{by} % {word} ({})", span(&low, "–", &high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::row;
    use costof_model::comparison::Missing;
    use costof_model::testing::{golden, run_without_facts as run};

    fn comparison(rows: Vec<Compared>) -> Comparison {
        Comparison { matters: 0.05, rows, ..Comparison::default() }
    }

    #[test]
    fn the_last_line_says_why() {
        let line = |comparison: &Comparison, missing_fails, inconclusive_passes| {
            let outcome = Outcome::new(comparison, &run(), missing_fails, inconclusive_passes);
            let json = serde_json::to_value(&outcome).unwrap();
            format!("{}: {}", json["verdict"].as_str().unwrap(), outcome.line(None))
        };
        let worse = row("os.syscall", 1.072, 0.012, Verdict::Worse);
        let blind = row("a.blind", 1.0, 0.1, Verdict::CannotTell);
        let same = row("a.same", 1.0, 0.01, Verdict::NoDifference);
        // Worse, but not certainly by more than the threshold.
        let little = row("a.little", 1.06, 0.02, Verdict::Worse);
        let fails = comparison(vec![little.clone(), worse, blind.clone()]);
        let passes = comparison(vec![little.clone(), same.clone()]);
        let mut doubtful = comparison(vec![little, blind.clone(), same]);
        doubtful.missing.push(Missing {
            point: blind.point.clone(),
            reason: "it is lost".to_owned(),
            is_noise: true,
        });
        let lines = [
            line(&fails, false, false),
            line(&passes, false, false),
            line(&doubtful, false, false),
            line(&doubtful, false, true),
            line(&doubtful, true, false),
            line(&comparison(vec![blind]), false, false),
        ];
        golden("report/compare", "last lines", &lines.join("\n"));
    }

    #[test]
    fn a_rate_that_shrank_is_slower_and_many_failures_are_counted() {
        let mut shrank = row("a.rate", 0.8, 0.0, Verdict::Worse);
        (shrank.better, shrank.unit) = (Better::Higher, Unit::BytesPerSecond);
        assert_eq!(change(&shrank), "20.0 % slower (20.0)");
        let rows = (0..5).map(|_| shrank.clone()).collect();
        let outcome = Outcome::new(&comparison(rows), &run(), false, false);
        assert!(outcome.line(None).ends_with("; and 2 more"), "{}", outcome.line(None));
        assert_eq!(outcome.failed.len(), 5);
    }
}

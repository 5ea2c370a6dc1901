//! The outcome of a comparison with a threshold: pass, fail, or inconclusive.

use super::{named, share, why_missing};
use crate::check::{Case, Finding, Rules, Suite, Word};
use crate::text::printable;
use costof_model::Text;
use costof_model::comparison::{Compared, Comparison, Verdict};
use costof_model::id::with_id;
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
    /// The rows as cases, the failures first.
    #[serde(skip)]
    pub suite: Suite,
    /// The reason for a pass or for a doubt.
    #[serde(skip)]
    reason: String,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failed {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The metric.
    pub metric: Text,
    /// Point and reason: `os.syscall 7.2 % slower (5.9–8.4)`.
    pub why: String,
}

impl Outcome {
    /// Judges by the threshold of the comparison, its `matters`. A metric fails if it surely became worse by
    /// more than the threshold: the end of its interval that is nearer to no change lies beyond it.
    pub fn new(name: &str, comparison: &Comparison, after: &Run, rules: &Rules) -> Outcome {
        let case = |point: &Point, finding| Case {
            name: named(point, after),
            probe: Some(point.probe.clone()),
            finding,
        };
        let mut beyond = beyond(comparison);
        beyond.sort_by(|a, b| worse_by(b).0.total_cmp(&worse_by(a).0));
        let failed = beyond.iter().map(|row| Failed {
            point: row.point.clone(),
            metric: row.metric.clone(),
            why: format!("{} {}", named(&row.point, after), change(row)),
        });
        let failed = failed.collect();
        let failures = beyond.iter().map(|row| case(&row.point, Finding::Fail(change(row))));
        let others = comparison.rows.iter();
        let others = others.filter(|row| !beyond.iter().any(|one| std::ptr::eq(*one, *row)));
        let percent = share(comparison.matters);
        let rows = others.map(|row| {
            let finding = match row.verdict {
                Verdict::CannotTell => {
                    Finding::Undecided(format!("a change of {percent} could be missed"))
                }
                _ => Finding::Pass,
            };
            case(&row.point, finding)
        });
        let refused = comparison.refused.iter();
        let refused = refused.map(|one| case(&one.point, Finding::Undecided(one.reason.clone())));
        let missing = comparison.missing.iter();
        let missing = missing.map(|one| case(&one.point, Finding::Undecided(why_missing(one))));
        let cases = failures.chain(missing).chain(rows).chain(refused).collect();
        let suite = Suite::new(name, "row", cases, rules);
        let (decided, rows) = suite.decided();
        let reason = match decided {
            0 => format!("no row can show a change of {percent}"),
            _ => format!("nothing is surely more than {percent} worse"),
        };
        Outcome { verdict: suite.word(), decided, rows, failed, suite, reason }
    }

    /// The run's name if there are several, the verdict, how many rows were decided, and the reason: `FAIL: 9 of 9 rows
    /// decided; os.syscall 7.2 % slower (5.9–8.4)`.
    pub fn line(&self, run: Option<&str>) -> String {
        let run = run.map(|run| format!("{}: ", printable(run))).unwrap_or_default();
        run + &self.suite.line(&self.reason)
    }
}

/// The rows that are surely worse by more than a change that matters.
pub(super) fn beyond(comparison: &Comparison) -> Vec<&Compared> {
    let is_beyond =
        |row: &&Compared| row.verdict == Verdict::Worse && worse_by(row).1.0 > comparison.matters;
    comparison.rows.iter().filter(is_beyond).collect()
}

/// By how much the metric became worse, as a share, with its interval.
pub(super) fn worse_by(row: &Compared) -> (f64, (f64, f64)) {
    let (low, high) = row.ci95;
    match row.better {
        Better::Higher => (1.0 - row.ratio, (1.0 - high, 1.0 - low)),
        Better::Lower | Better::Neither => (row.ratio - 1.0, (low - 1.0, high - 1.0)),
    }
}

/// `7.2 % slower (5.9–8.4)`.
pub(super) fn change(row: &Compared) -> String {
    let (by, interval) = worse_by(row);
    let is_speed =
        matches!(row.unit, Unit::Nanoseconds | Unit::Cycles | Unit::Hertz | Unit::BytesPerSecond);
    amount(by, interval, if is_speed { [" slower", " faster"] } else { [" worse", " better"] })
}

/// A change with its interval, and the word for it if it is for the worse or for the better.
pub(super) fn amount(by: f64, (low, high): (f64, f64), words: [&str; 2]) -> String {
    let (sign, word) = if by < 0.0 { (-1.0, words[1]) } else { (1.0, words[0]) };
    let digits = usize::from(by.abs() < 0.0995);
    let number = |share: f64| format!("{:.digits$}", 100.0 * sign * share).replace('-', "−");
    let (low, high) = if by < 0.0 { (high, low) } else { (low, high) };
    format!("{} %{word} ({})", number(by), span(&number(low), "–", &number(high)))
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

    fn outcome(comparison: &Comparison) -> Outcome {
        Outcome::new("after", comparison, &run(), &Rules::default())
    }

    #[test]
    fn the_last_line_says_why() {
        let line = |comparison: &Comparison, rules: &Rules| {
            let outcome = Outcome::new("after", comparison, &run(), rules);
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
        let fail = Rules::default();
        let pass = Rules { undecided_passes: true, ..Rules::default() };
        let lines = [
            line(&fails, &fail),
            line(&passes, &fail),
            line(&doubtful, &fail),
            line(&doubtful, &pass),
            line(&comparison(vec![blind]), &fail),
        ];
        golden("report/compare", "last lines", &lines.join("\n"));
    }

    #[test]
    fn a_rate_that_shrank_is_slower_and_many_failures_are_counted() {
        let mut shrank = row("a.rate", 0.8, 0.0, Verdict::Worse);
        (shrank.better, shrank.unit) = (Better::Higher, Unit::BytesPerSecond);
        assert_eq!(change(&shrank), "20 % slower (20)");
        let rows = (0..5).map(|_| shrank.clone()).collect();
        let outcome = outcome(&comparison(rows));
        assert!(outcome.line(None).ends_with("; and 2 more"), "{}", outcome.line(None));
        assert_eq!(outcome.failed.len(), 5);
    }
}

//! The outcome of a comparison with a threshold: pass, fail, or inconclusive.

use super::summary::{beside_a_neighbour, whole_name};
use super::{named, share, why_missing};
use crate::check::{Case, Finding, Rules, Suite, Word};
use crate::text::printable;
use costof_model::comparison::{LayerChange, Verdict};
use costof_model::id::with_id;
use costof_model::{Better, Compared, Comparison, Point, Run, Text, Unit, span};
use serde::Serialize;

/// Whether the later run passes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The verdict as a word.
    pub verdict: Word,
    /// How many rows could have shown a change that matters, and not only a neighbour's.
    pub decided: usize,
    /// How many there are, with those that cannot be compared and those that no longer have a number.
    pub rows: usize,
    /// The failures: first layers, then rows, each the largest first.
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
#[serde(untagged)]
pub enum Failed {
    /// A layer of two groups as a whole.
    Layer {
        /// The layer: `memory`.
        layer: String,
        /// Layer and reason: `memory layer 12 % slower (11–13)`.
        why: String,
    },
    /// A row.
    Row {
        /// The point.
        #[serde(flatten, serialize_with = "with_id")]
        point: Point,
        /// The metric.
        metric: Text,
        /// Point and reason: `os.syscall 7.2 % slower (5.9–8.4)`.
        why: String,
    },
}

impl Outcome {
    /// Judges by the threshold of the comparison, its `matters`. A metric or a layer fails if it surely became worse by
    /// more than the threshold: the end of its interval that is nearer to no change lies beyond it. If nothing was
    /// decided, nothing passes.
    pub fn new(name: &str, comparison: &Comparison, after: &Run, rules: &Rules) -> Outcome {
        let case = |point: &Point, metric: Option<&Text>, finding| {
            let row = after.points.iter().find(|row| row.point == *point);
            let other = metric.filter(|metric| row.is_some_and(|row| row.primary != **metric));
            let name = named(point, after);
            Case {
                name: other.map_or(name.clone(), |metric| format!("{name} {metric}")),
                probe: Some(point.probe.clone()),
                finding,
            }
        };
        let mut beyond = beyond(comparison);
        beyond.sort_by(|a, b| worse_by(b).0.total_cmp(&worse_by(a).0));
        let mut layers = layers_beyond(comparison);
        layers.sort_by(|a, b| b.worse.total_cmp(&a.worse));
        let slower = |layer: &LayerChange| amount(layer.worse, layer.ci95, SPEED);
        let of_layer = |layer: &&LayerChange| Case {
            name: whole_name(&layer.layer),
            probe: None,
            finding: Finding::Fail(slower(layer)),
        };
        let failed = beyond.iter().map(|row| Failed::Row {
            point: row.point.clone(),
            metric: row.metric.clone(),
            why: format!("{} {}", named(&row.point, after), change(row)),
        });
        let failed_layers = layers.iter().map(|layer| Failed::Layer {
            layer: layer.layer.clone(),
            why: format!("{} {}", whole_name(&layer.layer), slower(layer)),
        });
        let failed = failed_layers.chain(failed).collect();
        let failures = beyond
            .iter()
            .map(|row| case(&row.point, Some(&row.metric), Finding::Fail(change(row))));
        let others = comparison.rows.iter();
        let others = others.filter(|row| !beyond.iter().any(|one| std::ptr::eq(*one, *row)));
        let percent = share(comparison.matters);
        let rows = others.map(|row| {
            let finding = match row.verdict {
                Verdict::CannotTell => {
                    Finding::Undecided(format!("a change of {percent} could be missed"))
                }
                _ if is_beside_a_neighbour(row, comparison.matters) => {
                    let by = change(row);
                    Finding::Undecided(format!("{by}, but the core was shared: that may be why"))
                }
                _ => Finding::Pass,
            };
            case(&row.point, Some(&row.metric), finding)
        });
        let refused = comparison
            .refused
            .iter()
            .map(|one| case(&one.point, Some(&one.metric), Finding::Undecided(one.reason.clone())));
        let missing = comparison.missing.iter();
        let missing =
            missing.map(|one| case(&one.point, None, Finding::Undecided(why_missing(one))));
        let cases: Vec<Case> = failures.chain(missing).chain(rows).chain(refused).collect();
        let is_decided = |case: &Case| !matches!(case.finding, Finding::Undecided(_));
        let undecided_passes = rules.undecided_passes && cases.iter().any(is_decided);
        let rules = Rules { undecided_passes, ..rules.clone() };
        let suite = Suite::new(name, "row", cases, &rules).with_sums(layers.iter().map(of_layer));
        let (decided, rows) = suite.decided();
        let reason = match decided {
            0 if beside_a_neighbour(comparison) > 0 => {
                "what differs was measured on a shared core, which may be the reason".to_owned()
            }
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

/// Whether a row whose core was shared differs by more than a change that matters, whichever way: the neighbour may be why,
/// and may hide a change.
pub(super) fn is_beside_a_neighbour(row: &Compared, matters: f64) -> bool {
    let (low, high) = worse_by(row).1;
    let is_shared = row.verdict == Verdict::Differs && row.better != Better::Neither;
    is_shared && low.abs().max(high.abs()) > matters
}

/// The layers that are.
pub(super) fn layers_beyond(comparison: &Comparison) -> Vec<&LayerChange> {
    let is_beyond =
        |layer: &&LayerChange| layer.verdict == Verdict::Worse && layer.ci95.0 > comparison.matters;
    comparison.layers.iter().filter(is_beyond).collect()
}

/// By how much the metric became worse, as a share, with its interval. A rate is worse by as much as what it transfers
/// takes longer: half the rate is 100 % worse.
pub(super) fn worse_by(row: &Compared) -> (f64, (f64, f64)) {
    let (low, high) = row.ci95;
    match row.better {
        Better::Higher => (1.0 / row.ratio - 1.0, (1.0 / high - 1.0, 1.0 / low - 1.0)),
        Better::Lower | Better::Neither => (row.ratio - 1.0, (low - 1.0, high - 1.0)),
    }
}

/// `7.2 % slower (5.9–8.4)`.
pub(super) fn change(row: &Compared) -> String {
    let (by, interval) = worse_by(row);
    let is_speed =
        matches!(row.unit, Unit::Nanoseconds | Unit::Cycles | Unit::Hertz | Unit::BytesPerSecond);
    amount(by, interval, if is_speed { SPEED } else { [" worse", " better"] })
}

/// Which way a speed changed.
const SPEED: [&str; 2] = [" slower", " faster"];

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
        assert_eq!(change(&shrank), "25 % slower (25)");
        let rows = (0..5).map(|_| shrank.clone()).collect();
        let outcome = outcome(&comparison(rows));
        assert!(outcome.line(None).ends_with("; and 2 more"), "{}", outcome.line(None));
        assert_eq!(outcome.failed.len(), 5);
    }

    #[test]
    fn a_layer_that_is_surely_worse_fails_though_no_row_does() {
        let layer = |ci95: (f64, f64)| {
            let layers = vec![LayerChange {
                layer: "memory".to_owned(),
                rows: 3,
                worse: 0.12,
                ci95,
                p: 0.001,
                verdict: Verdict::Worse,
            }];
            let rows = vec![row("memory.x", 1.0, 0.01, Verdict::NoDifference)];
            outcome(&Comparison { layers, ..comparison(rows) })
        };
        let fails = layer((0.11, 0.13));
        assert_eq!(fails.line(None), "FAIL: 1 of 1 row decided; memory layer 12 % slower (11–13)");
        let json = serde_json::to_value(&fails.failed).unwrap();
        assert_eq!(json[0]["layer"], "memory", "{json}");
        assert_eq!(layer((0.01, 0.2)).verdict, Word::Pass);
    }

    #[test]
    fn a_change_beside_a_neighbour_is_not_decided() {
        let shared = row("a.shared", 2.5, 0.1, Verdict::Differs);
        let little = row("a.little", 1.02, 0.01, Verdict::Differs);
        let same = row("a.same", 1.0, 0.01, Verdict::NoDifference);
        let outcome = outcome(&comparison(vec![shared, little, same.clone()]));
        let line = outcome.line(None);
        assert!(line.starts_with("INCONCLUSIVE: 2 of 3 rows decided"), "{line}");
        assert!(line.contains("not decided: a.shared"), "{line}");
        // Where neither way is better, nothing can be worse.
        let neither =
            Compared { better: Better::Neither, ..row("a.n", 2.5, 0.1, Verdict::Differs) };
        assert_eq!(self::outcome(&comparison(vec![neither, same])).verdict, Word::Pass);
    }

    #[test]
    fn nothing_passes_if_nothing_was_decided() {
        let rules = Rules { undecided_passes: true, ..Rules::default() };
        let blind = row("a.blind", 1.0, 0.1, Verdict::CannotTell);
        for rows in [vec![], vec![blind]] {
            let outcome = Outcome::new("after", &comparison(rows), &run(), &rules);
            assert_eq!(outcome.verdict, Word::CannotTell);
            assert!(outcome.line(None).starts_with("INCONCLUSIVE: 0 of "));
        }
    }

    #[test]
    fn a_case_of_another_metric_says_so() {
        let mut run = run();
        run.points.push(costof_model::testing::sized_row("a.x", 64, 5.0));
        let of = |metric: &'static str| Compared {
            metric: metric.into(),
            ..row("a.x", 1.0, 0.01, Verdict::NoDifference)
        };
        let primary = run.points[0].primary.to_string();
        let rows = vec![of("other"), Compared { metric: primary.into(), ..of("") }];
        let outcome = Outcome::new("after", &comparison(rows), &run, &Rules::default());
        let text = crate::check::junit(&[outcome.suite]);
        assert_eq!(text.matches(" other\"").count(), 1, "{text}");
    }
}

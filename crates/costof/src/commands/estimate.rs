//! `costof estimate`: computes an expression of costs for this machine.

use crate::cli::{Chosen, EstimateOptions, RunOptions};
use crate::error::{Done, Error, Result, wrong};
use crate::history;
use crate::machine::hosts;
use crate::plan::keywords::{self, Take};
use crate::plan::request::Request;
use crate::prediction::predict;
use crate::record::{self, Table};
use crate::session::{Fits, Session};
use crate::terminal::{print, prose_columns, watch_interrupts};
use costof_measure::facts;
use costof_model::expression::{Expression, Total, Value};
use costof_model::{Facts, Grade, Point, PointRow, ProbeInfo, Run, Settings, Warning, span};
use costof_report::text::wrapped;
use serde_json::json;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The width in columns of a bar for the whole.
const BAR: f64 = 24.0;

/// A run, with the name of its file.
pub(super) type Named = (String, Run);

/// The value of a point, and where it comes from.
struct Source {
    point: Point,
    value: Option<Value>,
    /// Of a measured value.
    grade: Option<Grade>,
    from: String,
}

pub(crate) fn run(table: Table, options: &EstimateOptions) -> Done {
    let mut found: BTreeMap<String, &ProbeInfo> = BTreeMap::new();
    let mut find = |word: &str, settings: Settings| {
        if let Some(info) = found.get(word) {
            return Ok((*info, settings));
        }
        let probes = keywords::probes(table, word, Take::One);
        let info = probes.map_err(|error| error.to_string())?[0];
        found.insert(word.to_owned(), info);
        Ok((info, settings))
    };
    let expression =
        Expression::parse_with(&options.expression.join(" "), &mut find).map_err(wrong)?;
    let mut runs = match &options.run {
        Some(path) => vec![(path.display().to_string(), record::read(path, table)?)],
        None => {
            let is_best = |row: &PointRow| row.is_usable() && row.grade == Grade::A;
            history(table, &expression.points, is_best)
        }
    };
    if options.measure {
        let missing: Vec<&Point> = expression
            .points
            .iter()
            .filter(|point| best(&runs, point).is_none_or(|(_, row)| !row.is_sound()))
            .collect();
        if !missing.is_empty() {
            let all = RunOptions::new(options.measuring.clone(), None);
            runs.insert(0, measure(table, &all, &missing, &*watch_interrupts()?)?);
        }
    }
    // Predictions are for the machine that a run measured, or else for this one.
    let known = LazyCell::new(|| match (&options.run, runs.first()) {
        (Some(_), Some((_, run))) => (run.facts().cloned().unwrap_or_default(), run.points.clone()),
        _ => (facts::gather(), history::best_rows(table)),
    });
    let source = |point| source(table, &runs, &known, point);
    let sources: Vec<Source> = expression.points.iter().map(source).collect();
    let values: Option<Vec<Value>> = sources.iter().map(|source| source.value).collect();
    let Some(values) = values else {
        return Err(missing(&sources));
    };
    let total = expression.total(&values).map_err(wrong)?;
    let text = if options.json {
        format!("{}\n", as_json(&expression, &total, &sources))
    } else {
        as_text(&expression, &total, &sources)
    };
    print(text)
}

/// The latest runs of this machine that were to measure one of the points, the newest first, down to the one with which
/// all points have a row that is good enough.
pub(super) fn history(
    table: Table,
    points: &[Point],
    is_enough: impl Fn(&PointRow) -> bool,
) -> Vec<Named> {
    let mut runs = Vec::new();
    for run in history::of_this_machine(table, |point| points.contains(point)) {
        runs.push(run);
        let is_known = |point| rows(&runs, point).any(|(_, row)| is_enough(row));
        if points.iter().all(is_known) {
            break;
        }
    }
    runs
}

/// The rows of the point, each with its run, those of the first run first.
pub(super) fn rows<'r>(
    runs: &'r [Named],
    point: &Point,
) -> impl Iterator<Item = (&'r Named, &'r PointRow)> {
    runs.iter()
        .filter_map(move |of| Some((of, of.1.points.iter().find(|row| row.point == *point)?)))
}

/// The row of the point to answer from, with a number, and its run: that of the best grade; of several,
/// that of the first run.
fn best<'r>(runs: &'r [Named], point: &'r Point) -> Option<(&'r Named, &'r PointRow)> {
    let numbers = rows(runs, point).filter(|(_, row)| row.is_usable() && row.primary().is_some());
    numbers.min_by_key(|(_, row)| row.distrust())
}

/// The point's median and interval.
fn measured(row: &PointRow) -> Option<Value> {
    let estimate = row.primary()?;
    Some(Value::Measured(estimate.median, estimate.usable_interval()))
}

/// The value of the expression if all of its points were measured.
pub(super) fn total(expression: &Expression, runs: &[Named]) -> Result<Total> {
    let points = expression.points.iter();
    let values = points
        .map(|point| match best(runs, point).and_then(|(_, row)| measured(row)) {
            Some(value) => Ok(value),
            None => Err(Error::Nothing(format!("no number for {point}: {}", absent(runs, point)))),
        })
        .collect::<Result<Vec<Value>>>()?;
    expression.total(&values).map_err(wrong)
}

/// Why the point has no number.
fn absent(runs: &[Named], point: &Point) -> String {
    let unsound = rows(runs, point).find_map(|(_, row)| row.why_unsound());
    let mut failures = runs.iter().flat_map(|(_, run)| &run.failures);
    let failed = || Some(failures.find(|row| row.point == *point)?.reason.clone());
    let why = unsound.or_else(failed);
    why.unwrap_or_else(|| "not measured".to_owned())
}

/// A bar for this share of the whole.
pub(super) fn bar(share: f64) -> String {
    "█".repeat((share * BAR).round() as usize)
}

/// The measured value of the point, or else its prediction from the rows of `known`.
fn source(
    table: Table,
    runs: &[Named],
    known: &LazyCell<(Facts, Vec<PointRow>), impl FnOnce() -> (Facts, Vec<PointRow>)>,
    point: &Point,
) -> Source {
    let from_run = || {
        let ((name, _), row) = best(runs, point)?;
        let doubt = match row.worst_doubt().filter(|_| row.grade == Grade::D) {
            Some(Warning { what, advice, .. }) => format!(", as {what} ({advice})"),
            None => String::new(),
        };
        let from = format!("measured, grade {}{doubt} ({name})", row.grade);
        Some((measured(row)?, Some(row.grade), from))
    };
    let predicted = || {
        let (facts, rows) = &**known;
        let prediction = predict(table, point, facts, rows, &[])?;
        let from = format!("predicted ({}): {}", absent(runs, point), prediction.because);
        let value = Value::Predicted(prediction.low, prediction.high);
        Some((value, None, from))
    };
    let (value, grade, from) = match from_run().or_else(predicted) {
        Some((value, grade, from)) => (Some(value), grade, from),
        None => (None, None, format!("{}, and not predicted", absent(runs, point))),
    };
    Source { point: point.clone(), value, grade, from }
}

/// Measures points into a run of the history.
pub(super) fn measure(
    table: Table,
    all: &RunOptions,
    points: &[&Point],
    interrupted: &AtomicBool,
) -> Result<Named> {
    let requests =
        points.iter().map(|point| request(table, all, point)).collect::<Result<Vec<_>>>()?;
    measure_all(table, all, requests, |_, _, _| Ok(()), interrupted)
}

/// The request for this point alone.
pub(super) fn request(table: Table, all: &RunOptions, point: &Point) -> Result<Request> {
    let has_link = point.link != "none";
    let peer = Some(&all.peer).filter(|_| has_link).cloned().unwrap_or_default();
    // A peer is reached over one link, whatever the link's name is.
    let link = point.link.parse().ok().filter(|_| has_link && peer.host.is_none());
    let settings = point.axes.0.iter();
    let options = RunOptions {
        probes: vec![point.probe.to_string()],
        peer,
        chosen: Chosen {
            launches: all.chosen.launches,
            budget: all.chosen.budget,
            settings: settings
                .map(|(axis, value)| (axis.to_string(), vec![value.to_string()]))
                .collect(),
            links: link.into_iter().collect(),
            only: true,
        },
        ..all.clone()
    };
    Request::new(table, &options)
}

/// Measures these requests, as far as they fit the machine, into a run of the history.
pub(super) fn measure_all(
    table: Table,
    all: &RunOptions,
    requests: Vec<Request>,
    fits: Fits,
    interrupted: &AtomicBool,
) -> Result<Named> {
    let remote_costof = all.remote.remote_costof.as_ref();
    let mut session = Session::new(table, all, requests, remote_costof, interrupted)?;
    session.fits = fits;
    let done = session.measure(hosts(all), None)?.filter(|record| record.run.end.is_some());
    let record = done.ok_or(Error::Interrupted)?;
    Ok((record.path().display().to_string(), record.run))
}

fn missing(sources: &[Source]) -> Error {
    let missing = sources.iter().filter(|source| source.value.is_none());
    let points: Vec<String> =
        missing.map(|source| format!("{} ({})", source.point, source.from)).collect();
    Error::Nothing(format!(
        "no number for {} (--measure measures what is missing, --run FILE takes it from a run)",
        points.join(", ")
    ))
}

fn as_text(expression: &Expression, total: &Total, sources: &[Source]) -> String {
    let unit = expression.unit;
    let is_predicted = |source: &Source| matches!(source.value, Some(Value::Predicted(..)));
    let interval = match total.interval {
        None => "no interval".to_owned(),
        Some((low, high)) if low == high => "exact".to_owned(),
        Some((low, high)) => {
            let kind = if sources.iter().any(is_predicted) {
                "with the ranges of predicted points"
            } else {
                "95 % interval"
            };
            let range = span(&unit.display(low), " to ", &unit.display(high));
            format!("{range}, {kind}")
        }
    };
    let worst = grade(sources).map_or_else(String::new, |grade| format!(", grade {grade}"));
    let mut text = format!("{}  ({interval}{worst})\n\n", unit.display(total.value));
    let width = total.parts.iter().map(|(part, _)| part.chars().count()).max();
    // A part may be as long as the command line, which no format can pad to.
    let width = width.unwrap_or(0).min(prose_columns());
    for (part, value) in &total.parts {
        // A total of zero has no shares.
        let share = value / total.value.max(f64::MIN_POSITIVE);
        let bar = bar(share);
        text += &format!(
            "  {part:width$}  {:>9}  {:>5.1} %  {bar}\n",
            unit.display(*value),
            100.0 * share
        );
    }
    if !sources.is_empty() {
        text.push('\n');
    }
    for source in sources {
        text += &wrapped(prose_columns(), &format!("{}: {}", source.point, source.from), "  ");
    }
    if grade(sources) == Some(Grade::D) {
        text += "\n--measure measures again what has grade D.\n";
    }
    text
}

/// The worst grade of what was measured.
fn grade(sources: &[Source]) -> Option<Grade> {
    sources.iter().filter_map(|source| source.grade).max()
}

fn as_json(expression: &Expression, total: &Total, sources: &[Source]) -> serde_json::Value {
    let parts = total.parts.iter();
    json!({
        "unit": expression.unit,
        "total": total.value,
        "low": total.interval.map(|(low, _)| low),
        "high": total.interval.map(|(_, high)| high),
        "grade": grade(sources),
        "parts": parts.map(|(part, value)| json!({"part": part, "value": value})).collect::<Vec<_>>(),
        "points": sources.iter().map(|source| json!({
            "point": source.point.id(),
            "predicted": matches!(source.value, Some(Value::Predicted(..))),
            "grade": source.grade,
            "from": source.from,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::noise::DISAGREE;
    use costof_model::testing::{RowExt, probe_info, row, run_without_facts};
    use costof_model::{Axes, Grade};

    #[test]
    fn a_row_without_a_usable_interval_is_missing_with_its_reason() {
        let total = |row: PointRow| {
            let mut run = run_without_facts();
            run.points.push(row);
            let expression = Expression::parse("2 * p", &[&probe_info("p")]).unwrap();
            total(&expression, &[("run.jsonl".to_owned(), run)]).map_err(|error| error.to_string())
        };
        let usable = || row("p", Axes::default(), 10.0);
        assert_eq!(total(usable()).unwrap().value, 20.0);
        assert_eq!(total(usable().warned("others", Grade::D)).unwrap().value, 20.0);
        let wide = usable().known_within(0.9).warned(DISAGREE, Grade::D);
        let why = total(wide).unwrap_err();
        assert!(why.contains("p: too noisy: 1.00–19.0 ns"), "{why}");
        let few = usable().of_few_launches(2, (1.0, 780.0));
        let why = total(few).unwrap_err();
        assert!(why.contains("too few launches: 1.00–780 ns"), "{why}");
    }

    /// The newest run first: each with the median and the grade of the point.
    fn chosen(runs: &[(f64, Grade)]) -> (f64, Grade) {
        let named = |(ns, grade): &(f64, Grade)| {
            let mut run = run_without_facts();
            run.points.push(row("p", Axes::default(), *ns).warned("others", *grade));
            (format!("{ns}.jsonl"), run)
        };
        let runs: Vec<Named> = runs.iter().map(named).collect();
        let point = row("p", Axes::default(), 1.0).point;
        let (_, row) = best(&runs, &point).unwrap();
        (row.median("cost").unwrap(), row.grade)
    }

    #[test]
    fn the_best_grade_answers_and_of_equal_ones_the_newest() {
        let (c, d) = (Grade::C, Grade::D);
        assert_eq!(chosen(&[(6050.0, d), (174.0, c)]), (174.0, c));
        assert_eq!(chosen(&[(6050.0, d), (174.0, c), (180.0, c)]), (174.0, c));
        assert_eq!(chosen(&[(1.0, c), (2.0, d), (3.0, Grade::A)]), (3.0, Grade::A));
        assert_eq!(chosen(&[(6050.0, d), (7000.0, d)]), (6050.0, d));
    }

    #[test]
    fn the_first_line_has_the_grade() {
        let expression = Expression::parse("2 * p", &[&probe_info("p")]).unwrap();
        let mut run = run_without_facts();
        run.points.push(row("p", Axes::default(), 10.0).warned("others", Grade::D));
        let runs = [("run.jsonl".to_owned(), run)];
        let known = LazyCell::new(|| (Facts::default(), Vec::new()));
        let sources = [source(&[], &runs, &known, &expression.points[0])];
        let values: Vec<Value> = sources.iter().filter_map(|source| source.value).collect();
        let total = expression.total(&values).unwrap();
        let text = as_text(&expression, &total, &sources);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("20.0 ns") && first.ends_with("grade D)"), "{first}");
        assert!(text.contains("--measure"), "{text}");
        assert_eq!(as_json(&expression, &total, &sources)["grade"], "D");
    }

    #[test]
    fn a_part_of_any_length_is_shown() {
        let long = "0".repeat(70_000) + "1";
        let expression = Expression::parse(&format!("{long} * 2ns + 3ns"), &[]).unwrap();
        let text = as_text(&expression, &expression.total(&[]).unwrap(), &[]);
        assert!(text.contains(&long) && text.contains("  3ns  "), "{text}");
    }
}

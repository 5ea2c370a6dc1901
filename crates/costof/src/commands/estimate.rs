//! `costof estimate`: computes an expression of costs for this machine.

use crate::cli::{Chosen, EstimateOptions, RunOptions};
use crate::error::{Done, Error, wrong};
use crate::machine::hosts;
use crate::plan::keywords::{self, Take};
use crate::plan::request::Request;
use crate::session::{Fits, Session};
use crate::terminal::{print, prose_columns, watch_interrupts};
use crate::{history, record};
use costof_measure::facts;
use costof_measure::probe::{self, Probe};
use costof_model::expression::{Expression, Total, Value};
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::prediction::MeasuredRows;
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
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
    from: String,
}

pub(crate) fn run(table: &'static [&'static Probe], options: &EstimateOptions) -> Done {
    let mut found: BTreeMap<String, &ProbeInfo> = BTreeMap::new();
    let mut find = |word: &str| {
        if let Some(info) = found.get(word) {
            return Ok(*info);
        }
        let probes = keywords::probes(table, word, Take::One);
        let info = probes.map_err(|error| error.to_string())?[0];
        found.insert(word.to_owned(), info);
        Ok(info)
    };
    let expression = Expression::parse_with(&options.expression.join(" "), &mut find);
    let expression = expression.map_err(wrong)?;
    let mut runs = match &options.run {
        Some(path) => vec![(path.display().to_string(), record::read(path)?)],
        None => history(&expression.points),
    };
    if options.measure {
        let missing = expression
            .points
            .iter()
            .filter(|point| measured(&runs, point).is_none());
        let missing: Vec<&Point> = missing.collect();
        if !missing.is_empty() {
            let all = RunOptions::new(options.measuring.clone(), options.quiet.clone(), None);
            runs.insert(0, measure(table, &all, &missing, &*watch_interrupts()?)?);
        }
    }
    // Predictions are for the machine that a run measured, or else for this one.
    let facts = LazyCell::new(|| match (&options.run, runs.first()) {
        (Some(_), Some((_, run))) => run.facts().cloned().unwrap_or_default(),
        _ => facts::gather(),
    });
    let source = |point| source(table, &runs, &facts, point);
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

/// The latest runs of this machine, from the newest to the one that completes the points.
fn history(points: &[Point]) -> Vec<Named> {
    let mut runs = Vec::new();
    for run in history::of_this_machine() {
        runs.push(run);
        if points.iter().all(|point| measured(&runs, point).is_some()) {
            break;
        }
    }
    runs
}

/// The rows of the point, those of the first run first.
fn rows<'r>(
    runs: &'r [Named],
    point: &'r Point,
) -> impl Iterator<Item = (&'r String, &'r PointRow)> {
    runs.iter().filter_map(move |(name, run)| {
        let row = run.points.iter().find(|row| row.point == *point)?;
        Some((name, row))
    })
}

/// The point's median and interval in the first run where they are usable, and the name of that run.
fn measured(runs: &[Named], point: &Point) -> Option<(Value, String)> {
    let mut usable = rows(runs, point).filter(|(_, row)| row.is_usable());
    usable.find_map(|(name, row)| {
        let estimate = row.primary()?;
        let interval = match estimate.ci95 {
            Some(_) => "",
            None => ", no interval: too few launches",
        };
        let from = format!("measured, grade {:?}{interval} ({name})", row.grade);
        Some((Value::Measured(estimate.median, estimate.ci95), from))
    })
}

/// The value of the expression if all of its points were measured.
pub(super) fn total(expression: &Expression, runs: &[Named]) -> Result<Total, Error> {
    let points = expression.points.iter();
    let values = points.map(|point| match measured(runs, point) {
        Some((value, _)) => Ok(value),
        None => Err(Error::Nothing(format!(
            "no number for {point}: {}",
            absent(runs, point)
        ))),
    });
    let values = values.collect::<Result<Vec<Value>, Error>>()?;
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

/// The measured value of the point, or else its prediction from the latest run.
fn source(
    table: &[&'static Probe],
    runs: &[Named],
    facts: &LazyCell<Facts, impl FnOnce() -> Facts>,
    point: &Point,
) -> Source {
    let predicted = || {
        let probe = probe::find(table, &point.probe)?;
        let measured = MeasuredRows::new(runs.first().map_or(&[], |(_, run)| &run.points));
        let prediction = (probe.predict)(point, facts, &measured)?;
        let from = format!(
            "predicted ({}): {}",
            absent(runs, point),
            prediction.because
        );
        Some((Value::Predicted(prediction.low, prediction.high), from))
    };
    let (value, from) = match measured(runs, point).or_else(predicted) {
        Some((value, from)) => (Some(value), from),
        None => (None, format!("{}, and not predicted", absent(runs, point))),
    };
    Source {
        point: point.clone(),
        value,
        from,
    }
}

/// Measures points into a run of the history.
pub(super) fn measure(
    table: &'static [&'static Probe],
    all: &RunOptions,
    points: &[&Point],
    interrupted: &AtomicBool,
) -> Result<Named, Error> {
    let requests = points.iter().map(|point| request(table, all, point));
    let requests = requests.collect::<Result<Vec<_>, Error>>()?;
    measure_all(table, all, requests, |_, _, _| Ok(()), interrupted)
}

/// The request for this point alone.
pub(super) fn request<'a>(
    table: &'a [&'static Probe],
    all: &RunOptions,
    point: &Point,
) -> Result<Request<'a>, Error> {
    let has_link = point.link != "none";
    let peer = Some(&all.peer).filter(|_| has_link).cloned();
    let peer = peer.unwrap_or_default();
    // A peer is reached over one link, whatever the link's name is.
    let link = point.link.parse().ok();
    let link = link.filter(|_| has_link && peer.host.is_none());
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
    table: &'static [&'static Probe],
    all: &RunOptions,
    requests: Vec<Request<'_>>,
    fits: Fits,
    interrupted: &AtomicBool,
) -> Result<Named, Error> {
    let remote_costof = all.remote.remote_costof.as_ref();
    let mut session = Session::new(table, all, requests, remote_costof, interrupted)?;
    session.fits = fits;
    let done = session.measure(hosts(all), None)?;
    let done = done.filter(|record| record.run.end.is_some());
    let record = done.ok_or(Error::Interrupted)?;
    Ok((record.path().display().to_string(), record.run))
}

fn missing(sources: &[Source]) -> Error {
    let missing = sources.iter().filter(|source| source.value.is_none());
    let points: Vec<String> = missing
        .map(|source| format!("{} ({})", source.point, source.from))
        .collect();
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
        Some((low, high)) => {
            let kind = if sources.iter().any(is_predicted) {
                "with the ranges of predicted points"
            } else {
                "95 % interval"
            };
            format!("{} to {}, {kind}", unit.display(low), unit.display(high))
        }
    };
    let mut text = format!("{}  ({interval})\n\n", unit.display(total.value));
    let width = total
        .parts
        .iter()
        .map(|(part, _)| part.chars().count())
        .max();
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
        text += &wrapped(
            prose_columns(),
            &format!("{}: {}", source.point, source.from),
            "  ",
        );
    }
    text
}

fn as_json(expression: &Expression, total: &Total, sources: &[Source]) -> serde_json::Value {
    let parts = total.parts.iter();
    json!({
        "unit": expression.unit,
        "total": total.value,
        "low": total.interval.map(|(low, _)| low),
        "high": total.interval.map(|(_, high)| high),
        "parts": parts.map(|(part, value)| json!({"part": part, "value": value})).collect::<Vec<_>>(),
        "points": sources.iter().map(|source| json!({
            "point": source.point.id(),
            "predicted": matches!(source.value, Some(Value::Predicted(..))),
            "from": source.from,
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::noise::{DISAGREE, Grade};
    use costof_model::testing::{RowExt, probe_info, row, run_without_facts};

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
        assert_eq!(
            total(usable().warned("others", Grade::D)).unwrap().value,
            20.0
        );
        let wide = usable().known_within(0.9).warned(DISAGREE, Grade::D);
        let why = total(wide).unwrap_err();
        assert!(
            why.contains("no number for p: grade D: disagree was seen: stop it"),
            "{why}"
        );
    }

    #[test]
    fn a_part_of_any_length_is_shown() {
        let long = "0".repeat(70_000) + "1";
        let expression = Expression::parse(&format!("{long} * 2ns + 3ns"), &[]).unwrap();
        let text = as_text(&expression, &expression.total(&[]).unwrap(), &[]);
        assert!(text.contains(&long) && text.contains("  3ns  "), "{text}");
    }
}

//! Each row of a history over time, as a sparkline.

use super::{causes, named, step};
use costof_model::history::{Change, History, Reading, Series};
use maud::{Markup, html};
use std::fmt::Write;

/// At most this many rows are drawn.
const ROWS: usize = 400;
/// A sparkline's size; the page stretches it.
const SIZE: (f64, f64) = (600.0, 36.0);
/// A sparkline spans at least this, as the logarithm of a ratio, so that noise looks small.
const MIN_SPAN: f64 = 0.05;

/// `2026-11-20 12:00`
pub(super) fn minute(time: &str) -> String {
    let minute = time.get(.."2026-11-20T12:00".len()).unwrap_or(time);
    minute.replace('T', " ")
}

fn class(change: &Change) -> &'static str {
    if change.worse > 0.0 { "worse" } else { "better" }
}

/// The rows that changed first, as the table has them.
pub(super) fn sparklines(history: &History) -> Markup {
    let changes = |row: usize| {
        let of_row = history.changes.iter().filter(move |change| change.row == row);
        of_row.collect::<Vec<_>>()
    };
    let place = |row: &usize| history.changes.iter().position(|change| change.row == *row);
    let mut rows: Vec<usize> = (0..history.series.len()).collect();
    rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
    html! {
        p.quiet {
            "A line has the medians of one row, from the first run to the latest; the area is their 95 % interval. \
             An upright line is a lasting change: red is worse, green better."
        }
        div.bars.series {
            @for row in rows.iter().take(ROWS) { (line(history, &history.series[*row], &changes(*row))) }
        }
        @if rows.len() > ROWS { p { "and " (rows.len() - ROWS) " more rows, which did not change" } }
    }
}

fn line(history: &History, series: &Series, changes: &[&Change]) -> Markup {
    let show = |value: f64| series.of.unit.display(value);
    let name = named(&series.of, &series.machine, history);
    let medians = series.values.iter().map(|value| value.median);
    let least = medians.clone().fold(f64::INFINITY, f64::min);
    let most = medians.clone().fold(0.0, f64::max);
    html! {
        details.r {
            summary {
                span.n {
                    (name)
                    @for change in changes.iter().take(1) {
                        br; span.dim { (minute(&change.at)) ": " (step(change)) }
                    }
                }
                (sparkline(history, series, &name, changes))
                span.v { (series.values.last().map(|value| show(value.median)).unwrap_or_default()) }
            }
            div.m {
                p { (series.values.len()) " runs, from " (show(least)) " to " (show(most)) }
                ul { @for change in changes {
                    li { (minute(&change.at)) ": " (step(change)) "; " (causes(change).join("; ")) }
                } }
            }
        }
    }
}

fn sparkline(history: &History, series: &Series, name: &str, changes: &[&Change]) -> Markup {
    let place = Place::new(history.runs.len(), &series.values);
    let at = |change: &Change| history.runs.iter().position(|run| *run == change.at);
    let label = match changes {
        [] => "no lasting change".to_owned(),
        [.., first] => format!("lasting changes since {}", minute(&first.at)),
    };
    let (width, height) = SIZE;
    html! {
        svg.spark.b viewBox=(format!("0 0 {width} {height}")) preserveAspectRatio="none" role="img"
            aria-label=(format!("{name}: {label}")) {
            path.f.level opacity="0.35" d=(place.area(&series.values)) {}
            path.ink d=(place.line(&series.values)) {}
            @for change in changes {
                @if let Some(run) = at(change) {
                    path.(class(change)) d=(format!("M{:.1} 0V{height}", place.x(run) - place.step / 2.0)) {
                        title { (minute(&change.at)) ": " (step(change)) }
                    }
                }
            }
        }
    }
}

/// Where the values of a row stand in its sparkline.
struct Place {
    step: f64,
    low: f64,
    high: f64,
}

impl Place {
    fn new(runs: usize, values: &[Reading]) -> Place {
        let logarithms = values.iter().map(|value| value.median.ln());
        let low = logarithms.clone().fold(f64::INFINITY, f64::min);
        let high = logarithms.fold(f64::NEG_INFINITY, f64::max);
        let (middle, half) = (f64::midpoint(low, high), (high - low).max(MIN_SPAN) / 2.0);
        Place {
            step: SIZE.0 / runs.max(1) as f64,
            low: middle - 1.2 * half,
            high: middle + 1.2 * half,
        }
    }

    fn x(&self, run: usize) -> f64 {
        (run as f64 + 0.5) * self.step
    }

    /// The height of a value; one beyond the others is at the edge.
    fn y(&self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).ln() - self.low) / (self.high - self.low);
        (1.0 - share.clamp(0.0, 1.0)) * SIZE.1
    }

    fn line(&self, values: &[Reading]) -> String {
        let points = values.iter().map(|value| (value.run, value.median));
        self.path(points)
    }

    /// Along the upper ends of the intervals, and back along the lower ones.
    fn area(&self, values: &[Reading]) -> String {
        let high = values.iter().map(|value| (value.run, value.ci95.1));
        let low = values.iter().rev().map(|value| (value.run, value.ci95.0));
        self.path(high.chain(low)) + "z"
    }

    fn path(&self, points: impl Iterator<Item = (usize, f64)>) -> String {
        let mut path = String::new();
        for (number, (run, value)) in points.enumerate() {
            let letter = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", self.x(run), self.y(value));
        }
        path
    }
}

//! The latency table: a bar on a logarithmic scale for each named cost. A click shows everything that is
//! known about it.

use super::bars::Ruler;
use crate::names;
use crate::predictions;
use crate::published::{DEAN, Published, not_asked, published};
use crate::rows::Rows;
use crate::table::{cycles, interval, is_hit, measured_with_range};
use crate::text::{SENTENCES, shortened};
use costof_model::{Estimate, PointRow, Unit, Warning, counted, span};
use maud::{Markup, html};

/// A run without headlines shows this many of its points.
const WITHOUT_HEADLINES: usize = 60;
/// A table has at most this many rows; a hostile file may call everything a headline.
const ROWS: usize = 400;

pub(super) fn title(rows: &Rows<'_>) -> String {
    let (shown, all) = (shown(rows).len(), rows.all().len());
    if shown == all {
        format!("The latency table: {}", counted(all, "row"))
    } else {
        format!("The latency table: {shown} of {all} rows")
    }
}

/// The positions of the rows that have a name; if none has one, of the first rows.
fn shown(rows: &Rows<'_>) -> Vec<usize> {
    let headlines: Vec<usize> = all(rows).filter(|at| rows.row(*at).headline).take(ROWS).collect();
    if headlines.is_empty() {
        return all(rows).take(WITHOUT_HEADLINES).collect();
    }
    headlines
}

pub(super) fn table(rows: &Rows<'_>) -> Markup {
    let shown = shown(rows);
    let of = |unit: Unit| -> Vec<(usize, &Estimate)> {
        let measured = shown.iter().filter_map(|at| Some((*at, rows.row(*at).primary()?)));
        let mut of_unit: Vec<_> = measured.filter(|(_, estimate)| estimate.unit == unit).collect();
        of_unit.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
        of_unit
    };
    let (times, rates) = (of(Unit::Nanoseconds), of(Unit::BytesPerSecond));
    let others: Vec<usize> = shown
        .iter()
        .copied()
        .filter(|at| times.iter().chain(&rates).all(|(known, _)| known != at))
        .collect();
    let asked: Vec<&PointRow> = shown.iter().map(|at| rows.row(*at)).collect();
    let absent = not_asked(&asked);
    html! {
        @if shown.is_empty() { p { "No point was measured." } }
        @if !times.is_empty() {
            (key())
            (bars(rows, &times, (1.0, 1e6), true))
            @if asked.iter().any(|row| row.headline) && !absent.is_empty() {
                p.quiet {
                    "On Dean's list, but not in this run: "
                    (absent.iter().map(|known| format!("{} ({})", known.what,
                        Unit::Nanoseconds.display(known.ns.0))).collect::<Vec<_>>().join(", "))
                    "."
                }
            }
        }
        @if !rates.is_empty() {
            h3 { "Rates" }
            (bars(rows, &rates, (1e8, 1e10), true))
        }
        @if !others.is_empty() {
            h3 { "Others" }
            div.bars {
                @for at in others {
                    details.r {
                        summary {
                            span.n { (rows.label(at)) }
                            span.b {}
                            span.v { (measured_with_range(rows.row(at))) }
                            (grade(rows.row(at)))
                        }
                        (more(rows, at))
                    }
                }
            }
        }
    }
}

/// The key to the symbols in [`bars`].
pub(super) fn key() -> Markup {
    html! {
        p.key {
            span { i.f {} " measured (the dark end: its 95 % interval)" }
            span { i.q {} " predicted" }
            span { i.d {} " Jeff Dean's number (2009)" }
            span { i.c {} " a course's report" }
        }
    }
}

fn all(rows: &Rows<'_>) -> std::ops::Range<usize> {
    0..rows.all().len()
}

/// Rows on one axis. Each unfolds to all that is known about it, or links to where the page says it.
pub(super) fn bars(
    rows: &Rows<'_>,
    shown: &[(usize, &Estimate)],
    least: (f64, f64),
    unfolds: bool,
) -> Markup {
    let unit = shown[0].1.unit;
    let known = |at: usize| published(rows.row(at)).filter_map(move |known| known.range(unit));
    let usable = shown.iter().filter(|(at, _)| rows.row(*at).is_usable());
    let values = usable.flat_map(|(at, estimate)| {
        let known = known(*at).flat_map(|(low, high)| [low, high]);
        [estimate.median].into_iter().chain(known)
    });
    let ruler = Ruler::over(values, least, unit);
    html! {
        div.bars {
            div.r.ruler aria-hidden="true" {
                span.n {}
                span.b { @for (value, text) in ruler.ticks() { i.t style=(ruler.at(value)) { (text) } } }
                span.v {}
                span.g {}
            }
            @for (at, estimate) in shown {
                @let cells = html! {
                    span.n { (rows.label(*at)) }
                    (bar(rows.row(*at), estimate, &ruler))
                    span.v { (measured_with_range(rows.row(*at))) }
                    (grade(rows.row(*at)))
                };
                @match unfolds {
                    true => details.r.dim[!rows.row(*at).is_usable()] id={ "r" (at) } { summary { (cells) } (more(rows, *at)) },
                    false => a.r href={ "#r" (at) } { (cells) },
                }
            }
        }
    }
}

fn bar(row: &PointRow, estimate: &Estimate, ruler: &Ruler) -> Markup {
    let expected = row.prediction.as_ref();
    let expected = expected.filter(|expected| expected.metric == row.primary);
    let known = |known: &Published| Some((known.by == DEAN, known.range(estimate.unit)?));
    html! {
        span.b {
            @if row.is_usable() { i.f style={ "width:" (ruler.place(estimate.median)) "%" } {} }
            @if let Some(expected) = expected.map(|expected| (expected.low, expected.high)) {
                i.q style=(ruler.span(expected)) {}
                (ruler.arrows(expected, "e"))
            }
            @if let Some(ends) = estimate.ci95.filter(|_| row.is_usable()) { (interval_at(ruler, ends)) }
            @for (by_dean, (low, high)) in published(row).filter_map(known) {
                @if by_dean { i.d style=(ruler.at(low)) {} }
                @else if low < high { i.c.w style=(ruler.span((low, high))) {} }
                @else { i.c style=(ruler.at(low)) {} }
            }
        }
    }
}

/// An interval on its bar.
pub(super) fn interval_at(ruler: &Ruler, ends: (f64, f64)) -> Markup {
    html! { i.k style=(ruler.span(ends)) {} (ruler.arrows(ends, "i")) }
}

/// A note for a published number next to a row that was measured over an emulated link.
fn ours_is_emulated(row: &PointRow) -> &'static str {
    if row.point.is_emulated() { "; here the link is emulated" } else { "" }
}

fn grade(row: &PointRow) -> Markup {
    html! { span class={ "g g" (row.grade) } { (row.grade) } }
}

fn range(unit: Unit, (low, high): (f64, f64)) -> String {
    span(&unit.display(low), " to ", &unit.display(high))
}

/// What was measured and predicted, where the time goes, and the doubts. The row links to what all rows of a
/// probe share: the method and the meaning of each number.
fn more(rows: &Rows<'_>, at: usize) -> Markup {
    let row = rows.row(at);
    let others: Vec<String> = row
        .metrics
        .iter()
        .filter(|estimate| ![&*row.primary, "estimated_core_cycles"].contains(&&*estimate.name))
        .map(|estimate| {
            let name = estimate.name.replace('_', " ");
            format!("{name} {}", names::shown_median(estimate))
        })
        .collect();
    let cycles = cycles(row);
    html! {
        div.m {
            p { a href={ "#p" (at) } { (rows.name(at)) } }
            dl {
                dt { "Measured" }
                dd {
                    @if let Some(estimate) = row.primary().filter(|_| row.is_usable()) {
                        (interval(estimate)) " (95 %), "
                    }
                    (row.launches) " launches"
                    @if !cycles.is_empty() { ", " (cycles) " cycles" }
                    @if let Some(estimate) = row.primary().filter(|_| row.is_usable()) {
                        @for mode in &estimate.modes {
                            br; "a mode at " (estimate.unit.display(mode.median)) ": "
                            (format!("{:.0}", mode.share * 100.0)) " % of the samples"
                        }
                    }
                }
                @if let Some(expected) = &row.prediction {
                    dt { "Predicted" }
                    dd {
                        @if let Some(estimate) = row.estimate(&expected.metric) {
                            @if expected.metric != row.primary { (expected.metric.replace('_', " ")) " " }
                            (estimate.unit.display_interval((expected.low, expected.high)))
                        }
                        @match is_hit(row) { Some(true) => ", held", Some(false) => ", missed", None => "" }
                        ": " (shortened(&expected.because, SENTENCES))
                    }
                }
                @for known in published(row) {
                    dt { (known.by) }
                    dd { (known.what) ": "
                        (range(Unit::Nanoseconds, known.ns))
                        (ours_is_emulated(row)) }
                }
                @if !others.is_empty() {
                    dt { "Other metrics" }
                    dd { (others.join(", ")) }
                }
                @if !row.warnings.is_empty() {
                    dt { "Doubts" }
                    dd { (doubts(&row.warnings)) }
                }
            }
        }
    }
}

/// The doubts that gave a row its grade, and how many others there are.
fn doubts(warnings: &[Warning]) -> String {
    let worst = warnings.iter().map(|warning| warning.grade).max();
    let (worst, others): (Vec<&Warning>, Vec<&Warning>) =
        warnings.iter().partition(|warning| Some(warning.grade) == worst);
    let mut said: Vec<&str> = worst.iter().map(|warning| &*warning.what).collect();
    let minor = match others.len() {
        1 => "1 minor doubt".to_owned(),
        count => format!("{count} minor doubts"),
    };
    said.extend((!others.is_empty()).then_some(&*minor));
    said.join("; ")
}

/// The missed predictions, the largest miss first, each with its sum.
pub(super) fn missed(rows: &Rows<'_>) -> Vec<(usize, String)> {
    let mut missed: Vec<(f64, usize)> = all(rows)
        .filter_map(|at| {
            let ratio = rows.row(at).missed_by()?;
            Some((ratio.ln().abs(), at))
        })
        .collect();
    missed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let sums = missed.into_iter();
    sums.filter_map(|(_, at)| Some((at, predictions::sum(rows.row(at), &rows.name(at))?))).collect()
}

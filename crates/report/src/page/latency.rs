//! The latency table: a bar on a logarithmic scale for each thing that has a name, with all that is
//! known of it one click away.

use super::bars::Ruler;
use crate::predictions;
use crate::published::{DEAN, Published, not_asked, published};
use crate::rows::Rows;
use crate::table::{interval, is_hit, measured};
use crate::text::{SENTENCES, shortened};
use costof_model::metric::Estimate;
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::PointRow;
use costof_model::unit::Unit;
use maud::{Markup, html};

/// A run that has no headlines shows so many of its points.
const WITHOUT_HEADLINES: usize = 60;
/// A table has so many rows at most; a hostile file may call everything a headline.
const ROWS: usize = 400;

pub(super) fn title(rows: &Rows<'_>) -> String {
    let (shown, all) = (shown(rows).len(), rows.all().len());
    if shown == all {
        format!("The latency table: all {all} rows")
    } else {
        format!("The latency table: {shown} of {all} rows")
    }
}

/// The positions of the rows that have a name; where none has, of the first ones.
fn shown(rows: &Rows<'_>) -> Vec<usize> {
    let headlines = all(rows).filter(|at| rows.row(*at).headline);
    let headlines: Vec<usize> = headlines.take(ROWS).collect();
    if headlines.is_empty() {
        return all(rows).take(WITHOUT_HEADLINES).collect();
    }
    headlines
}

pub(super) fn table(rows: &Rows<'_>) -> Markup {
    let shown = shown(rows);
    let of = |unit: Unit| -> Vec<(usize, &Estimate)> {
        let measured = shown
            .iter()
            .filter_map(|at| Some((*at, rows.row(*at).primary()?)));
        let mut of_unit: Vec<_> = measured
            .filter(|(_, estimate)| estimate.unit == unit)
            .collect();
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
            p.key {
                span { i.f {} " measured, the dark end its 95 % interval" }
                span { i.q {} " predicted" }
                span { i.d {} " Jeff Dean's number (2009)" }
                span { i.c {} " a course's report" }
            }
            (bars(rows, &times, (1.0, 1e9)))
            @if asked.iter().any(|row| row.headline) && !absent.is_empty() {
                p.quiet {
                    "On Dean's list, and not in this run: "
                    (absent.iter().map(|known| format!("{} ({})", known.what,
                        Unit::Nanoseconds.display(known.ns.0))).collect::<Vec<_>>().join(", "))
                    "."
                }
            }
        }
        @if !rates.is_empty() {
            h3 { "Rates" }
            (bars(rows, &rates, (1e8, 1e10)))
        }
        @if !others.is_empty() {
            h3 { "Others" }
            div.bars {
                @for at in others {
                    details.r {
                        summary {
                            span.n { (rows.label(at)) }
                            span.b {}
                            span.v { (measured(rows.row(at))) }
                            (grade(rows.row(at)))
                        }
                        (more(rows, at))
                    }
                }
            }
        }
    }
}

fn all(rows: &Rows<'_>) -> std::ops::Range<usize> {
    0..rows.all().len()
}

pub(super) fn bars(rows: &Rows<'_>, shown: &[(usize, &Estimate)], least: (f64, f64)) -> Markup {
    let unit = shown[0].1.unit;
    let known = |at: usize| published(rows.row(at)).filter_map(move |known| known.range(unit));
    let usable = shown.iter().filter(|(at, _)| rows.row(*at).is_usable());
    let values = usable.flat_map(|(at, estimate)| {
        let (low, high) = estimate.ci95.unwrap_or((estimate.median, estimate.median));
        let known = known(*at).flat_map(|(low, high)| [low, high]);
        [low, estimate.median, high].into_iter().chain(known)
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
                details.r {
                    summary {
                        span.n { (rows.label(*at)) }
                        (bar(rows.row(*at), estimate, &ruler))
                        span.v { (measured(rows.row(*at))) }
                        (grade(rows.row(*at)))
                    }
                    (more(rows, *at))
                }
            }
        }
    }
}

fn bar(row: &PointRow, estimate: &Estimate, ruler: &Ruler) -> Markup {
    let expected = row.prediction.as_ref();
    let expected = expected.filter(|expected| expected.metric == row.primary);
    let known = |known: &Published| {
        let (low, high) = known.range(estimate.unit)?;
        let title = format!(
            "{}: {} ({}){}",
            known.by,
            known.what,
            range(estimate.unit, (low, high)),
            ours_is_emulated(row)
        );
        Some((known.by == DEAN, low, high, title))
    };
    html! {
        span.b {
            i.f style={ "width:" (ruler.place(estimate.median)) "%" } {}
            @if let Some(expected) = expected {
                i.q style=(ruler.span((expected.low, expected.high))) {}
            }
            @if let Some(ends) = estimate.ci95 { i.k style=(ruler.span(ends)) {} }
            @for (by_dean, low, high, title) in published(row).filter_map(known) {
                @if by_dean { i.d style=(ruler.at(low)) title=(title) {} }
                @else if low < high { i.c.w style=(ruler.span((low, high))) title=(title) {} }
                @else { i.c style=(ruler.at(low)) title=(title) {} }
            }
        }
    }
}

/// What has to be known of a published number beside such a row.
fn ours_is_emulated(row: &PointRow) -> &'static str {
    if row.point.is_emulated() {
        "; here the link is emulated"
    } else {
        ""
    }
}

fn grade(row: &PointRow) -> Markup {
    html! { span class={ "g g" (row.grade) } title="grade" { (row.grade) } }
}

fn range(unit: Unit, (low, high): (f64, f64)) -> String {
    if low < high {
        return format!("{} to {}", unit.display(low), unit.display(high));
    }
    unit.display(low)
}

/// What was asked, how it was measured, where the time goes, and where that comes from.
fn more(rows: &Rows<'_>, at: usize) -> Markup {
    let row = rows.row(at);
    let info = rows.info(&row.point.probe);
    let others = row
        .metrics
        .iter()
        .filter(|estimate| estimate.name != row.primary);
    let others: Vec<&Estimate> = others.collect();
    let about = |name: &str| {
        let metric = rows.metric(&row.point.probe, name)?;
        Some(shortened(&metric.about, SENTENCES))
    };
    html! {
        div.m {
            p {
                a href={ "#p" (at) } { (rows.name(at)) }
                @if let Some(info) = info { ": " (shortened(&info.question, SENTENCES)) }
            }
            dl {
                dt { "Measured" }
                dd {
                    (measured(row))
                    @if let Some(estimate) = row.primary() {
                        @if row.is_usable() { " (95 % interval " (interval(estimate)) ")" }
                        " in " (row.launches) " launches"
                        @if let Some(about) = about(&estimate.name) { ": " (about) }
                        @for mode in &estimate.modes {
                            br; "one mode at " (estimate.unit.display(mode.median)) " in "
                            (format!("{:.0}", mode.share * 100.0)) " %"
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
                    dt { "Where it goes" }
                    dd { ul {
                        @for estimate in others {
                            li { b { (estimate.name.replace('_', " ")) } " "
                                (estimate.unit.display(estimate.median))
                                @if let Some(about) = about(&estimate.name) { ": " (about) } }
                        }
                    } }
                }
                @if let Some(info) = info {
                    dt { "How" } dd { (shortened(&info.how, SENTENCES)) }
                    dt { "Sources" } dd { (sources(info)) }
                }
                @if !row.warnings.is_empty() {
                    dt { "Doubts" }
                    dd { ul { @for warning in &row.warnings {
                        li { "grade " (warning.grade) ": " (warning.what) ": " (warning.advice) }
                    } } }
                }
            }
        }
    }
}

/// Where the method comes from, as far as there is room for it in every row.
fn sources(info: &ProbeInfo) -> String {
    let parts = info.sources.iter().flat_map(|source| ["; ", source]);
    let letters = parts.skip(1).flat_map(str::chars).take(SENTENCES + 1);
    shortened(&letters.collect::<String>(), SENTENCES)
}

/// The predictions that were missed, the furthest off first, each with its sum.
pub(super) fn missed(rows: &Rows<'_>) -> Vec<(usize, String)> {
    let missed = all(rows).filter_map(|at| {
        let ratio = rows.row(at).missed_by()?;
        Some((ratio.ln().abs(), at))
    });
    let mut missed: Vec<(f64, usize)> = missed.collect();
    missed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let sums = missed.into_iter();
    sums.filter_map(|(_, at)| Some((at, predictions::sum(rows.run, rows.row(at))?)))
        .collect()
}

//! The first screen: how far the run can be trusted, what matters, and the best-known numbers.

use super::findings::Found;
use super::latency;
use super::noise::by_grade;
use crate::document::commands;
use crate::known;
use crate::notes;
use crate::rows::Rows;
use costof_model::{Estimate, PointRow, Unit};
use maud::{Markup, html};

/// The meanings of the grades, from A on.
const MEANINGS: [&str; 4] = [
    "no disturbance that could have changed the number",
    "small disturbances",
    "disturbances that may have changed it",
    "disturbances that may account for all of it",
];
/// An axis has at most this many rows, however many a hostile file has.
const MAX: usize = 20;

pub(super) fn section(rows: &Rows<'_>, found: &Found<'_>) -> Markup {
    html! {
        (trust(rows))
        (found.matters(rows))
        (known(rows))
    }
}

/// How many rows can be trusted, what disturbs the others, and a bar of the grades.
fn trust(rows: &Rows<'_>) -> Markup {
    let counted = by_grade(rows.run);
    html! {
        @if !rows.all().is_empty() {
            p { (commands(&notes::verdict(rows.run))) "." }
            div.trust aria-hidden="true" {
                @for (grade, count) in counted.iter().filter(|(_, count)| *count > 0) {
                    i class={ "g" (grade) } style={ "flex:" (count) } { (grade) " " (count) }
                }
            }
            p.quiet {
                @for ((grade, _), meaning) in counted.iter().zip(MEANINGS) { b { (grade) } " " (meaning) ". " }
            }
        }
    }
}

/// The best-known numbers on one axis.
fn known(rows: &Rows<'_>) -> Markup {
    let shown = known_times(rows);
    html! {
        @if shown.len() > 2 {
            h2 { "Numbers everyone should know" }
            (latency::key())
            (latency::bars(rows, &shown, (1.0, 1e6), false))
        }
    }
}

/// The positions and costs of the rows with the best-known numbers, the shortest first.
pub(super) fn known_times<'a>(rows: &Rows<'a>) -> Vec<(usize, &'a Estimate)> {
    times(rows, known::is_first)
}

/// The positions and costs of such rows, the shortest first.
pub(super) fn times<'a>(
    rows: &Rows<'a>,
    is_shown: impl Fn(&PointRow) -> bool,
) -> Vec<(usize, &'a Estimate)> {
    let rows = rows.all().iter().enumerate();
    let mut times: Vec<(usize, &Estimate)> = rows
        .filter(|(_, row)| is_shown(row))
        .filter_map(|(at, row)| Some((at, row.primary()?)))
        .filter(|(_, estimate)| estimate.unit == Unit::Nanoseconds)
        .collect();
    times.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    times.truncate(MAX);
    times
}

//! The top of a page for a run that was asked about few probes: the question, its answer, and one plot.

use super::probes::Chosen;
use super::{figures, first, latency};
use crate::names::points_counted;
use crate::rows::Rows;
use crate::table::{interval_of, measured, measured_with_range};
use crate::text::{SENTENCES, shortened};
use costof_model::{Point, PointRow};
use maud::{Markup, html};
use std::collections::HashSet;

/// A run about more probes has no single question.
const FEW: usize = 3;

/// The probes that the run was asked about, if they are few.
pub(super) fn asked<'a>(rows: &Rows<'a>) -> Vec<&'a str> {
    let needed: HashSet<&Point> = rows.run.run.plan.needed().collect();
    let is_asked = |at: &usize| !needed.contains(&rows.row(*at).point);
    let probes = rows.by_probe().into_iter();
    let mut asked: Vec<&str> =
        probes.filter(|(_, rows)| rows.iter().any(is_asked)).map(|(probe, _)| probe).collect();
    if asked.len() > FEW {
        asked.clear();
    }
    asked
}

/// The title of the page: the question, if there is exactly one.
pub(super) fn title<'a>(rows: &Rows<'a>, asked: &[&str]) -> &'a str {
    let info = asked.first().filter(|_| asked.len() == 1);
    let info = info.and_then(|probe| rows.info(probe));
    info.map_or("What things cost here", |info| &info.question)
}

/// The questions with their answers, and the first plot, which is removed from the probes' own figures.
pub(super) fn section(rows: &Rows<'_>, asked: &[&str], chosen: &mut [Chosen<'_>]) -> Markup {
    let mut of_asked: Vec<&mut Chosen<'_>> =
        chosen.iter_mut().filter(|(probe, ..)| asked.contains(probe)).collect();
    let plotted = of_asked.iter_mut().find_map(|(_, _, figures)| {
        let seen = figures.iter().position(|figure| !figure.folded)?;
        Some(figures.remove(seen))
    });
    html! {
        @for (probe, positions, _) in &of_asked {
            @if let Some(info) = rows.info(probe).filter(|_| asked.len() > 1) {
                h2 { (shortened(&info.question, SENTENCES)) }
            }
            (answer(rows, positions))
        }
        @match &plotted {
            Some(figure) => (figures::figures(std::iter::once(figure))),
            None => (bars(rows, asked)),
        }
    }
}

/// The costs of these probes on one axis.
fn bars(rows: &Rows<'_>, asked: &[&str]) -> Markup {
    let times = first::times(rows, |row| asked.contains(&&*row.point.probe));
    html! { @if !times.is_empty() { (latency::bars(rows, &times, (1.0, 1e3), false)) } }
}

/// The value of the headline, or else of the first point, and the range of all points.
fn answer(rows: &Rows<'_>, positions: &[usize]) -> Markup {
    let headline = positions.iter().find(|at| rows.row(**at).headline);
    let at = *headline.unwrap_or(&positions[0]);
    let row = rows.row(at);
    let interval = interval_of(row);
    html! {
        p.answer {
            b { (measured(row)) }
            @if !interval.is_empty() { " (95 % interval " (interval) ")" }
            ", grade " (row.grade) ": " (rows.label(at)) "."
        }
        @if let Some([least, most]) = ends(rows, positions) {
            p {
                (points_counted(positions.len())) ", from " (measured_with_range(rows.row(least))) " (" (rows.label(least)) ") to "
                (measured_with_range(rows.row(most))) " (" (rows.label(most)) ")."
            }
        }
    }
}

/// The smallest and the largest of several points with the same unit.
fn ends(rows: &Rows<'_>, positions: &[usize]) -> Option<[usize; 2]> {
    let median = |row: &PointRow| {
        let estimate = row.primary().filter(|_| row.is_usable())?;
        Some((estimate.unit, estimate.median))
    };
    let mut known: Vec<_> =
        positions.iter().filter_map(|at| Some((*at, median(rows.row(*at))?))).collect();
    known.sort_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
    let (first, last) = (known.first()?, known.last()?);
    (known.len() > 1 && first.1.0 == last.1.0).then_some([first.0, last.0])
}

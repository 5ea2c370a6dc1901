//! What is said first of a run that was asked about few probes: the question, its answer, and one plot.

use super::probes::Chosen;
use super::{figures, first, latency};
use crate::names::points_counted;
use crate::rows::Rows;
use crate::table::{interval_of, measured};
use crate::text::{SENTENCES, shortened};
use costof_model::rows::PointRow;
use maud::{Markup, html};

/// More probes are no question.
const FEW: usize = 3;

/// The probes that the run was asked about, where they are few. What predictions build on, and has nothing
/// but its headlines, was measured for another probe's sake.
pub(super) fn asked<'a>(rows: &Rows<'a>) -> Vec<&'a str> {
    let probes = rows.by_probe();
    let infos = || probes.iter().filter_map(|(probe, _)| rows.info(probe));
    let is_base = |probe: &str| infos().any(|info| info.after.iter().any(|id| id == probe));
    let has_more = |at: &usize| !rows.row(*at).headline;
    let is_asked = |(probe, positions): &&(&str, Vec<usize>)| {
        !is_base(probe) || positions.iter().any(has_more)
    };
    let mut asked: Vec<&str> = probes
        .iter()
        .filter(is_asked)
        .map(|(probe, _)| *probe)
        .collect();
    if asked.len() > FEW {
        asked.clear();
    }
    asked
}

/// What the page is called: the question, where it is one.
pub(super) fn title<'a>(rows: &Rows<'a>, asked: &[&str]) -> &'a str {
    let info = asked.first().filter(|_| asked.len() == 1);
    let info = info.and_then(|probe| rows.info(probe));
    info.map_or("What things cost here", |info| &info.question)
}

/// The questions with their answers, and the first plot, which is taken from those of the probes.
pub(super) fn section(rows: &Rows<'_>, asked: &[&str], chosen: &mut [Chosen<'_>]) -> Markup {
    let mut of_asked: Vec<&mut Chosen<'_>> = chosen
        .iter_mut()
        .filter(|(probe, ..)| asked.contains(probe))
        .collect();
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

/// The times of the probes on an axis.
fn bars(rows: &Rows<'_>, asked: &[&str]) -> Markup {
    let times = first::times(rows, |row| asked.contains(&&*row.point.probe));
    html! { @if !times.is_empty() { (latency::bars(rows, &times, (1.0, 1e3), false)) } }
}

/// What the headline came to, or else the first point, and from where to where all go.
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
                (points_counted(positions.len())) ", from " (measured(rows.row(least))) " (" (rows.label(least)) ") to "
                (measured(rows.row(most))) " (" (rows.label(most)) ")."
            }
        }
    }
}

/// The least and the greatest of several points of one unit.
fn ends(rows: &Rows<'_>, positions: &[usize]) -> Option<[usize; 2]> {
    let median = |row: &PointRow| {
        let estimate = row.primary().filter(|_| row.is_usable())?;
        Some((estimate.unit, estimate.median))
    };
    let known = positions
        .iter()
        .filter_map(|at| Some((*at, median(rows.row(*at))?)));
    let mut known: Vec<_> = known.collect();
    known.sort_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
    let (first, last) = (known.first()?, known.last()?);
    (known.len() > 1 && first.1.0 == last.1.0).then_some([first.0, last.0])
}

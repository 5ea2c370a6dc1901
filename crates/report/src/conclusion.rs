//! The most important results of a run: the most surprising ones, and how far the numbers can be trusted.

use crate::names::label;
use crate::rows::in_order;
use costof_findings::Finding;
use costof_findings::Kind;
use costof_findings::all::findings;
use costof_findings::sureness::Points;
use costof_findings::surprise::{of_row, surprise};
use costof_model::{Grade, Point, PointRow, Run};
use std::cmp::Reverse;
use std::collections::HashSet;

/// At most this many lines, which a reader takes in at a glance.
const LINES: usize = 5;

/// A result that matters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Matter<'a> {
    Found(&'a Finding),
    /// A row that missed its prediction, and that no finding mentions.
    Missed(&'a PointRow),
}

impl Matter<'_> {
    /// The result as a line. If its evidence has a grade that is not to be relied on, the grade comes first.
    fn line(self, run: &Run, points: &Points<'_>) -> String {
        match self {
            Matter::Found(found) => {
                let grade = points.sureness(found).map(|sureness| sureness.grade);
                doubt(grade) + &found.sentence
            }
            Matter::Missed(row) => doubt(Some(row.grade)) + &missed_line(run, row),
        }
    }
}

/// The results that matter, as lines.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let findings = findings(run);
    let points = Points::new(run);
    let matters = matters(run, &points, &findings).into_iter();
    matters.map(|matter| matter.line(run, &points)).collect()
}

/// The findings and missed predictions that matter most, the most surprising first. Both the terminal and the
/// page begin with them.
pub(crate) fn matters<'a>(
    run: &'a Run,
    points: &Points<'_>,
    findings: &'a [Finding],
) -> Vec<Matter<'a>> {
    // That one is about all rows together, as the verdict is.
    let found = findings.iter().filter(|found| found.kind != Kind::CrossoverDisturbed);
    let found = found.map(|found| (order(surprise(points, found)), Matter::Found(found)));
    let missed = missed(run, findings).map(|row| (order(of_row(row)), Matter::Missed(row)));
    let mut matters: Vec<_> = found.chain(missed).collect();
    matters.sort_by_key(|(surprise, _)| *surprise);
    let first = matters.into_iter().take(LINES);
    first.map(|(_, matter)| matter).collect()
}

/// A prefix for a line whose evidence has an unreliable grade.
fn doubt(grade: Option<Grade>) -> String {
    let low = grade.filter(|grade| *grade > Grade::B);
    low.map_or_else(String::new, |grade| format!("(grade {grade}) "))
}

/// A sort key: the more surprising comes first.
fn order(surprise: f64) -> Reverse<u64> {
    Reverse((surprise * 1e6) as u64)
}

/// The prediction that each probe missed by most, unless a finding mentions that point.
fn missed<'r>(run: &'r Run, findings: &[Finding]) -> impl Iterator<Item = &'r PointRow> {
    let covered: HashSet<&Point> = findings.iter().flat_map(|found| &found.evidence).collect();
    let counts = |row: &&PointRow| row.missed_by().is_some() && !covered.contains(&row.point);
    let mut missed: Vec<&PointRow> = in_order(run).filter(counts).collect();
    missed.sort_by_key(|row| order(of_row(row)));
    let mut known = HashSet::new();
    missed.retain(|row| known.insert(&row.point.probe));
    missed.into_iter()
}

/// `VM exit and entry: 3.59 µs, where 353 ns – 1.36 µs was predicted`.
pub(crate) fn missed_line(run: &Run, row: &PointRow) -> String {
    let Some((expected, measured)) = row.scored() else {
        return String::new();
    };
    let metric = match expected.metric == row.primary {
        true => String::new(),
        false => format!("{} ", expected.metric),
    };
    format!(
        "{}: {metric}{}, where {} was predicted",
        label(run, &row.point),
        measured.unit.display(measured.median),
        measured.unit.display_interval((expected.low, expected.high)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{RowExt, golden, planned, row};
    use costof_model::{Axes, Unit};

    #[test]
    fn the_most_surprising_comes_first_and_what_noise_decides_not_at_all() {
        let missed = |probe, high| {
            let row = row(probe, Axes::default(), 100.0).measured_in(Unit::One);
            row.predicted(1.0, high)
        };
        let rows = [
            missed("a.some", 50.0).warned("others", Grade::C),
            missed("a.most", 5.0),
            missed("a.noise", 2.0).warned("others", Grade::D),
        ];
        let mut run = planned([rows.iter().map(|row| row.point.clone()).collect()]);
        run.points = rows.to_vec();
        run.run.plan.blocks[0].labels = vec![(1, "most of all".to_owned())];
        golden("report/conclusion", "missed predictions", &lines(&run).join("\n"));
    }
}

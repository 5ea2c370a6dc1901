//! What matters in a run: what was most surprising, and how far the numbers can be trusted.

use crate::names::short_point;
use crate::table::in_order;
use costof_findings::Kind;
use costof_findings::all::both;
use costof_findings::finding::Finding;
use costof_findings::sureness::Points;
use costof_findings::surprise::{of_row, surprise};
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use std::cmp::Reverse;
use std::collections::HashSet;

/// So many lines are read at a glance.
pub(crate) const LINES: usize = 5;

/// Findings and missed predictions, most surprising first; what rests on points of grade D last, as noise
/// may have made it.
pub(crate) fn lines(run: &Run) -> Vec<String> {
    let (mut findings, questions) = both(run);
    findings.extend(questions.into_iter().flat_map(|asked| asked.answers));
    findings.retain(|found| found.kind != Kind::PredictionScore);
    let points = Points::new(run);
    let sentence = |found: &Finding| {
        let grade = points.sureness(found).map(|sureness| sureness.grade);
        let key = (grade == Some(Grade::D), order(surprise(&points, found)));
        (key, doubt(grade) + &found.sentence())
    };
    let mut lines: Vec<_> = findings.iter().map(sentence).collect();
    lines.extend(missed(run, &findings).map(|row| {
        let key = (row.grade == Grade::D, order(of_row(row)));
        (key, doubt(Some(row.grade)) + &line(run, row))
    }));
    lines.sort_by_key(|(key, _)| *key);
    lines
        .into_iter()
        .map(|(_, line)| line)
        .take(LINES)
        .collect()
}

/// Stands before a line that rests on points of a grade that is not to be relied on.
fn doubt(grade: Option<Grade>) -> String {
    let low = grade.filter(|grade| *grade > Grade::B);
    low.map_or_else(String::new, |grade| format!("(grade {grade}) "))
}

/// Sorts what is more surprising before the rest.
fn order(surprise: f64) -> Reverse<u64> {
    Reverse((surprise * 1e6) as u64)
}

/// Of each probe the prediction that was missed by most, unless a finding speaks of that point. Under
/// contention for CPUs a number is not the machine's, hence no surprise.
fn missed<'r>(run: &'r Run, findings: &[Finding]) -> impl Iterator<Item = &'r PointRow> {
    let covered: HashSet<&Point> = findings.iter().flat_map(|found| &found.evidence).collect();
    let is_covered = |row: &PointRow| covered.contains(&row.point);
    let missed = in_order(run).filter(|row| row.missed_by().is_some() && !is_covered(row));
    let mut missed: Vec<&PointRow> = missed.filter(|row| row.contention() <= Grade::B).collect();
    missed.sort_by_key(|row| order(of_row(row)));
    let mut known = HashSet::new();
    missed.retain(|row| known.insert(&row.point.probe));
    missed.into_iter()
}

/// `VM exit and entry: 3.59 µs, where 353 ns – 1.36 µs was predicted`.
fn line(run: &Run, row: &PointRow) -> String {
    let Some((expected, measured)) = row.scored() else {
        return String::new();
    };
    let point = || short_point(&row.point, run.probe(&row.point.probe));
    let metric = match expected.metric == row.primary {
        true => String::new(),
        false => format!("{} ", expected.metric),
    };
    format!(
        "{}: {metric}{}, where {} was predicted",
        row.label.clone().unwrap_or_else(point),
        measured.unit.display(measured.median),
        measured
            .unit
            .display_interval((expected.low, expected.high)),
    )
}

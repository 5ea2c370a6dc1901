//! Which findings are surprising: by how far the points that a finding rests on lie outside what was
//! predicted of them.

use crate::finding::Finding;
use crate::prediction_score;
use crate::sureness::Points;
use costof_model::point::Point;
use costof_model::run_file::Run;

/// Most surprising first; those that are equally so stay in their order, and what sums up all
/// predictions comes last.
pub(crate) fn in_order(run: &Run, findings: &mut [Finding]) {
    let rows = Points::of(run);
    findings.sort_by_cached_key(|finding| {
        let surprise = surprise(&rows, finding);
        // Descending, to a millionth.
        (
            finding.kind == prediction_score::KIND,
            std::cmp::Reverse((surprise * 1e6) as u64),
        )
    });
}

/// How far the points of a finding lie outside what was predicted of them, as a logarithm.
fn surprise(rows: &Points<'_>, finding: &Finding) -> f64 {
    let off = |point: &Point| {
        let row = rows.row(point)?;
        let expected = row.prediction.as_ref()?;
        let ratio = expected.missed_by(row.estimate(&expected.metric)?)?;
        Some(ratio.ln().abs()).filter(|off| off.is_finite())
    };
    finding.evidence.iter().filter_map(off).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{expect, point_row, run};
    use costof_model::axis::Axes;

    #[test]
    fn what_is_furthest_from_its_prediction_comes_first() {
        let mut run = run(&[]);
        for (size, (low, high)) in [(1, (90.0, 110.0)), (2, (10.0, 20.0)), (3, (50.0, 60.0))] {
            let axes = Axes::default().with("size", size);
            let row = point_row("null", "cost", axes, 100.0, (100.0, 100.0));
            run.points.push(row);
            expect(&mut run, low, high);
        }
        let about = |kind: &'static str, row: usize| Finding {
            kind: kind.into(),
            sentence: String::new(),
            advice: None,
            evidence: vec![run.points[row].point.clone()],
        };
        let mut findings = vec![
            about(prediction_score::KIND, 1),
            about("held", 0),
            about("also_held", 0),
            about("missed", 2),
            about("missed_more", 1),
        ];
        in_order(&run, &mut findings);
        let kinds: Vec<&str> = findings.iter().map(|finding| &*finding.kind).collect();
        assert_eq!(
            kinds,
            [
                "missed_more",
                "missed",
                "held",
                "also_held",
                prediction_score::KIND
            ]
        );
    }
}

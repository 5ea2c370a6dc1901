//! How surprising findings are: how far the points of a finding lie outside their predictions.

use crate::prelude::*;
use crate::sureness::Points;
use std::cmp::Reverse;

/// Sorts the most surprising first. Equally surprising findings keep their order.
pub(crate) fn in_order(run: &Run, findings: &mut [Finding]) {
    let rows = Points::new(run);
    findings.sort_by_cached_key(|finding| Reverse((surprise(&rows, finding) * 1e6) as u64));
}

/// How far the points of a finding lie outside their predictions, as a logarithm. A contradiction, or a part of the
/// machine that is unlike the others, is more surprising than anything else.
pub fn surprise(rows: &Points<'_>, finding: &Finding) -> f64 {
    if matches!(
        finding.kind,
        Kind::Contradiction | Kind::SlowCore | Kind::BusyCore | Kind::HeldClock | Kind::NodeMemory
    ) {
        return f64::INFINITY;
    }
    let rows = finding.evidence.iter().filter_map(|point| rows.row(point));
    rows.map(of_row).fold(0.0, f64::max)
}

/// How far a row lies outside its prediction, as a logarithm; 0 if it does not.
pub fn of_row(row: &PointRow) -> f64 {
    let off = row.missed_by().map(|ratio| ratio.ln().abs());
    off.filter(|off| off.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, expect, point_row, run};

    #[test]
    fn what_is_furthest_from_its_prediction_comes_first() {
        let mut run = run(&[]);
        for (size, (low, high)) in [(1, (90.0, 110.0)), (2, (10.0, 20.0)), (3, (50.0, 60.0))] {
            let axes = axes!(size);
            let row = point_row("harness.null", "cost", axes, 100.0, (100.0, 100.0));
            run.points.push(row);
            expect(&mut run, low, high);
        }
        let about = |kind: Kind, row: usize| Finding {
            kind,
            sentence: String::new(),
            advice: None,
            evidence: vec![run.points[row].point.clone()],
        };
        let mut findings = vec![
            about(Kind::Modes, 0),
            about(Kind::Scaling, 0),
            about(Kind::ForkGrowth, 2),
            about(Kind::VmExit, 1),
        ];
        in_order(&run, &mut findings);
        let kinds: Vec<Kind> = findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [Kind::VmExit, Kind::ForkGrowth, Kind::Modes, Kind::Scaling]);
    }
}

//! Finds costs that are far above or below their prediction, and how much the prediction lacks or has too
//! much.

use crate::Kind;
use crate::finding::Finding;
use crate::naming::named;
use crate::pairs::greatest;
use crate::text::{ns, range};
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit};

/// A cost that is closer to its prediction only takes a little more; no term is missing.
const FAR: f64 = 1.5;
/// Points of `copy.` have a finding of their own, which also looks at the CPUs of both peers.
const FOUND_ELSEWHERE: &str = "copy.";

/// For each probe, the point whose time is furthest from its prediction.
pub(crate) fn missing_term(run: &Run) -> Vec<Finding> {
    let distance = |row: &PointRow| far_off(row).map_or(0.0, |ratio| ratio.ln().abs());
    let far = run.select_all().filter(|row| far_off(row).is_some());
    let probes = far.group_with(|row| Some(&row.point.probe)).into_iter();
    let furthest = probes.filter_map(|(_, rows)| {
        // If several are equally far off, the first.
        greatest(rows.iter().copied().rev(), distance)
    });
    furthest.filter_map(|row| found(run, row)).collect()
}

/// How far the whole interval of a point's time is from its prediction; none if it is close.
fn far_off(row: &PointRow) -> Option<f64> {
    let (expected, measured) = row.scored()?;
    let is_time = measured.unit == Unit::Nanoseconds && measured.better == Better::Lower;
    let counts = is_time && !row.point.probe.starts_with(FOUND_ELSEWHERE);
    let (low, high) = measured.usable_interval()?;
    let nearest = match () {
        () if low > expected.high => low,
        () if high < expected.low => high,
        () => return None,
    };
    let ratio = expected.missed_by(nearest)?;
    let far = !(1.0 / FAR..=FAR).contains(&ratio);
    (counts && far && ratio > 0.0).then_some(ratio)
}

fn found(run: &Run, row: &PointRow) -> Option<Finding> {
    let (expected, measured) = row.scored()?;
    let (low, high) = measured.usable_interval()?;
    let off = if low > expected.high {
        format!("leaves out at least {}", ns(low - expected.high))
    } else {
        format!("counts at least {} too much", ns(expected.low - high))
    };
    let (point, takes) = (named(run, row), ns(measured.median));
    let expected = range((expected.low, expected.high), ns);
    let sentence =
        format!("{point} takes {takes} where {expected} were predicted: the prediction {off}");
    Some(Finding::new(Kind::MissingTerm, [row], sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, known_row, reads, sentences};
    use costof_model::noise::Grade;
    use costof_model::prediction::Prediction;

    fn row(probe: &'static str, size: u64, us: f64, (low, high): (f64, f64)) -> PointRow {
        let axes = axes!(size);
        let ns = us * 1e3;
        let mut row = known_row(probe, "latency", axes, ns, 0.02);
        row.prediction = Some(Prediction {
            metric: "latency".into(),
            low: low * 1e3,
            high: high * 1e3,
            because: "two system calls".to_owned(),
        });
        row
    }

    #[test]
    fn what_no_prediction_counted_is_reported_of_the_furthest_point_of_a_probe() {
        let rows = [
            row("os.process", 1, 200.0, (30.0, 100.0)),
            row("os.process", 2, 400.0, (30.0, 100.0)),
            row("os.thread", 1, 10.0, (30.0, 100.0)),
        ];
        reads!(sentences(missing_term, &rows));
    }

    #[test]
    fn what_is_near_or_disturbed_or_a_copys_is_not_reported() {
        let near = row("os.process", 1, 140.0, (30.0, 100.0));
        let copies = row("copy.send", 1, 400.0, (30.0, 100.0));
        let disturbed = row("os.process", 1, 400.0, (30.0, 100.0)).warned("others", Grade::D);
        assert!(sentences(missing_term, &[near, copies, disturbed]).is_empty());
    }
}

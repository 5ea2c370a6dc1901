//! What took much more than was predicted, or less: how much is missing in the prediction, or too much.

use crate::finding::{Finding, grade_by_others};
use crate::send_crossover::circumstances;
use costof_model::metric::Estimate;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::prediction::Prediction;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit};

/// What is off by less is something that takes a little more, not something that was forgotten.
const FAR: f64 = 1.5;
/// Those of `copy.` have a sentence of their own, with what both ends' processors say of it.
const TOLD_ELSEWHERE: &str = "copy.";

/// The point of each probe whose time is furthest from what was predicted. Where others used the
/// processors, a number is not the machine's.
pub(crate) fn missing_term(run: &Run) -> Vec<Finding> {
    let mut furthest: Vec<(&PointRow, f64)> = Vec::new();
    for row in &run.points {
        let Some(ratio) = far_off(row) else { continue };
        let distance = |ratio: f64| ratio.ln().abs();
        let same = furthest
            .iter_mut()
            .find(|(known, _)| known.point.probe == row.point.probe);
        match same {
            Some(known) if distance(known.1) < distance(ratio) => *known = (row, ratio),
            Some(_) => {}
            None => furthest.push((row, ratio)),
        }
    }
    furthest
        .into_iter()
        .filter_map(|(row, ratio)| said(run, row, ratio))
        .collect()
}

/// How far the time of a point is from what was predicted of it, where that is far.
fn far_off(row: &PointRow) -> Option<f64> {
    let (expected, measured) = both(row)?;
    let is_time = measured.unit == Unit::Nanoseconds && measured.better == Better::Lower;
    let counts = is_time && !row.point.probe.starts_with(TOLD_ELSEWHERE);
    let ratio = expected.missed_by(measured)?;
    let far = !(1.0 / FAR..=FAR).contains(&ratio);
    (counts && far && ratio > 0.0 && grade_by_others(row) <= Grade::B).then_some(ratio)
}

fn both(row: &PointRow) -> Option<(&Prediction, &Estimate)> {
    let expected = row.prediction.as_ref()?;
    Some((expected, row.estimate(&expected.metric)?))
}

fn said(run: &Run, row: &PointRow, ratio: f64) -> Option<Finding> {
    let (expected, measured) = both(row)?;
    let (low, high) = measured.ci95.unwrap_or((measured.median, measured.median));
    let ns = |value: f64| Unit::Nanoseconds.display(value);
    let off = match ratio > 1.0 {
        true => format!(
            "at least {} more than all that was counted in that prediction",
            ns(low - expected.high)
        ),
        false => format!(
            "at least {} less than the least that was counted in that prediction",
            ns(expected.low - high)
        ),
    };
    Some(Finding {
        kind: "missing_term".into(),
        sentence: format!(
            "{} takes {} where {} to {} were predicted: {off}",
            named(run, &row.point),
            ns(measured.median),
            ns(expected.low),
            ns(expected.high),
        ),
        advice: None,
        evidence: vec![row.point.clone()],
    })
}

/// A point by its probe, what is not usual about it, and its link.
pub(crate) fn named(run: &Run, point: &Point) -> String {
    let over = match &*point.link {
        "none" => String::new(),
        link => format!(" over {link}"),
    };
    format!("{}{}{over}", point.probe, circumstances(run, point))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    fn row(probe: &'static str, size: u64, us: f64, (low, high): (f64, f64)) -> PointRow {
        let axes = Axes::default().with("size", size);
        let ns = us * 1e3;
        let mut row = point_row(probe, "latency", axes, ns, (ns * 0.98, ns * 1.02));
        row.prediction = Some(Prediction {
            metric: "latency".into(),
            low: low * 1e3,
            high: high * 1e3,
            because: "two system calls".to_owned(),
        });
        row
    }

    #[test]
    fn what_no_prediction_counted_is_told_of_the_furthest_point_of_a_probe() {
        let rows = [
            row("os.process", 1, 200.0, (30.0, 100.0)),
            row("os.process", 2, 400.0, (30.0, 100.0)),
            row("os.thread", 1, 10.0, (30.0, 100.0)),
        ];
        assert_eq!(
            sentences(missing_term, &rows),
            [
                "os.process takes 400 µs where 30.0 µs to 100 µs were predicted: at least 292 µs more \
                 than all that was counted in that prediction",
                "os.thread takes 10.0 µs where 30.0 µs to 100 µs were predicted: at least 19.8 µs less \
                 than the least that was counted in that prediction",
            ]
        );
    }

    #[test]
    fn what_is_near_or_disturbed_or_a_copys_is_not_told() {
        let near = row("os.process", 1, 140.0, (30.0, 100.0));
        let copies = row("copy.send", 1, 400.0, (30.0, 100.0));
        let mut disturbed = row("os.process", 1, 400.0, (30.0, 100.0));
        disturbed.warnings.push(Warning {
            kind: "others".into(),
            grade: Grade::C,
            what: String::new(),
            advice: String::new(),
        });
        assert!(sentences(missing_term, &[near, copies, disturbed]).is_empty());
    }
}

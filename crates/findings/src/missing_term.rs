//! Finds costs that are far above or below their prediction, and how much the prediction lacks or has too
//! much.

use crate::Kind;
use crate::figures::{figures, ns};
use crate::finding::Finding;
use crate::naming::named;
use crate::pairs::greatest;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit};

pub(crate) const SENTENCES: &str = r#"
[missing_term]
sentence = "{point} takes {measured} where {low} to {high} were predicted: [the prediction leaves out at least {more}][the prediction counts at least {less} too much]"
"#;

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
    let is_more = low > expected.high;
    let figures = figures()
        .with("point", named(run, row))
        .with("measured", ns(measured.median))
        .with("low", ns(expected.low))
        .with("high", ns(expected.high))
        .maybe("more", is_more.then(|| ns(low - expected.high)))
        .maybe("less", (!is_more).then(|| ns(expected.low - high)));
    Some(Finding::new(Kind::MissingTerm, [row], figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, known_row, sentences};
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
        assert_eq!(
            sentences(missing_term, &rows),
            [
                "os.process takes 400 µs where 30.0 µs to 100 µs were predicted: the prediction leaves out at least 292 µs",
                "os.thread takes 10.0 µs where 30.0 µs to 100 µs were predicted: the prediction counts at least 19.8 µs too much",
            ]
        );
    }

    #[test]
    fn what_is_near_or_disturbed_or_a_copys_is_not_reported() {
        let near = row("os.process", 1, 140.0, (30.0, 100.0));
        let copies = row("copy.send", 1, 400.0, (30.0, 100.0));
        let disturbed = row("os.process", 1, 400.0, (30.0, 100.0)).warned("others", Grade::D);
        assert!(sentences(missing_term, &[near, copies, disturbed]).is_empty());
    }
}

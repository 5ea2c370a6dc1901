//! The prediction of a point, with the numbers that it builds on as they were when it was made.

use crate::record::Table;
use costof_measure::probe;
use costof_model::prediction::Used;
use costof_model::{Earlier, Facts, MeasuredRows, Point, PointRow, Prediction, ProbeInfo, Unit};
use costof_report::names;

/// Predicts a point from the rows that were measured before, some of them in `earlier` runs.
/// `None`: there is no such probe, or it cannot predict the point.
pub(crate) fn predict(
    table: Table,
    point: &Point,
    facts: &Facts,
    rows: &[PointRow],
    earlier: &[Earlier],
) -> Option<Prediction> {
    let used = Used::default();
    let measured = MeasuredRows::noting(rows, &used);
    let probe = probe::find(table, &point.probe)?;
    let mut prediction = (probe.predict)(point, facts, &measured)?;
    let numbers = used.numbers().into_iter().filter_map(|(point, number)| {
        let info = probe::find(table, &point.probe).map(|probe| &*probe.info);
        let name = names::short_point(&point, info);
        let run = earlier.iter().find(|earlier| earlier.row.point == point);
        let run = run.map(|earlier| format!(" in the run {}", earlier.run));
        match (number, run) {
            (None, None) => None,
            (None, Some(run)) => Some(name + &run),
            (Some(number), run) => {
                let shown = number.unit.display(number.median);
                Some(format!("{name} {shown}{}", run.unwrap_or_default()))
            }
        }
    });
    let numbers: Vec<String> = numbers.collect();
    if !numbers.is_empty() {
        prediction.because += "; when this was predicted: ";
        prediction.because += &numbers.join(", ");
    }
    Some(prediction)
}

/// Whether a measurement can miss the range: nearly every time or rate lies in one of more than a
/// factor of ten. For shares and counts, the width does not matter.
pub(crate) fn can_fail(info: &ProbeInfo, prediction: &Prediction) -> bool {
    let mut metrics = info.metrics.iter();
    let metric = metrics.find(|metric| metric.name == prediction.metric);
    metric.is_some_and(|metric| metric.unit == Unit::One) || !prediction.is_too_wide()
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::Axes;
    use costof_model::testing::{RowExt, row};
    use costof_probes::TABLE;

    #[test]
    fn a_prediction_says_which_number_it_used_and_of_which_run() {
        let clock = row("cpu.frequency", Axes::default(), 2e9).primary_is("frequency");
        let info = &probe::find(TABLE, "cpu.loop").unwrap().info;
        let point = Point { probe: info.id.clone(), axes: info.defaults(), link: "none".into() };
        let rows = [clock.measured_in(Unit::Hertz)];
        let earlier = [Earlier { run: "7".to_owned(), row: rows[0].clone() }];
        let because = |earlier: &[Earlier]| {
            let facts = Facts::default();
            predict(TABLE, &point, &facts, &rows, earlier).unwrap().because
        };
        let ends = |text: String, end: &str| assert!(text.ends_with(end), "{text}");
        ends(because(&[]), "; when this was predicted: cpu.frequency 2.00 GHz");
        ends(because(&earlier), "cpu.frequency 2.00 GHz in the run 7");
    }
}

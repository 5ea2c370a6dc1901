//! The prediction of a point, with the numbers that it builds on as they were when it was made.

use costof_measure::probe::{self, Probe};
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::prediction::{MeasuredRows, Prediction, Used};
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::{Earlier, PointRow};
use costof_model::unit::Unit;
use costof_report::names;

/// Predicts a point from the rows that were measured before, some of them in `earlier` runs.
/// `None`: there is no such probe, or it cannot predict the point.
pub(crate) fn predict(
    table: &[&'static Probe],
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

//! Predictions: the sums behind the ranges of the table, and whether they held.

use crate::names::{label, short_point};
use crate::rows::in_order;
use crate::table::{interval, is_hit};
use crate::text::wrapped;
use costof_model::{PointRow, Run};

/// The points that missed their prediction, each with the prediction's sum; empty if all
/// predictions held.
pub(crate) fn missed(run: &Run) -> String {
    in_order(run)
        .filter(|row| is_hit(row) == Some(false))
        .filter_map(|row| sum(row, &label(run, &row.point)))
        .map(|sum| format!("missed: {sum}\n"))
        .collect()
}

/// The sum behind each prediction for a probe's points, compared with the measurement, as lines of text
/// of at most this many columns; empty if the run predicted none of them.
pub fn of_probe(run: &Run, probe: &str, columns: usize) -> String {
    in_order(run)
        .filter(|row| row.point.probe == probe)
        .filter_map(|row| sum(row, &short_point(&row.point, run.probe(probe))))
        .map(|sum| wrapped(columns, &sum, "  "))
        .collect()
}

/// `os.syscall: expected 35.0 ns – 180 ns (…), measured 113 ns (112 ns – 115 ns), which fits`.
pub(crate) fn sum(row: &PointRow, name: &str) -> Option<String> {
    let expected = row.prediction.as_ref()?;
    let estimate = row.estimate(&expected.metric)?;
    let measured = estimate.display();
    let interval = match interval(estimate) {
        none if none.is_empty() => none,
        interval => format!(" ({interval})"),
    };
    let verdict = match is_hit(row) {
        Some(true) => "which fits",
        Some(false) if estimate.median < expected.low => "which is less",
        Some(false) => "which is more",
        None if !estimate.is_usable() => "not scored",
        None if !row.is_sound() => "not scored: grade D",
        None if row.gives_back_setting() => "not scored: the emulated link's setting is most of it",
        None => "not scored: a range is wider than a factor of ten",
    };
    Some(format!(
        "{name}: expected {} ({}), measured {measured}{interval}, {verdict}",
        estimate.unit.display_interval((expected.low, expected.high)),
        expected.because,
    ))
}

//! Points that no longer have a number, and why.

use super::Side;
use costof_model::comparison::Missing;
use costof_model::{Grade, Point, PointRow, Run, State};

/// Points with a number in the old run that the new run was also to measure, but has no number for.
pub(super) fn missing(old: &Side<'_>, new: &Side<'_>, after: &Run) -> Vec<Missing> {
    let has_number = |row: &&&PointRow| row.state == State::Ok && row.is_usable();
    let points = after.run.plan.points();
    let points = points.filter(|point| old.rows.get(point).as_ref().is_some_and(has_number));
    let missing = points.filter_map(|point| {
        let (reason, is_noise) = match new.rows.get(point) {
            None => (failure(after, point), false),
            Some(row) => doubt(row)?,
        };
        Some(Missing { point: point.clone(), reason, is_noise })
    });
    missing.collect()
}

/// Why a measured point has no number, and whether noise is the cause; `None` if it has a number.
fn doubt(row: &PointRow) -> Option<(String, bool)> {
    if let Some(unusable) = row.primary().filter(|estimate| !estimate.is_usable()) {
        return Some((unusable.display(), true));
    }
    let reason = "it cannot be distinguished from zero";
    (row.state != State::Ok).then(|| (reason.to_owned(), row.grade == Grade::D))
}

/// The run's reason for the point if it has one, otherwise that of one of its launches.
fn failure(run: &Run, point: &Point) -> String {
    let failures = || run.failures.iter().filter(|row| row.point == *point);
    let whole = failures().find(|row| row.launch.is_none());
    match whole.or_else(|| failures().next_back()) {
        Some(row) => row.failure().to_string(),
        None => "the run has no row of it".to_owned(),
    }
}

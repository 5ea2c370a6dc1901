//! Compares the rows of runs of which one is an export: without launches, their medians and intervals are all there is.

use super::comparable::MOSTLY_ALONE;
use super::{expect_one_method, row};
use crate::fleet::{graded, reading};
use costof_model::{Compared, MetricInfo, PointRow};
use costof_stats::Difference;

/// Compares one metric of one point; `None` if neither run has it, or if it is not the primary one.
///
/// # Errors
/// Why it cannot be compared.
pub(super) fn compared(
    rows: [&PointRow; 2],
    metric: &MetricInfo,
) -> Result<Option<(Compared, Difference)>, String> {
    if metric.name != rows[1].primary {
        return Ok(None);
    }
    expect_one_method(rows)?;
    let [Some((old, first)), Some((new, second))] = rows.map(reading) else {
        return Err("a run has no number of grade A to C with an interval for it".to_owned());
    };
    let launches = rows.map(|row| row.launches);
    let (first, second) = (graded(first, rows[0].grade), graded(second, rows[1].grade));
    let found = Difference {
        of_means: second.value - first.value,
        error: first.error.hypot(second.error),
        degrees: launches[0].min(launches[1]).saturating_sub(1).max(1),
    };
    let of = (metric.name.clone(), metric.unit, metric.better);
    let sides = [(old.median, launches[0]), (new.median, launches[1])];
    let row =
        row(rows[1], of, sides, &found).ok_or("its interval spans more than a factor of ten")?;
    let is_shared = [old, new]
        .iter()
        .filter_map(|estimate| estimate.core)
        .any(|core| core.alone < MOSTLY_ALONE);
    Ok(Some((Compared { core_shared: is_shared, ..row }, found)))
}

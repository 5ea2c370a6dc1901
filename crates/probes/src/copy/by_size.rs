//! Medians of points that were measured before, and values for sizes between theirs.

use crate::cpu::memcpy::{Align, Memcpy, Shape, Source};
use crate::prelude::*;

/// The points for which `holds` is true, each with the median of its primary metric. `link`
/// restricts them to one link.
fn measured_points<P: TypedPoint>(
    measured: &MeasuredRows<'_>,
    link: Option<&str>,
    holds: impl Fn(&P) -> bool,
) -> impl Iterator<Item = (P, f64)> {
    let medians = measured.medians(move |row| {
        row.point.probe == P::PROBE
            && link.is_none_or(|link| row.point.link == link)
            && P::read(&row.point.axes).is_some_and(|point| holds(&point))
    });
    medians.filter_map(|(row, median)| Some((P::read(&row.point.axes)?, median)))
}

pub(super) fn first<P: TypedPoint>(
    measured: &MeasuredRows<'_>,
    holds: impl Fn(&P) -> bool,
) -> Option<f64> {
    measured_points(measured, None, holds).next().map(|(_, value)| value)
}

/// The measured (size, value) pairs of the points to which `size` gives a size, in order of size.
pub(super) fn sized<P: TypedPoint>(
    measured: &MeasuredRows<'_>,
    link: Option<&str>,
    size: impl Fn(&P) -> Option<usize>,
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        measured_points(measured, link, |point| size(point).is_some())
            .filter_map(|(point, value)| Some((size(&point)? as f64, value)))
            .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points.dedup_by_key(|(size, _)| *size);
    points
}

/// A copy to a cached destination, as cpu.memcpy has measured it.
pub(crate) fn memcpy_ns(measured: &MeasuredRows<'_>, bytes: f64, source: Source) -> Option<f64> {
    let size = |point: &Memcpy| {
        let is_it =
            point.source == source && point.shape == Shape::One && point.align == Align::Both;
        is_it.then_some(point.size as usize)
    };
    along(&sized(measured, None, size), bytes)
}

/// Fields copied one by one from the cache: fields times the cost of a copy of a field's size, or
/// one copy of the whole message where that is slower.
pub(super) fn fields_ns(measured: &MeasuredRows<'_>, bytes: f64, fields: f64) -> Option<f64> {
    let each = memcpy_ns(measured, bytes / fields, Source::Hot)?;
    Some((fields * each).max(memcpy_ns(measured, bytes, Source::Hot)?))
}

/// Interpolates between points, and extrapolates beyond the outermost two. A single point is scaled
/// in proportion.
pub(super) fn along(points: &[(f64, f64)], at: f64) -> Option<f64> {
    let line = |[one, other]: [(f64, f64); 2]| {
        let slope = (other.1 - one.1) / (other.0 - one.0);
        one.1 + slope * (at - one.0)
    };
    match *points {
        [] => None,
        [(size, value)] => Some(value * at / size),
        [first, ..] if at <= first.0 => Some(first.1),
        [.., before, last] if at >= last.0 => Some(line([before, last]).max(last.1)),
        _ => {
            let beyond = points.iter().position(|(size, _)| *size > at)?;
            Some(line([points[beyond - 1], points[beyond]]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_points_is_a_line_and_beyond_them_its_end() {
        let points = [(1.0, 10.0), (3.0, 30.0), (5.0, 90.0)];
        for (at, value) in [(0.5, 10.0), (2.0, 20.0), (4.0, 60.0), (6.0, 120.0)] {
            assert_eq!(along(&points, at), Some(value), "{at}");
        }
        assert_eq!(along(&points[..1], 4.0), Some(40.0));
        assert_eq!(along(&[], 4.0), None);
        // A falling curve is not extrapolated further down.
        assert_eq!(along(&[(1.0, 30.0), (2.0, 20.0)], 9.0), Some(20.0));
    }
}

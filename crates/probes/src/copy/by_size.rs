//! What points of one probe say of a size between theirs.

use costof_model::prediction::Known;

/// What the points of a probe say whose axes are these, by their size.
pub(super) fn points(
    known: &Known<'_>,
    probe: &str,
    axes: &[(&str, &str)],
    link: Option<&str>,
) -> Vec<(f64, f64)> {
    let rows = known.0.iter().filter(|row| {
        row.point.probe == probe
            && link.is_none_or(|link| row.point.link == link)
            && axes.iter().all(|(name, value)| {
                let have = row.point.axes.0.get(*name);
                have.is_some_and(|have| have.to_string() == *value)
            })
    });
    let mut points: Vec<(f64, f64)> = rows
        .filter_map(|row| {
            let size = row.point.axes.find_number("size")? as f64;
            Some((size, row.estimate(&row.primary)?.median))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points.dedup_by_key(|(size, _)| *size);
    points
}

/// A copy to a cached destination, as cpu.memcpy has measured it.
pub(crate) fn memcpy_ns(known: &Known<'_>, bytes: f64, source: &str) -> Option<f64> {
    let axes = [("source", source), ("shape", "one"), ("align", "both")];
    along(&points(known, "cpu.memcpy", &axes, None), bytes)
}

/// Fields that are cached copied one by one: as copies of their size, or of all together where the
/// cache decides.
pub(super) fn fields_ns(known: &Known<'_>, bytes: f64, fields: f64) -> Option<f64> {
    let each = memcpy_ns(known, bytes / fields, "hot")?;
    Some((fields * each).max(memcpy_ns(known, bytes, "hot")?))
}

/// What lies between points, or beyond the last ones in the same direction; from one alone, in
/// proportion.
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
        // What falls towards the end says nothing of what lies beyond.
        assert_eq!(along(&[(1.0, 30.0), (2.0, 20.0)], 9.0), Some(20.0));
    }
}

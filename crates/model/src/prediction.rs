//! What was measured before a point is predicted.

pub use crate::expected::Prediction;

use crate::axis::Axes;
use crate::point::Point;
use crate::rows::PointRow;
use crate::typed::TypedPoint;
use std::cell::RefCell;
use std::collections::HashSet;

/// What has been measured before a point is predicted, in the plan's order.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredRows<'a> {
    rows: &'a [PointRow],
    used: Option<&'a Used>,
}

/// The points that predictions have used, each once.
#[derive(Debug, Default)]
pub struct Used(RefCell<(Vec<Point>, HashSet<Point>)>);

impl Used {
    /// These points.
    pub fn points(self) -> Vec<Point> {
        self.0.into_inner().0
    }

    fn note(&self, point: &Point) {
        let (points, known) = &mut *self.0.borrow_mut();
        if !known.contains(point) {
            known.insert(point.clone());
            points.push(point.clone());
        }
    }
}

impl<'a> MeasuredRows<'a> {
    /// These rows.
    pub const fn new(rows: &'a [PointRow]) -> MeasuredRows<'a> {
        MeasuredRows { rows, used: None }
    }

    /// These rows; records each row that a prediction uses.
    pub const fn noting(rows: &'a [PointRow], used: &'a Used) -> MeasuredRows<'a> {
        MeasuredRows {
            rows,
            used: Some(used),
        }
    }

    /// The rows for which the predicate holds.
    pub fn rows(&self, holds: impl Fn(&PointRow) -> bool) -> impl Iterator<Item = &'a PointRow> {
        let MeasuredRows { rows, used } = *self;
        rows.iter()
            .filter(move |row| holds(row))
            .inspect(move |row| {
                if let Some(used) = used {
                    used.note(&row.point);
                }
            })
    }

    /// The median of the primary metric of the first point of `probe` that has these `axes`, in the
    /// metric's unit. Axes that are not named may have any value.
    pub fn primary(&self, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        primary(self.row(probe, axes, None)?)
    }

    /// The same for a probe with two ends, over this link.
    pub fn primary_over(&self, link: &str, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        primary(self.row(probe, axes, Some(link))?)
    }

    /// The median of the primary metric of a point, over the first link of the run; in the metric's unit.
    pub fn at<P: TypedPoint>(&self, point: &P) -> Option<f64> {
        primary(self.row_at(point, None)?)
    }

    /// The same over this link.
    pub fn at_over<P: TypedPoint>(&self, link: &str, point: &P) -> Option<f64> {
        primary(self.row_at(point, Some(link))?)
    }

    /// The same for another metric of that point, over the first link of the run.
    pub fn metric_at<P: TypedPoint>(&self, point: &P, metric: &str) -> Option<f64> {
        self.row_at(point, None)?.median(metric)
    }

    fn row_at<P: TypedPoint>(&self, point: &P, link: Option<&str>) -> Option<&'a PointRow> {
        let axes = point.write();
        self.find(P::PROBE, link, |have| *have == axes)
    }

    fn row(&self, probe: &str, axes: &[(&str, &str)], link: Option<&str>) -> Option<&'a PointRow> {
        self.find(probe, link, |have| {
            axes.iter().all(|(name, value)| {
                let have = have.0.get(*name);
                have.is_some_and(|have| have.to_string() == *value)
            })
        })
    }

    /// The first row of a probe with these axes, over this link if one is given.
    fn find(
        &self,
        probe: &str,
        link: Option<&str>,
        are_these: impl Fn(&Axes) -> bool,
    ) -> Option<&'a PointRow> {
        let mut rows = self.rows(|row| {
            row.point.probe == probe
                && link.is_none_or(|link| row.point.link == link)
                && are_these(&row.point.axes)
        });
        rows.next()
    }
}

fn primary(row: &PointRow) -> Option<f64> {
    row.median(&row.primary)
}

//! What was measured before a point is predicted.

pub use crate::expected::Prediction;

use crate::{Axes, Estimate, Point, PointRow, TypedPoint, Unit};
use std::cell::RefCell;
use std::collections::HashMap;

/// What has been measured before a point is predicted, in the plan's order. A prediction builds on
/// sound rows alone, and of these on metrics with an interval.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredRows<'a> {
    rows: &'a [PointRow],
    used: Option<&'a Used>,
}

/// What predictions have used, each once.
#[derive(Debug, Default)]
pub struct Used(RefCell<Noted>);

#[derive(Debug, Default)]
struct Noted {
    numbers: Vec<(Point, Option<Number>)>,
    positions: HashMap<Point, usize>,
}

/// The number of a row that a prediction has used, as it was then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// The median.
    pub median: f64,
    /// Its unit.
    pub unit: Unit,
}

impl Used {
    /// The points.
    pub fn points(self) -> Vec<Point> {
        self.numbers().into_iter().map(|(point, _)| point).collect()
    }

    /// The points, and the number of each; without one if only other figures of the row were used.
    pub fn numbers(self) -> Vec<(Point, Option<Number>)> {
        self.0.into_inner().numbers
    }

    fn note(&self, point: &Point, number: Option<Number>) {
        let Noted { numbers, positions } = &mut *self.0.borrow_mut();
        match positions.get(point) {
            Some(at) => numbers[*at].1 = numbers[*at].1.or(number),
            None => {
                positions.insert(point.clone(), numbers.len());
                numbers.push((point.clone(), number));
            }
        }
    }
}

impl<'a> MeasuredRows<'a> {
    /// These rows.
    pub const fn new(rows: &'a [PointRow]) -> MeasuredRows<'a> {
        MeasuredRows { rows, used: None }
    }

    /// These rows; records what a prediction uses of them.
    pub const fn noting(rows: &'a [PointRow], used: &'a Used) -> MeasuredRows<'a> {
        MeasuredRows { rows, used: Some(used) }
    }

    fn note(&self, row: &PointRow, number: Option<Number>) {
        if let Some(used) = self.used {
            used.note(&row.point, number);
        }
    }

    /// The sound rows for which the predicate holds.
    pub fn rows(&self, holds: impl Fn(&PointRow) -> bool) -> impl Iterator<Item = &'a PointRow> {
        let all = *self;
        let rows = self.rows.iter();
        rows.filter(move |row| row.is_sound() && holds(row)).inspect(move |row| all.note(row, None))
    }

    /// The median of the primary metric of each of these rows that has an interval.
    pub fn medians(
        &self,
        holds: impl Fn(&PointRow) -> bool,
    ) -> impl Iterator<Item = (&'a PointRow, f64)> {
        let all = *self;
        self.rows(holds).filter_map(move |row| Some((row, all.median(row, &row.primary)?)))
    }

    /// The median of a metric of a row, if it has an interval.
    fn median(&self, row: &PointRow, metric: &str) -> Option<f64> {
        let estimate = row.estimate(metric)?;
        let Estimate { median, unit, .. } = *estimate;
        estimate.is_usable().then(|| {
            self.note(row, Some(Number { median, unit }));
            median
        })
    }

    /// The median of the primary metric of the first point of `probe` that has these `axes`, in the
    /// metric's unit. Axes that are not named may have any value.
    pub fn primary(&self, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        self.primary_of(self.row(probe, axes, None)?)
    }

    /// The same for a probe with two ends, over this link.
    pub fn primary_over(&self, link: &str, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        self.primary_of(self.row(probe, axes, Some(link))?)
    }

    /// The median of the primary metric of a point, over the first link of the run; in the metric's unit.
    pub fn at<P: TypedPoint>(&self, point: &P) -> Option<f64> {
        self.primary_of(self.row_at(point, None)?)
    }

    /// The same over this link.
    pub fn at_over<P: TypedPoint>(&self, link: &str, point: &P) -> Option<f64> {
        self.primary_of(self.row_at(point, Some(link))?)
    }

    /// The same for another metric of that point, over the first link of the run.
    pub fn metric_at<P: TypedPoint>(&self, point: &P, metric: &str) -> Option<f64> {
        self.median(self.row_at(point, None)?, metric)
    }

    fn primary_of(&self, row: &PointRow) -> Option<f64> {
        self.median(row, &row.primary)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grade;
    use crate::testing::{RowExt, row};

    #[test]
    fn a_prediction_builds_on_sound_rows_with_an_interval_and_says_which_number() {
        let known = || row("os.syscall", Axes::default(), 225.0);
        let mut without_interval = known();
        without_interval.metrics[0].ci95 = None;
        let mut disagrees = known();
        disagrees.metrics[0].ci95 = Some((10.0, 1000.0));
        let noisy = known().warned("others", Grade::D);
        for rows in [[without_interval], [disagrees], [noisy]] {
            let used = Used::default();
            let measured = MeasuredRows::noting(&rows, &used);
            assert_eq!(measured.primary("os.syscall", &[]), None);
            assert!(used.numbers().iter().all(|(_, number)| number.is_none()));
        }
        let (rows, used) = ([known()], Used::default());
        let measured = MeasuredRows::noting(&rows, &used);
        assert_eq!(measured.primary("os.syscall", &[]), Some(225.0));
        let number = Number { median: 225.0, unit: Unit::Nanoseconds };
        assert_eq!(used.numbers(), [(rows[0].point.clone(), Some(number))]);
    }
}

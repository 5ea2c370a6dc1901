//! Predictions: the range expected before measuring, and because of what.

use crate::Text;
use crate::axis::Axes;
use crate::metric::Estimate;
use crate::rows::PointRow;
use crate::typed::TypedPoint;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The range in which a metric was expected before it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The metric that is predicted.
    pub metric: Text,
    /// The least value expected, in the metric's unit.
    pub low: f64,
    /// The greatest value expected, in the metric's unit.
    pub high: f64,
    /// Because of which facts and which earlier points.
    pub because: String,
}

impl Prediction {
    /// With this limit where it is less: then at least this share of it is expected.
    #[must_use]
    pub fn at_most(mut self, limit: f64, share: f64, why: impl fmt::Display) -> Prediction {
        if limit < self.high {
            self.high = limit;
            self.low = self.low.min(share * limit);
            self.because += &format!("; at most {why}");
        }
        self
    }

    /// How far the interval of what was measured lies outside of what was expected: the ratio of the
    /// ends next to each other, over 1 where it is more and below where it is less. None where they
    /// meet.
    pub fn missed_by(&self, measured: &Estimate) -> Option<f64> {
        let (low, high) = measured.ci95.unwrap_or((measured.median, measured.median));
        if low > self.high {
            return Some(low / self.high);
        }
        (high < self.low).then(|| high / self.low)
    }
}

/// What has been measured before a point is predicted, in the plan's order.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a>(pub &'a [PointRow]);

impl Known<'_> {
    /// The median of the primary metric of the first point of `probe` whose
    /// axes are, as far as `axes` names them, these; in the metric's unit.
    pub fn primary(&self, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        let row = self.row(probe, axes, None)?;
        row.estimate(&row.primary).map(|estimate| estimate.median)
    }

    /// The same of a probe that has two ends, over this link.
    pub fn primary_over(&self, link: &str, probe: &str, axes: &[(&str, &str)]) -> Option<f64> {
        let row = self.row(probe, axes, Some(link))?;
        row.estimate(&row.primary).map(|estimate| estimate.median)
    }

    /// The median of the primary metric of a point, over the first link of the run; in the metric's unit.
    pub fn at<P: TypedPoint>(&self, point: &P) -> Option<f64> {
        let row = self.row_at(point, None)?;
        row.estimate(&row.primary).map(|estimate| estimate.median)
    }

    /// The same over this link.
    pub fn at_over<P: TypedPoint>(&self, link: &str, point: &P) -> Option<f64> {
        let row = self.row_at(point, Some(link))?;
        row.estimate(&row.primary).map(|estimate| estimate.median)
    }

    /// The same of another metric of that point, over the first link of the run.
    pub fn metric_at<P: TypedPoint>(&self, point: &P, metric: &str) -> Option<f64> {
        let row = self.row_at(point, None)?;
        row.estimate(metric).map(|estimate| estimate.median)
    }

    fn row_at<P: TypedPoint>(&self, point: &P, link: Option<&str>) -> Option<&PointRow> {
        let axes = point.write();
        self.find(P::PROBE, link, |have| *have == axes)
    }

    fn row(&self, probe: &str, axes: &[(&str, &str)], link: Option<&str>) -> Option<&PointRow> {
        self.find(probe, link, |have| {
            axes.iter().all(|(name, value)| {
                let have = have.0.get(*name);
                have.is_some_and(|have| have.to_string() == *value)
            })
        })
    }

    /// The first row of a probe, over this link where one is named, whose axes are these.
    fn find(
        &self,
        probe: &str,
        link: Option<&str>,
        are_these: impl Fn(&Axes) -> bool,
    ) -> Option<&PointRow> {
        self.0.iter().find(|row| {
            row.point.probe == probe
                && link.is_none_or(|link| row.point.link == link)
                && are_these(&row.point.axes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Better, Unit};

    #[test]
    fn a_prediction_is_missed_by_the_ends_next_to_each_other() {
        let expected = Prediction {
            metric: "cost".into(),
            low: 10.0,
            high: 20.0,
            because: String::new(),
        };
        let mut measured = Estimate {
            name: "cost".into(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            median: 40.0,
            ci95: Some((20.0, 60.0)),
            interval: None,
            mean: 40.0,
            sd: None,
            min: 40.0,
            percentiles: Vec::new(),
            n: 1,
            undisturbed: None,
            core: None,
            modes: Vec::new(),
        };
        assert_eq!(expected.missed_by(&measured), None);
        measured.ci95 = Some((30.0, 60.0));
        assert_eq!(expected.missed_by(&measured), Some(1.5));
        measured.ci95 = Some((2.0, 5.0));
        assert_eq!(expected.missed_by(&measured), Some(0.5));
        measured.ci95 = None;
        assert_eq!(expected.missed_by(&measured), Some(2.0));
    }
}

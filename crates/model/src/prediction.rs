//! Predictions: the range expected before measuring, and because of what.

use crate::Text;
use crate::rows::PointRow;
use serde::{Deserialize, Serialize};

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

    /// The same of another metric of that point.
    pub fn metric(&self, probe: &str, axes: &[(&str, &str)], metric: &str) -> Option<f64> {
        self.row(probe, axes, None)?
            .estimate(metric)
            .map(|estimate| estimate.median)
    }

    fn row(&self, probe: &str, axes: &[(&str, &str)], link: Option<&str>) -> Option<&PointRow> {
        let stands_there = |row: &&PointRow| {
            row.point.probe == probe
                && link.is_none_or(|link| row.point.link == link)
                && axes.iter().all(|(name, value)| {
                    row.point
                        .axes
                        .0
                        .get(*name)
                        .is_some_and(|have| have.to_string() == *value)
                })
        };
        self.0.iter().find(stands_there)
    }
}

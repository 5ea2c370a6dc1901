//! The range that is expected before a measurement, and the reason.

use crate::Text;
use crate::metric::WIDEST;
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
    /// The facts and earlier points from which it follows.
    pub because: String,
}

impl Prediction {
    /// Lowers the maximum to this limit, if the limit is less. The minimum is then at most `share`
    /// of the limit.
    #[must_use]
    pub fn at_most(mut self, limit: f64, share: f64, why: impl fmt::Display) -> Prediction {
        if limit < self.high {
            self.high = limit;
            self.low = self.low.min(share * limit);
            self.because += &format!("; at most {why}");
        }
        self
    }

    /// Whether its ends are more than a factor of ten apart: nearly every number then fits, so a
    /// hit says nothing.
    pub fn is_too_wide(&self) -> bool {
        self.high > WIDEST * self.low
    }

    /// By which factor a value misses the range: its ratio to the nearest end, above 1 if it is
    /// greater, below 1 if it is less. `None` if it lies inside.
    pub fn missed_by(&self, value: f64) -> Option<f64> {
        if value > self.high {
            return Some(value / self.high);
        }
        (value < self.low).then(|| value / self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_missed_by_the_end_next_to_the_value() {
        let expected =
            Prediction { metric: "cost".into(), low: 10.0, high: 20.0, because: String::new() };
        for (value, missed) in [(10.0, None), (20.0, None), (40.0, Some(2.0)), (5.0, Some(0.5))] {
            assert_eq!(expected.missed_by(value), missed, "{value}");
        }
    }
}

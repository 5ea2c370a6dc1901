//! The range that is expected before a measurement, and the reason.

use crate::Text;
use crate::metric::{Estimate, WIDEST};
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

    /// By which factor the interval of the measurement misses the range: the ratio of the two
    /// nearest ends, above 1 if the measurement is greater, below 1 if it is less. `None` if they
    /// overlap, or if the measurement has no usable interval.
    pub fn missed_by(&self, measured: &Estimate) -> Option<f64> {
        let (low, high) = measured.usable_interval()?;
        if low > self.high {
            return Some(low / self.high);
        }
        (high < self.low).then(|| high / self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::estimate;

    #[test]
    fn a_prediction_is_missed_by_the_ends_next_to_each_other() {
        let expected = Prediction {
            metric: "cost".into(),
            low: 10.0,
            high: 20.0,
            because: String::new(),
        };
        let mut measured = estimate("cost", 40.0);
        measured.ci95 = Some((20.0, 60.0));
        assert_eq!(expected.missed_by(&measured), None);
        measured.ci95 = Some((30.0, 60.0));
        assert_eq!(expected.missed_by(&measured), Some(1.5));
        measured.ci95 = Some((2.0, 5.0));
        assert_eq!(expected.missed_by(&measured), Some(0.5));
        measured.ci95 = None;
        assert_eq!(expected.missed_by(&measured), None);
    }
}

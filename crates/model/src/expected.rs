//! The range expected before measuring, and because of what.

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

    /// Whether its ends lie further apart than a factor of ten: then nearly everything fits, and
    /// that it held says nothing.
    pub fn is_too_wide(&self) -> bool {
        self.high > WIDEST * self.low
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
        assert_eq!(expected.missed_by(&measured), Some(2.0));
    }
}

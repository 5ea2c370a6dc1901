//! What something should take, in nanoseconds, as an expression of simpler costs. An expression
//! computes its range and prints itself, so that a prediction is explained by its formula.

use crate::Unit;
use crate::expected::Prediction;
use std::fmt;
use std::ops::{Add, AddAssign, Mul};

/// A minimum and a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range(pub f64, pub f64);

impl Range {
    /// The longer of two durations that overlap.
    pub fn max(self, other: Range) -> Range {
        Range(self.0.max(other.0), self.1.max(other.1))
    }

    fn display(self) -> String {
        let Range(low, high) = self;
        let unit = Unit::Nanoseconds;
        if low == high {
            unit.display(low)
        } else if low == 0.0 {
            format!("up to {}", unit.display(high))
        } else {
            unit.display_range((low, high))
        }
    }
}

impl From<f64> for Range {
    fn from(value: f64) -> Range {
        Range(value, value)
    }
}

impl From<(f64, f64)> for Range {
    fn from((low, high): (f64, f64)) -> Range {
        Range(low, high)
    }
}

/// A number without a unit: `2`, `0.8–1.25`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = [self.0, self.1].map(|end| (1e3 * end).round() / 1e3);
        if low == high { write!(f, "{low}") } else { write!(f, "{low}–{high}") }
    }
}

impl Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range(self.0 + other.0, self.1 + other.1)
    }
}

impl<T: Into<Range>> Mul<T> for Range {
    type Output = Range;

    fn mul(self, factor: T) -> Range {
        let factor = factor.into();
        Range(self.0 * factor.0, self.1 * factor.1)
    }
}

/// A cost in nanoseconds, and its formula. Displayed as `4–5 µs (1–2 µs for this + 3 µs for that)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// The result.
    pub range: Range,
    formula: String,
    is_sum: bool,
}

impl Cost {
    /// A term: this many nanoseconds `for` something. A cost of zero has an empty formula.
    pub fn new(range: impl Into<Range>, name: impl fmt::Display) -> Cost {
        let range = range.into();
        Cost::term(range, format!("{} {name}", range.display()))
    }

    /// The cost of this many bytes at a slow and a fast rate, in bytes per nanosecond.
    pub fn bytes(bytes: f64, (slow, fast): (f64, f64), name: impl fmt::Display) -> Cost {
        let formula = format!("{bytes} B {name} at {} GB/s", Range(slow, fast));
        Cost::term(Range(bytes / fast, bytes / slow), formula)
    }

    fn term(range: Range, formula: String) -> Cost {
        if range == Range::default() {
            return Cost::default();
        }
        Cost { range, formula, is_sum: false }
    }

    /// The same cost under another name, followed by its formula: `two copies (224 B at 2–20
    /// GB/s)`.
    #[must_use]
    pub fn named(self, name: impl fmt::Display) -> Cost {
        Cost::term(self.range, format!("{name} ({})", self.formula))
    }

    /// The range from the minimum of this cost to the maximum of another.
    #[must_use]
    pub fn up_to(self, worst: Cost) -> Cost {
        let formula = format!("from ({}) to ({})", self.formula, worst.formula);
        Cost::term(Range(self.range.0, worst.range.1), formula)
    }

    /// Replaces the minimum that the formula gives.
    #[must_use]
    pub fn at_least(mut self, low: f64) -> Cost {
        self.range.0 = low;
        self
    }

    /// The longer of two costs that overlap in time.
    #[must_use]
    pub fn max(self, other: Cost) -> Cost {
        Cost {
            range: self.range.max(other.range),
            formula: format!("the longer of ({}) and ({})", self.formula, other.formula),
            is_sum: false,
        }
    }

    /// The formula, without the result.
    pub fn formula(&self) -> &str {
        &self.formula
    }

    /// Predicts a metric in nanoseconds.
    pub fn predict(self, metric: &'static str) -> Option<Prediction> {
        Some(Prediction {
            metric: metric.into(),
            low: self.range.0,
            high: self.range.1,
            because: self.formula,
        })
    }

    /// Predicts the throughput if `bytes` bytes take this time.
    pub fn predict_throughput(self, bytes: impl Into<Range>) -> Option<Prediction> {
        let (bytes, Range(least, most)) = (bytes.into(), self.range);
        Some(Prediction {
            metric: "throughput".into(),
            low: bytes.0 / most * 1e9,
            high: bytes.1 / least * 1e9,
            because: self.formula,
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.range.display(), self.formula)
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.range = self.range + other.range;
        if self.formula.is_empty() {
            self.formula = other.formula;
            self.is_sum = other.is_sum;
        } else if !other.formula.is_empty() {
            self.formula = format!("{} + {}", self.formula, other.formula);
            self.is_sum = true;
        }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(mut self, other: Cost) -> Cost {
        self += other;
        self
    }
}

impl<T: Into<Range>> Mul<T> for Cost {
    type Output = Cost;

    fn mul(self, factor: T) -> Cost {
        let factor = factor.into();
        if factor == Range(1.0, 1.0) {
            return self;
        }
        let formula = if self.is_sum {
            format!("{factor} × ({})", self.formula)
        } else {
            format!("{factor} × {}", self.formula)
        };
        Cost::term(self.range * factor, formula)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_the_terms_that_there_are() {
        let mut sum = Cost::new((1.0, 2.0), "of this");
        sum += Cost::new(0.0, "of that");
        sum += Cost::new(3.0, "of those");
        assert_eq!(sum.range, Range(4.0, 5.0));
        sum += Cost::new((0.0, 9.0), "more");
        assert_eq!(
            sum.to_string(),
            "4.00–14.0 ns (1.00–2.00 ns of this + 3.00 ns of those + up to 9.00 ns more)"
        );
        assert_eq!(sum.range.max(Range(5.0, 7.0)), Range(5.0, 14.0));
    }

    #[test]
    fn a_product_shows_its_factors_and_a_copy_its_rate() {
        let read = Cost::new(100.0, "for a read");
        let copies = Cost::bytes(224.0, (2.0, 20.0), "copied");
        let twice = (read.clone() * (2.0, 3.0) + copies) * 2.0;
        assert_eq!(twice.range, Range(422.4, 824.0));
        assert_eq!(twice.formula(), "2 × (2–3 × 100 ns for a read + 224 B copied at 2–20 GB/s)");
        let longer = read.named("a call").max(Cost::new(150.0, "for a wait"));
        assert_eq!(longer.range, Range(150.0, 150.0));
        let throughput = longer.predict_throughput(300.0).unwrap();
        assert_eq!((throughput.low, throughput.high), (2e9, 2e9));
    }
}

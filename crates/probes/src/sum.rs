//! Sums of what pieces take, for predictions, and how they are shown.

use costof_model::unit::Unit;
use std::ops::{Add, Mul};

/// The least and the most that something takes, in nanoseconds unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range(pub(crate) f64, pub(crate) f64);

impl Range {
    pub(crate) const NONE: Range = Range(0.0, 0.0);

    pub(crate) fn exactly(value: f64) -> Range {
        Range(value, value)
    }

    /// The one that takes longer of two at the same time.
    pub(crate) fn longer(self, other: Range) -> Range {
        Range(self.0.max(other.0), self.1.max(other.1))
    }

    pub(crate) fn in_words(self) -> String {
        let Range(low, high) = self;
        match low {
            low if low == high => Unit::Nanoseconds.display(low),
            0.0 => format!("up to {}", Unit::Nanoseconds.display(high)),
            low => format!(
                "{} {}",
                Unit::Nanoseconds.display_range((low, high), high),
                Unit::Nanoseconds.symbol_of(high)
            ),
        }
    }
}

impl Add for Range {
    type Output = Range;

    fn add(self, other: Range) -> Range {
        Range(self.0 + other.0, self.1 + other.1)
    }
}

impl Mul<Range> for Range {
    type Output = Range;

    fn mul(self, other: Range) -> Range {
        Range(self.0 * other.0, self.1 * other.1)
    }
}

impl Mul<f64> for Range {
    type Output = Range;

    fn mul(self, factor: f64) -> Range {
        Range(self.0 * factor, self.1 * factor)
    }
}

/// Terms of a sum, each with its name.
#[derive(Debug)]
pub(crate) struct Sum(Vec<(Range, String)>);

impl Sum {
    pub(crate) fn new() -> Sum {
        Sum(Vec::new())
    }

    /// Adds what there is: nothing needs no words.
    pub(crate) fn add(&mut self, range: Range, name: impl Into<String>) {
        if range != Range::NONE {
            self.0.push((range, name.into()));
        }
    }

    pub(crate) fn total(&self) -> Range {
        self.0
            .iter()
            .fold(Range::NONE, |sum, (range, _)| sum + *range)
    }

    /// `4.00–5.00 µs (1.00–2.00 µs of this + 3.00 µs of that)`.
    pub(crate) fn in_words(&self) -> String {
        let terms = self.0.iter();
        let terms = terms.map(|(range, name)| format!("{} {name}", range.in_words()));
        let terms = terms.collect::<Vec<_>>().join(" + ");
        format!("{} ({terms})", self.total().in_words())
    }
}

//! The quantity of a row that a plot shows: the median of a metric, or its tail.

use costof_model::Estimate;

/// The percentile that is drawn next to a median if load is varied.
pub(super) const TAIL: f64 = 99.0;

/// The quantity that is drawn.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum What<'a> {
    Median(&'a str),
    Tail(&'a str),
}

impl What<'_> {
    pub(super) fn metric(&self) -> &str {
        match self {
            What::Median(metric) | What::Tail(metric) => metric,
        }
    }

    pub(super) fn name(&self) -> String {
        let name = self.metric().replace('_', " ");
        match self {
            What::Median(_) => name,
            What::Tail(_) => format!("{name} p{TAIL}"),
        }
    }

    pub(super) fn value(&self, estimate: &Estimate) -> Option<f64> {
        match self {
            What::Median(_) => Some(estimate.median),
            What::Tail(_) => estimate.percentile(TAIL),
        }
    }

    /// The value to draw from an estimate; none if it has no usable interval.
    pub(super) fn usable(&self, estimate: &Estimate) -> Option<f64> {
        self.value(estimate).filter(|_| estimate.is_usable())
    }

    pub(super) fn interval(&self, estimate: &Estimate) -> Option<(f64, f64)> {
        match self {
            What::Median(_) => estimate.ci95,
            What::Tail(_) => None,
        }
    }

    /// What the hover text adds to the row's own numbers.
    pub(super) fn beside(&self, estimate: &Estimate) -> String {
        match self {
            What::Median(_) => String::new(),
            What::Tail(_) => {
                let value = self.value(estimate).unwrap_or_default();
                format!("{}: {}", self.name(), estimate.unit.display(value))
            }
        }
    }
}

//! The figures of a finding: named values with their units, from which its sentence is rendered.

use crate::interval::Interval;
use crate::naming::approximate_size;
use costof_model::rows::PointRow;
use costof_model::unit::{self, Unit};
use std::fmt;

/// The value of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name.
    Text(String),
    /// A quantity in its unit.
    Quantity(f64, Unit),
    /// An approximate size in bytes.
    Size(f64),
    /// A number without a unit, with this many digits after the point.
    Decimal(f64, usize),
    /// The ends of a range, with this many digits after the point.
    Range((f64, f64), usize),
    /// A condition that holds: it has no text, and switches on optional parts of a sentence.
    Holds,
    /// Parts of a sentence, each with the template that renders it and its own figures.
    Parts(Vec<Part>),
}

/// The name of a template, and its figures.
pub type Part = (&'static str, Figures);

/// Named values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(Vec<(&'static str, Value)>);

impl Figures {
    /// Adds a figure.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Figures {
        self.0.push((name, value.into()));
        self
    }

    /// Adds a figure if there is a value.
    #[must_use]
    pub(crate) fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Figures {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds a condition if it holds.
    #[must_use]
    pub(crate) fn when(self, name: &'static str, holds: bool) -> Figures {
        self.maybe(name, holds.then_some(Value::Holds))
    }

    /// Adds parts of the sentence, if there are any.
    #[must_use]
    pub(crate) fn parts(
        self,
        name: &'static str,
        parts: impl IntoIterator<Item = Part>,
    ) -> Figures {
        let parts: Vec<Part> = parts.into_iter().collect();
        self.maybe(name, (!parts.is_empty()).then_some(Value::Parts(parts)))
    }

    /// Adds a part with the template of this name, which uses the figures of the whole.
    #[must_use]
    pub(crate) fn choose(self, name: &'static str, template: &'static str) -> Figures {
        self.parts(name, [part(template)])
    }

    /// Adds `low`, `middle` and `high` of an interval.
    #[must_use]
    pub(crate) fn interval(self, interval: Interval, value: impl Fn(f64) -> Value) -> Figures {
        self.with("low", value(interval.low))
            .with("middle", value(interval.middle))
            .with("high", value(interval.high))
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut figures = self.0.iter();
        figures
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// No figures yet.
pub(crate) fn figures() -> Figures {
    Figures::default()
}

/// A part with the template of this name and no figures of its own.
pub(crate) fn part(template: &'static str) -> Part {
    (template, figures())
}

pub(crate) fn ns(ns: f64) -> Value {
    Value::Quantity(ns, Unit::Nanoseconds)
}

pub(crate) fn rate(bytes_per_s: f64) -> Value {
    Value::Quantity(bytes_per_s, Unit::BytesPerSecond)
}

pub(crate) fn bytes(bytes: u64) -> Value {
    Value::Quantity(bytes as f64, Unit::Bytes)
}

pub(crate) fn percent(share: f64) -> Value {
    Value::Decimal(100.0 * share, 0)
}

/// The ends of a range of shares, in percent.
pub(crate) fn percents((low, high): (f64, f64)) -> Value {
    Value::Range((100.0 * low, 100.0 * high), 0)
}

/// A number with two digits after the point.
pub(crate) fn times(times: f64) -> Value {
    Value::Decimal(times, 2)
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Decimal(count as f64, 0)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Decimal(count as f64, 0)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Quantity(value, unit) => f.write_str(&unit.display(*value)),
            Value::Size(bytes) => f.write_str(&approximate_size(*bytes)),
            Value::Decimal(value, digits) => write!(f, "{value:.digits$}"),
            Value::Range((low, high), digits) => {
                let [low, high] = [low, high].map(|end| format!("{end:.digits$}"));
                f.write_str(&unit::span(&low, " to ", &high))
            }
            Value::Holds | Value::Parts(_) => Ok(()),
        }
    }
}

/// The smallest and the largest value of a metric in these rows; none if no row has it.
pub(crate) fn span_of(rows: &[&PointRow], metric: &str) -> Option<(f64, f64)> {
    span(rows.iter().filter_map(|row| row.median(metric)))
}

/// The smallest and the largest value; none without values.
pub(crate) fn span(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = values.into_iter().map(|value| (value, value));
    ends.reduce(|(low, high), (value, _)| (f64::min(low, value), f64::max(high, value)))
}

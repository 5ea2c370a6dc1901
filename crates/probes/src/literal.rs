//! Short forms for the literals that every probe writes.

use costof_model::axis::{Axis, Choice, Domain};
use costof_model::metric::MetricInfo;
use costof_model::point::Point;
use costof_model::typed::{AxisOf, AxisType};
use costof_model::unit::{Better, Unit};
use costof_model::{List, Text};

/// Text of the program.
pub(crate) const fn text(text: &'static str) -> Text {
    Text::Borrowed(text)
}

/// A list of the program.
macro_rules! list {
    ($($item:expr),* $(,)?) => {
        costof_model::List::Borrowed(const { &[$($item),*] })
    };
}
pub(crate) use list;

/// An axis of words.
pub(crate) const fn words(name: &'static str, about: &'static str, choices: List<Choice>) -> Axis {
    Axis {
        name: text(name),
        about: text(about),
        domain: Domain::Choice(choices),
    }
}

/// A word, and what it stands for.
pub(crate) const fn word(value: &'static str, about: &'static str) -> Choice {
    Choice {
        value: text(value),
        about: text(about),
    }
}

/// The metric `cost`: nanoseconds per operation.
pub(crate) const fn cost(about: &'static str) -> MetricInfo {
    MetricInfo {
        name: text("cost"),
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        about: text(about),
    }
}

/// The metric `latency`: nanoseconds of each operation, as a distribution.
pub(crate) const fn latency(about: &'static str) -> MetricInfo {
    metric("latency", Unit::Nanoseconds, Better::Lower, about)
}

/// A metric of another kind.
pub(crate) const fn metric(
    name: &'static str,
    unit: Unit,
    better: Better,
    about: &'static str,
) -> MetricInfo {
    MetricInfo {
        name: text(name),
        unit,
        better,
        about: text(about),
    }
}

/// What stands on an axis of a point.
pub(crate) fn axis<T: AxisType>(point: &Point, name: &str) -> T {
    let value = point.axes.0.get(name);
    let value = value.and_then(T::from_value);
    value.unwrap_or_else(|| panic!("{point} has no such {name}"))
}

/// The axis of this type.
pub(crate) fn typed<T>(name: &'static str, axis: AxisOf<T>) -> Axis {
    axis.named(name)
}

/// A point of a probe that has been measured.
#[cfg(test)]
pub(crate) fn measured(
    probe: &costof_measure::probe::Probe,
    axes: impl Into<costof_model::axis::Axes>,
    median: f64,
) -> costof_model::rows::PointRow {
    let primary = probe.info.primary();
    costof_model::rows::PointRow {
        point: point(probe, axes.into()),
        method: probe.info.method,
        primary: primary.name.clone(),
        headline: false,
        label: None,
        launches: 1,
        state: costof_model::rows::State::Ok,
        metrics: vec![costof_model::metric::Estimate {
            name: primary.name.clone(),
            unit: primary.unit,
            better: primary.better,
            median,
            ci95: None,
            interval: None,
            mean: median,
            sd: None,
            min: median,
            percentiles: Vec::new(),
            n: 1,
            undisturbed: None,
            core: None,
            modes: Vec::new(),
        }],
        prediction: None,
        grade: costof_model::noise::Grade::A,
        warnings: Vec::new(),
        placement: costof_model::noise::Placement::default(),
    }
}

/// A point of a probe.
#[cfg(test)]
pub(crate) fn point(
    probe: &costof_measure::probe::Probe,
    axes: costof_model::axis::Axes,
) -> costof_model::point::Point {
    costof_model::point::Point {
        probe: probe.info.id.clone(),
        axes,
        link: text("none"),
    }
}

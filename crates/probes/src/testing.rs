//! Points, rows and reports for tests.

use costof_measure::probe::Probe;
use costof_model::Text;
use costof_model::axis::Axes;
use costof_model::metric::{Estimate, Measured};
use costof_model::point::Point;
use costof_model::protocol::Report;
use costof_model::rows::{PointRow, State};
use costof_model::testing::{estimate, row};

/// Text of the program.
pub(crate) const fn text(text: &'static str) -> Text {
    Text::Borrowed(text)
}

/// A point of a probe that has been measured.
pub(crate) fn measured(probe: &Probe, axes: impl Into<Axes>, median: f64) -> PointRow {
    let primary = probe.info.primary();
    PointRow {
        method: probe.info.method,
        primary: primary.name.clone(),
        metrics: vec![Estimate {
            unit: primary.unit,
            better: primary.better,
            ..estimate(primary.name.clone(), median)
        }],
        ..row(probe.info.id.clone(), axes.into(), median)
    }
}

/// What a role reports that has measured these.
pub(crate) fn report(metrics: Vec<Measured>) -> Report {
    Report {
        state: State::Ok,
        allocations: 0,
        metrics,
    }
}

/// A point of a probe.
pub(crate) fn point(probe: &Probe, axes: Axes) -> Point {
    row(probe.info.id.clone(), axes, 0.0).point
}

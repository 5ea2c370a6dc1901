//! Points and rows for tests.

use costof_measure::probe::Probe;
use costof_model::Text;
use costof_model::axis::Axes;
use costof_model::metric::Estimate;
use costof_model::noise::{Grade, Placement};
use costof_model::point::Point;
use costof_model::rows::{PointRow, State};

/// Text of the program.
pub(crate) const fn text(text: &'static str) -> Text {
    Text::Borrowed(text)
}

/// A point of a probe that has been measured.
pub(crate) fn measured(probe: &Probe, axes: impl Into<Axes>, median: f64) -> PointRow {
    let primary = probe.info.primary();
    PointRow {
        point: point(probe, axes.into()),
        method: probe.info.method,
        primary: primary.name.clone(),
        headline: false,
        label: None,
        launches: 1,
        state: State::Ok,
        metrics: vec![Estimate {
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
        grade: Grade::A,
        warnings: Vec::new(),
        placement: Placement::default(),
    }
}

/// A point of a probe.
pub(crate) fn point(probe: &Probe, axes: Axes) -> Point {
    Point {
        probe: probe.info.id.clone(),
        axes,
        link: text("none"),
    }
}

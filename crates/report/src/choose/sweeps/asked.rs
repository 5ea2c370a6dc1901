//! The plot of one metric over one axis of given points, as a study asks for it.

use super::Probe;
use crate::plot::{Figure, Line, Scale};
use crate::rows::Rows;
use crate::study::Style;
use costof_model::Point;

/// A plot of a study.
pub(crate) struct Asked<'a> {
    pub(crate) probe: &'a str,
    /// All of its points, also those that have no number.
    pub(crate) points: &'a [Point],
    pub(crate) axis: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) style: Style,
}

/// The plot; none if none of its points has the metric.
pub(crate) fn asked(rows: &Rows<'_>, asked: &Asked<'_>) -> Option<Figure> {
    let positions = asked.points.iter().filter_map(|point| rows.position(point));
    let usable: Vec<usize> = positions.filter(|at| rows.row(*at).is_usable()).collect();
    let probe = Probe {
        asked: Some(asked.style),
        ..Probe::new(rows, asked.probe, &usable, asked.points.iter())
    };
    let primary = &rows.row(*usable.first()?).primary;
    let curves = probe.curves(asked.axis);
    let figure = probe.figure(asked.axis, &curves, asked.metric, primary, false)?;
    (!figure.panels.is_empty()).then_some(figure)
}

impl Figure {
    /// Adds the lines of another figure as one series of this name to each panel. The scales then fit all.
    pub(crate) fn add_line(&mut self, other: &Figure, name: &str) {
        if self.series == [""] {
            let probe = self.name.split('-').next().unwrap_or_default();
            self.series = vec![probe.to_owned()];
        }
        let series = self.series.len();
        self.series.push(name.to_owned());
        for panel in &mut self.panels {
            let lines = other.panels.iter().flat_map(|panel| &panel.lines);
            let lines = lines.map(|line| Line::new(series, line.kind, line.dots.clone()));
            panel.lines.extend(lines);
            let dots = || panel.lines.iter().flat_map(|line| &line.dots);
            let numbers: Vec<u64> = dots().map(|dot| dot.x as u64).collect();
            panel.x.scale = Scale::of_numbers(panel.x.unit, &numbers);
            panel.y.scale = Scale::of_values(dots().map(|dot| dot.y));
        }
    }
}

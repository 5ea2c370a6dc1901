//! The plot of one metric over one axis of given points, as a study asks for it.

use super::Probe;
use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale};
use crate::rows::Rows;
use crate::study::Style;
use costof_findings::Interval;
use costof_model::{Point, Unit};
use std::collections::BTreeSet;

/// A plot of a study.
pub(crate) struct Asked<'a> {
    pub(crate) probe: &'a str,
    /// All of its points, also those that have no number.
    pub(crate) points: &'a [Point],
    pub(crate) axis: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) style: Style,
}

/// The plot; none if none of its points has the metric, or, for a speed-up, none of its lines has the value that
/// the others are compared with.
pub(crate) fn asked(rows: &Rows<'_>, asked: &Asked<'_>) -> Option<Figure> {
    let positions = asked.points.iter().filter_map(|point| rows.position(point));
    let usable: Vec<usize> = positions.filter(|at| rows.row(*at).is_usable()).collect();
    let probe = Probe {
        asked: Some(asked.style),
        ..Probe::new(rows, asked.probe, &usable, asked.points.iter())
    };
    let primary = &rows.row(*usable.first()?).primary;
    let curves = probe.curves(asked.axis);
    let mut figure = probe.figure(asked.axis, &curves, asked.metric, primary, false)?;
    if asked.style == Style::SpeedUp {
        speed_up(rows, &mut figure, asked.least()?);
    }
    (!figure.panels.is_empty()).then_some(figure)
}

impl Asked<'_> {
    /// The smallest value of the axis, which speed-ups are relative to, whether it has a number or not.
    pub(crate) fn least(&self) -> Option<u64> {
        self.points.iter().filter_map(|point| point.axes.find_number(self.axis)).min()
    }
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

/// Converts curves to speed-ups: the ratio of a metric to its value at the axis' smallest value.
/// The ideal curve is the ratio of the axis values.
fn speed_up(rows: &Rows<'_>, figure: &mut Figure, least: u64) {
    let [metric, axis] = [&figure.metric, &figure.axis].map(|name| name.replace('_', " "));
    let label = format!("× the {metric} with {axis} {least}");
    for panel in &mut figure.panels {
        for line in &mut panel.lines {
            line.dots = relative(rows, &line.dots, least as f64, &figure.metric);
        }
        panel.lines.retain(|line| !line.dots.is_empty());
        panel.y = Axis::new(label.clone(), Unit::One, Scale::Doublings);
    }
    figure.panels.retain(|panel| !panel.lines.is_empty());
    for panel in &mut figure.panels {
        let ideal = ideal(panel, least as f64, figure.series.len());
        panel.lines.push(ideal);
    }
    figure.series.push("ideal".to_owned());
}

/// The dots of a line relative to the one at `least`, with the intervals of the ratios; none if it has no
/// such dot.
fn relative(rows: &Rows<'_>, dots: &[Dot], least: f64, metric: &str) -> Vec<Dot> {
    let Some(first) = dots.iter().find(|dot| dot.x == least) else {
        return Vec::new();
    };
    let ratio = |dot: &Dot| {
        let of = |dot: &Dot| dot.row.map(|at| rows.row(at));
        let ratio = Interval::log_ratio(rows.run, of(dot)?, of(first)?, metric);
        ratio.filter(|_| dot.x != least).map(Interval::exp)
    };
    let dots = dots.iter().map(|dot| {
        let ratio = ratio(dot);
        let y = ratio.map_or(dot.y / first.y, |ratio| ratio.middle);
        Dot {
            y,
            interval: ratio.map(|ratio| (ratio.low, ratio.high)),
            text: format!("{y:.2} times as much"),
            ..dot.clone()
        }
    });
    dots.collect()
}

fn ideal(panel: &Panel, least: f64, series: usize) -> Line {
    let dots = panel.lines.iter().flat_map(|line| &line.dots);
    let places: BTreeSet<u64> = dots.map(|dot| dot.x as u64).collect();
    let dots =
        places.into_iter().map(|x| Dot { x: x as f64, y: x as f64 / least, ..Dot::default() });
    Line::new(series, Kind::Steps, dots)
}

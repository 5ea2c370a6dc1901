//! The plot of one metric over one axis of given rows, as a study asks for it.

use super::Probe;
use crate::choose::what::What;
use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ends};
use crate::rows::Rows;
use crate::study::Style;
use costof_findings::interval::Interval;
use costof_model::unit::Unit;
use std::collections::BTreeSet;

/// The plot; none if fewer than two of the rows have the metric.
pub(crate) fn asked(
    rows: &Rows<'_>,
    (id, positions): (&str, &[usize]),
    (axis, metric): (&str, &str),
    style: Style,
) -> Option<Figure> {
    let mut usable = positions.to_vec();
    usable.retain(|at| rows.row(*at).is_usable());
    let probe = Probe {
        asked: Some(style),
        ..Probe::new(rows, id, &usable)
    };
    let primary = &rows.row(*usable.first()?).primary;
    let curves = probe.curves(axis);
    let mut figure = probe.figure(axis, &curves, What::Median(metric), primary, false)?;
    if style == Style::SpeedUp {
        speed_up(rows, &mut figure);
    }
    Some(figure)
}

impl Figure {
    /// Adds the lines of another figure as one series of this name. The vertical scale then fits all.
    pub(crate) fn add_line(&mut self, other: Figure, name: &str) {
        if self.series == [""] {
            let probe = self.name.split('-').next().unwrap_or_default();
            self.series = vec![probe.to_owned()];
        }
        let series = self.series.len();
        self.series.push(name.to_owned());
        let Some(panel) = self.panels.first_mut() else {
            return;
        };
        let lines = other.panels.into_iter().flat_map(|panel| panel.lines);
        let lines = lines.map(|line| Line { series, ..line });
        panel.lines.extend(lines);
        let dots = panel.lines.iter().flat_map(|line| &line.dots);
        panel.y.scale = Scale::of_values(dots.map(|dot| dot.y));
    }
}

/// Converts curves to speed-ups: the ratio of a metric to its value at the axis' smallest value.
/// The ideal curve is the ratio of the axis values.
fn speed_up(rows: &Rows<'_>, figure: &mut Figure) {
    let metric = &figure.metric;
    let label = format!("times as much {}", metric.replace('_', " "));
    for panel in &mut figure.panels {
        let dots = panel.lines.iter().flat_map(|line| &line.dots);
        let (least, _) = ends(dots.map(|dot| dot.x));
        for line in &mut panel.lines {
            line.dots = relative(rows, &line.dots, least, metric);
        }
        panel.lines.retain(|line| !line.dots.is_empty());
        panel.lines.push(ideal(panel, least, figure.series.len()));
        panel.y = Axis::new(label.clone(), Unit::One, Scale::Doublings);
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
    let dots = places.into_iter().map(|x| Dot {
        x: x as f64,
        y: x as f64 / least,
        ..Dot::default()
    });
    Line::new(series, Kind::Steps, dots)
}

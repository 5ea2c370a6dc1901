//! The results of launches in the order in which they ran, which shows a machine that drifts.

use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale};
use crate::rows::Rows;
use costof_model::Unit;
use costof_stats::Distribution;

/// At most this many dots are drawn.
const DOTS: usize = 600;
/// A launch further than this from the median, in percent, is drawn at the edge.
const EDGE: f64 = 60.0;
/// How many layers have a colour of their own.
const LAYERS: usize = 7;

pub(super) fn drift(rows: &Rows<'_>) -> Option<Figure> {
    let launches = &rows.run.launches;
    let count: usize = launches.iter().map(|launch| launch.points.len()).sum();
    let every = count.div_ceil(DOTS).max(1);
    let mut series: Vec<String> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    let points = launches.iter().enumerate().flat_map(|(order, launch)| {
        let points = launch.points.iter();
        points.map(move |point| (order, point))
    });
    for (order, point) in points.step_by(every) {
        let Some(at) = rows.position(&point.point) else {
            continue;
        };
        let row = rows.row(at);
        let primary =
            row.primary().filter(|estimate| estimate.is_usable() && estimate.median > 0.0);
        let mut metrics = point.metrics.iter();
        let measured = metrics.find(|metric| metric.name == row.primary);
        let median = measured.and_then(|metric| Distribution::new(metric.data.counted()).median());
        let Some((primary, value)) = primary.zip(median) else {
            continue;
        };
        let off = 100.0 * (value / primary.median - 1.0);
        if !off.is_finite() {
            continue;
        }
        let layer = row.point.layer();
        let layer = match series.iter().position(|known| known == layer) {
            Some(known) => known,
            None if series.len() < LAYERS => {
                series.push(layer.to_owned());
                series.len() - 1
            }
            None => {
                series.truncate(LAYERS);
                series.push("others".to_owned());
                LAYERS
            }
        };
        let dot = Dot {
            x: order as f64 + 1.0,
            y: off.clamp(-EDGE, EDGE),
            row: Some(at),
            ..Dot::default()
        };
        match lines.iter_mut().find(|line| line.series == layer) {
            Some(line) => line.dots.push(dot),
            None => lines.push(Line::new(layer, Kind::Dots, [dot])),
        }
    }
    let dots: usize = lines.iter().map(|line| line.dots.len()).sum();
    if launches.len() < 6 || dots < 12 {
        return None;
    }
    let some = match every {
        1 => String::new(),
        every => format!(" Of the {count} values, one in {every} is drawn."),
    };
    Some(Figure {
        name: "launches".to_owned(),
        title: "Launches in the order in which they ran".to_owned(),
        about: format!(
            "How far each launch's median of a point's primary metric lies from the median of all of \
             its launches. A drifting machine shows a slope; a temporary disturbance shows a \
             cloud. Values further away than {EDGE} % are drawn at the edge.{some}"
        ),
        series,
        panels: vec![Panel::new(
            "",
            Axis::new("launch", Unit::One, Scale::Linear),
            Axis::new("deviation from the median (%)", Unit::One, Scale::Linear),
            lines,
        )],
        ..Figure::default()
    })
}

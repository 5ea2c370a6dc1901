//! What lies between two processors, as a map.

use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale};
use crate::rows::Rows;
use costof_model::axis::AxisValue;
use costof_model::unit::Unit;
use std::collections::BTreeSet;

/// Processors that a map shows.
const PROCESSORS: usize = 256;

/// A map for a probe that has the axes `from` and `to`, where there is more than one way.
pub(super) fn between_processors(
    rows: &Rows<'_>,
    probe: &str,
    positions: &[usize],
) -> Option<Figure> {
    let found: Vec<(u64, u64, usize, f64)> = positions
        .iter()
        .filter_map(|at| {
            let row = rows.row(*at);
            let number = |axis: &str| match row.point.axes.0.get(axis) {
                Some(AxisValue::Number(number)) => Some(*number),
                _ => None,
            };
            Some((number("from")?, number("to")?, *at, row.primary()?.median))
        })
        .filter(|(.., value)| value.is_finite())
        .collect();
    let mut processors: BTreeSet<u64> = found.iter().map(|(from, ..)| *from).collect();
    processors.extend(found.iter().map(|(_, to, ..)| *to));
    let processors: Vec<u64> = processors.into_iter().take(PROCESSORS).collect();
    if found.len() < 2 || processors.len() < 2 {
        return None;
    }
    let values = || found.iter().map(|(.., value)| *value);
    let (low, high) = (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    );
    let place = |processor: &u64| {
        let at = processors.iter().position(|known| known == processor)?;
        Some(at as f64 + 1.0)
    };
    let dots = found.iter().filter_map(|(from, to, at, value)| {
        Some(Dot {
            x: place(to)?,
            y: place(from)?,
            row: Some(*at),
            heat: if high > low {
                (value - low) / (high - low)
            } else {
                0.0
            },
            ..Dot::default()
        })
    });
    let axis = |label: &str| {
        Axis::new(
            label.to_owned(),
            Unit::Processor,
            Scale::Words(processors.iter().map(ToString::to_string).collect()),
        )
    };
    let unit = rows.row(found[0].2).primary()?.unit;
    let line = Line {
        series: 0,
        kind: Kind::Cells,
        dots: dots.collect(),
    };
    Some(Figure {
        name: format!("{probe}-map"),
        title: format!("{probe} from each processor to each"),
        about: format!(
            "The darker, the longer: from {} to {}.",
            unit.display(low),
            unit.display(high)
        ),
        series: vec![String::new()],
        panels: vec![Panel::new(
            "",
            axis("to processor"),
            axis("from processor"),
            vec![line],
        )],
        ..Figure::default()
    })
}

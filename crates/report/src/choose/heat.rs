//! A map of the cost between each two CPUs.

use crate::plot::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ends};
use crate::rows::Rows;
use costof_model::Unit;
use std::collections::BTreeSet;

/// How many CPUs a map shows.
const PROCESSORS: usize = 256;

/// A map for a probe with the axes `from` and `to`; none if it measured only one pair.
pub(super) fn between_processors(
    rows: &Rows<'_>,
    probe: &str,
    positions: &[usize],
) -> Option<Figure> {
    let found = positions.iter().filter_map(|at| {
        let row = rows.row(*at);
        let value = row.primary().filter(|_| row.is_usable())?.median;
        Some((row.number("from")?, row.number("to")?, *at, value))
    });
    let found: Vec<(u64, u64, usize, f64)> =
        found.filter(|(.., value)| value.is_finite()).collect();
    let processors: BTreeSet<u64> = found.iter().flat_map(|(from, to, ..)| [*from, *to]).collect();
    let processors: Vec<u64> = processors.into_iter().take(PROCESSORS).collect();
    if found.len() < 2 || processors.len() < 2 {
        return None;
    }
    let (low, high) = ends(found.iter().map(|(.., value)| *value));
    let high = high.max(0.0);
    let place = |processor: &u64| {
        let at = processors.iter().position(|known| known == processor)?;
        Some(at as f64 + 1.0)
    };
    let dots = found.iter().filter_map(|(from, to, at, value)| {
        Some(Dot {
            x: place(to)?,
            y: place(from)?,
            row: Some(*at),
            heat: if high > low { (value - low) / (high - low) } else { 0.0 },
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
    let line = Line::new(0, Kind::Cells, dots);
    let (shortest, longest) = (unit.display(low), unit.display(high));
    Some(Figure {
        name: format!("{probe}-map"),
        title: format!("{probe} from each CPU to each"),
        about: format!("The darker, the longer: from {shortest} to {longest}."),
        series: vec![String::new()],
        panels: vec![Panel::new("", axis("to CPU"), axis("from CPU"), vec![line])],
        ..Figure::default()
    })
}

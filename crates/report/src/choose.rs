//! Chooses the plots of a run by which axes it varied.

mod distributions;
mod heat;
mod marks;
mod place;
mod rungs;
mod sweeps;

pub(crate) use place::{LOSS, without_loss};
pub(crate) use rungs::ladder;
pub(crate) use sweeps::{Asked, asked};

use crate::plot::Figure;
use crate::rows::Rows;
use std::collections::HashSet;

/// A probe's plots consider at most this many axes, all points together.
pub(crate) const AXES: usize = 32;

/// The positions of the points of a probe that are drawn. Points that would bring the number of axes above
/// `AXES` are left out: a hostile file may give every point its own axis.
pub(crate) fn drawable(rows: &Rows<'_>, positions: &[usize]) -> Vec<usize> {
    let mut known: HashSet<&str> = HashSet::new();
    let mut drawable = positions.to_vec();
    drawable.retain(|at| {
        let names = rows.row(*at).point.axes.0.keys().map(|name| &**name);
        let unknown: Vec<&str> =
            names.filter(|name| !known.contains(name)).take(AXES + 1).collect();
        let has_room = known.len() + unknown.len() <= AXES;
        if has_room {
            known.extend(unknown);
        }
        has_room
    });
    drawable
}

/// The figures of one probe.
pub(crate) fn probe_figures(rows: &Rows<'_>, probe: &str, positions: &[usize]) -> Vec<Figure> {
    let positions = &drawable(rows, positions);
    let mut figures = sweeps::sweeps(rows, probe, positions);
    marks::add(rows, probe, &mut figures);
    figures.extend(heat::between_processors(rows, probe, positions));
    figures.extend(distributions::distributions(rows, probe, positions));
    figures
}

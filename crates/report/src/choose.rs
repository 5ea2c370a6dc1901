//! Which plots a run asks for, by what was varied in it.

mod distributions;
mod drift;
mod heat;
mod marks;
mod place;
mod rungs;
mod sweeps;
mod what;

use crate::plot::Figure;
use crate::rows::Rows;

/// The figures of one probe.
pub(crate) fn of_probe(rows: &Rows<'_>, probe: &str, positions: &[usize]) -> Vec<Figure> {
    let mut figures = sweeps::sweeps(rows, probe, positions);
    marks::add(rows, probe, &mut figures);
    figures.extend(heat::between_processors(rows, probe, positions));
    figures.extend(distributions::distributions(rows, probe, positions));
    figures
}

/// The figures of the run as a whole.
pub(crate) fn of_run(rows: &Rows<'_>) -> Vec<Figure> {
    let ladder = rungs::ladder(rows);
    ladder.into_iter().chain(drift::drift(rows)).collect()
}

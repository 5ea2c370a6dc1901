//! Every plot of a run as a file of its own, for a paper.

use crate::choose;
use crate::plot::{FILE, Figure, drawing};
use crate::rows::Rows;
use crate::text::file_name;
use costof_model::Run;

/// The name of each file, and its SVG.
pub fn svg(run: &Run) -> Vec<(String, String)> {
    let rows = Rows::new(run);
    let of_probes = rows.by_probe();
    let of_probes = of_probes
        .iter()
        .flat_map(|(probe, positions)| choose::probe_figures(&rows, probe, positions));
    files(choose::ladder(&rows).into_iter().chain(of_probes))
}

/// A file for each panel of these figures.
pub(crate) fn files(figures: impl IntoIterator<Item = Figure>) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for figure in figures {
        for (number, panel) in figure.panels.iter().enumerate() {
            let name = panel_file(&figure, number);
            // Two figures of a hostile run may have the same name.
            if files.iter().all(|(known, _)| *known != name) {
                files.push((name, drawing(&figure, panel, FILE)));
            }
        }
    }
    files
}

fn panel_file(figure: &Figure, number: usize) -> String {
    let name = file_name(&figure.name, 120);
    match figure.panels.len() {
        1 => format!("{name}.svg"),
        _ => format!("{name}-{}.svg", number + 1),
    }
}

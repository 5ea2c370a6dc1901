//! The latency table for a README or an issue.

use crate::grid::{Align, Grid, escaped};
use crate::rows::Rows;
use crate::run::machine;
use crate::table::{interval_of, measured, prediction};
use costof_model::Run;

/// The points of the latency table; all points if a run has none of these.
pub fn table(run: &Run) -> String {
    let rows = Rows::new(run);
    let headlines = rows.all().iter().any(|row| row.headline);
    let columns = ["measured", "95 % interval", "predicted"].map(|name| (name, Align::Right));
    let columns = [("", Align::Left)].into_iter().chain(columns);
    let mut grid = Grid::new(columns.chain([("grade", Align::Centre)]));
    for (position, row) in rows.all().iter().enumerate() {
        if headlines && !row.headline {
            continue;
        }
        grid.add([
            rows.label(position),
            measured(row),
            interval_of(row),
            prediction(row),
            row.grade.to_string(),
        ]);
    }
    format!("{}\n\n{}", escaped(machine(run).trim()), grid.markdown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts as run, sized_row as row};

    #[test]
    fn a_row_is_a_line() {
        let mut run = run();
        run.points = vec![row("a.x", 64, 5.0), row("b.y", 128, 7.5)];
        run.points[1].label = Some("read | <b>write</b>\nx".to_owned());
        run.points[1].headline = true;
        let text = table(&run);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            lines[2..],
            ["| read \\| &lt;b>write&lt;/b> x | 7.50 ns | 6.75 ns – 8.25 ns |  | A |"]
        );
    }
}

//! The latency table for a README or an issue.

use crate::rows::Rows;
use crate::run::machine;
use crate::table::{interval, prediction};
use costof_model::run_file::Run;

/// The points of the latency table, or all where a run has none of it.
pub fn table(run: &Run) -> String {
    let rows = Rows::of(run);
    let mut text = escaped(machine(run).trim());
    text.push_str(
        "\n\n| | measured | 95 % interval | predicted | grade |\n|---|--:|--:|--:|:-:|\n",
    );
    let headlines = rows.all().iter().any(|row| row.headline);
    for (position, row) in rows.all().iter().enumerate() {
        if headlines && !row.headline {
            continue;
        }
        let name = row.label.clone().unwrap_or_else(|| rows.name(position));
        let measured = row.primary().map_or_else(
            || "below resolution".to_owned(),
            |estimate| estimate.unit.display(estimate.median),
        );
        let interval = row.primary().map_or_else(String::new, interval);
        let cells = [
            name,
            measured,
            interval,
            prediction(row),
            row.grade.to_string(),
        ];
        text.push_str(&format!(
            "| {} |\n",
            cells.map(|cell| escaped(&cell)).join(" | ")
        ));
    }
    text
}

/// Text that is neither markup nor the end of a cell.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' => escaped.extend(['\\', c]),
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
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
            ["| read \\| &lt;b>write&lt;/b> x | 7.50 ns | 6.75–8.25 |  | A |"]
        );
    }
}

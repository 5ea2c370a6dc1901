//! A table of text, for a terminal or as Markdown.

use crate::text::{printable, wrapped};
use comfy_table::{CellAlignment, Table, presets};

/// How the cells of a column are aligned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Align {
    /// For words.
    Left,
    /// For single letters.
    Centre,
    /// For numbers.
    Right,
}

/// A name is not broken into lines shorter than this.
const LEAST_NAME: usize = 20;

/// A table: the names and alignments of its columns, and its rows of cells.
pub struct Grid {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// An empty table with these columns.
    pub fn new<'n>(columns: impl IntoIterator<Item = (&'n str, Align)>) -> Grid {
        let columns = columns.into_iter();
        Grid {
            columns: columns
                .map(|(name, align)| (name.to_owned(), align))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Makes the table fit a terminal: leaves out the columns that need a wider one (`from_widths` says for
    /// each from which width on it is shown), and breaks what stands in column `name` into lines.
    pub(crate) fn fit(&mut self, width: usize, from_widths: &[usize], name: usize) {
        keep_shown(&mut self.columns, from_widths, width);
        for row in &mut self.rows {
            keep_shown(row, from_widths, width);
        }
        let room = self.room(width, name);
        for row in &mut self.rows {
            let lines = row[name].lines().map(|line| {
                let text = line.trim_start_matches(' ');
                wrapped(room, text, &line[..line.len() - text.len()])
            });
            row[name] = lines.collect::<String>().trim_end().to_owned();
        }
    }

    /// The width that the other columns leave for column `name`; each has a space on both sides.
    fn room(&self, width: usize, name: usize) -> usize {
        let letters = |text: &str| text.chars().count();
        let others = (0..self.columns.len()).filter(|position| *position != name);
        let widths = others.map(|position| {
            let cells = self.rows.iter().map(|row| letters(&row[position]));
            2 + cells.fold(letters(&self.columns[position].0), usize::max)
        });
        width
            .saturating_sub(2 + widths.sum::<usize>())
            .max(LEAST_NAME)
    }

    /// How many lines each row takes, if only what stands in column `name` has several.
    pub(crate) fn heights(&self, name: usize) -> impl Iterator<Item = usize> {
        let rows = self.rows.iter();
        rows.map(move |row| row[name].lines().count().max(1))
    }

    /// The table with columns but no lines between them. Only numbers are aligned.
    pub fn text(self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(self.columns.iter().map(|(name, _)| name));
        // A run file may come from anybody. A cell may have several lines.
        let shown = |cell: &String| {
            cell.split('\n')
                .map(printable)
                .collect::<Vec<_>>()
                .join("\n")
        };
        let rows = self.rows.iter();
        table.add_rows(rows.map(|row| row.iter().map(shown)));
        for (position, (_, align)) in self.columns.iter().enumerate() {
            let column = table
                .column_mut(position)
                .filter(|_| *align == Align::Right);
            if let Some(column) = column {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = table.lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| match &**name {
            "" => " |".to_owned(),
            name => format!(" {} |", name.trim().replace('\n', ", ")),
        });
        let rules = self.columns.iter().map(|(_, align)| match align {
            Align::Left => "---|".to_owned(),
            Align::Centre => ":-:|".to_owned(),
            Align::Right => "--:|".to_owned(),
        });
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().map(|cell| format!(" {} |", escaped(cell)));
            cells.collect()
        });
        let lines = [names.collect(), rules.collect()].into_iter().chain(rows);
        lines.map(|line: String| format!("|{line}\n")).collect()
    }
}

/// Keeps what stands in a column that a terminal of this width shows.
fn keep_shown<T>(row: &mut Vec<T>, from_widths: &[usize], width: usize) {
    let mut from_widths = from_widths.iter();
    row.retain(|_| from_widths.next().is_some_and(|from| *from <= width));
}

/// Text without the characters that mean markup or end a cell.
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

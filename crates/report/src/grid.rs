//! A table of text, for a terminal or as Markdown.

use crate::text::printable;
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

//! A table, for a terminal, a page, or as Markdown.

use crate::text::{printable, wrapped};
use comfy_table::{CellAlignment, Table, presets};
use maud::{Markup, html};

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
const MIN_NAME: usize = 20;

/// On a page, a table has at most this many rows: a huge or hostile file may have more.
const ROWS: usize = 3000;

/// A column.
struct Column {
    /// The name above this column and those after it without such a name.
    group: Option<String>,
    name: String,
    align: Align,
}

impl Column {
    /// All that stands above the column, in one text.
    fn heading(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}\n{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A cell.
pub struct Cell {
    text: String,
    /// The position of the row of the run that a page links it to.
    row: Option<usize>,
    /// The classes that it has on a page besides that of its column.
    class: &'static str,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, row: None, class: "" }
    }
}

impl Cell {
    /// A cell that a page links to this row of the run.
    pub(crate) fn linked(text: String, row: Option<usize>) -> Cell {
        Cell { row, ..text.into() }
    }

    /// A cell that a page shows in these classes.
    pub(crate) fn classed(text: String, class: &'static str) -> Cell {
        Cell { class, ..text.into() }
    }
}

/// A table: its columns, and its rows of cells.
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// An empty table with columns of these names and alignments.
    pub fn new<'n>(columns: impl IntoIterator<Item = (&'n str, Align)>) -> Grid {
        let columns = columns.into_iter();
        Grid::grouped(columns.map(|(name, align)| (None, name, align)))
    }

    /// An empty table of numbers in columns of these names, after one of their names.
    pub(crate) fn of_numbers<'n>(names: impl IntoIterator<Item = &'n str>) -> Grid {
        let numbers = names.into_iter().map(|name| (name, Align::Right));
        Grid::new([("", Align::Left)].into_iter().chain(numbers))
    }

    /// An empty table in which some columns begin a group, whose name stands above it.
    pub(crate) fn grouped<'n>(
        columns: impl IntoIterator<Item = (Option<&'n str>, &'n str, Align)>,
    ) -> Grid {
        let columns = columns.into_iter();
        let column = |(group, name, align): (Option<&str>, &str, Align)| Column {
            group: group.map(str::to_owned),
            name: name.to_owned(),
            align,
        };
        Grid { columns: columns.map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Makes the table fit a terminal: leaves out the columns that need a wider one (`from_widths` says for
    /// each from which width on it is shown), and breaks what stands in column `name` into lines.
    pub fn fit(&mut self, width: usize, from_widths: &[usize], name: usize) {
        keep_shown(&mut self.columns, from_widths, width);
        for row in &mut self.rows {
            keep_shown(row, from_widths, width);
        }
        let room = self.room(width, name);
        for row in &mut self.rows {
            let lines = row[name].text.lines().map(|line| {
                let text = line.trim_start_matches(' ');
                wrapped(room, text, &line[..line.len() - text.len()])
            });
            row[name] = lines.collect::<String>().trim_end().to_owned().into();
        }
    }

    /// The width that the other columns leave for column `name`; each has a space on both sides.
    fn room(&self, width: usize, name: usize) -> usize {
        let letters = |text: &str| text.chars().count();
        let others = (0..self.columns.len()).filter(|position| *position != name);
        let widths = others.map(|position| {
            let cells = self.rows.iter().map(|row| letters(&row[position].text));
            2 + cells.fold(letters(&self.columns[position].name), usize::max)
        });
        width.saturating_sub(2 + widths.sum::<usize>()).max(MIN_NAME)
    }

    /// How many lines each row takes, if only what stands in column `name` has several.
    pub(crate) fn heights(&self, name: usize) -> impl Iterator<Item = usize> {
        let rows = self.rows.iter();
        rows.map(move |row| row[name].text.lines().count().max(1))
    }

    /// Whether names stand above groups of columns.
    fn has_groups(&self) -> bool {
        self.columns.iter().any(|column| column.group.is_some())
    }

    /// The table with columns but no lines between them. Only numbers are aligned.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let above = |column: &Column| match column.group {
            None if self.has_groups() => format!("\n{}", column.name),
            _ => column.heading(),
        };
        // A run file may come from anybody. A text may have several lines.
        let shown = |text: &str| text.split('\n').map(printable).collect::<Vec<_>>().join("\n");
        let headings = self.columns.iter().map(|column| shown(&above(column)));
        table.set_header(headings);
        let cells = |row: &Vec<Cell>| row.iter().map(|cell| shown(&cell.text)).collect::<Vec<_>>();
        table.add_rows(self.rows.iter().map(cells));
        for (position, column) in self.columns.iter().enumerate() {
            let is_right = column.align == Align::Right;
            if let Some(column) = table.column_mut(position).filter(|_| is_right) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = table.lines();
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let names =
            self.columns.iter().map(|column| match column.heading().trim().replace('\n', ", ") {
                name if name.is_empty() => " |".to_owned(),
                name => format!(" {} |", escaped(&name)),
            });
        let rules = self.columns.iter().map(|column| match column.align {
            Align::Left => "---|".to_owned(),
            Align::Centre => ":-:|".to_owned(),
            Align::Right => "--:|".to_owned(),
        });
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().map(|cell| format!(" {} |", escaped(&cell.text)));
            cells.collect()
        });
        let lines = [names.collect(), rules.collect()].into_iter().chain(rows);
        lines.map(|line: String| format!("|{line}\n")).collect()
    }

    /// The contents of a table of a page.
    pub(crate) fn html(&self) -> Markup {
        let class = |column: &Column| (column.align == Align::Right).then_some("v");
        let left_out = self.rows.len().saturating_sub(ROWS);
        html! {
            thead {
                @if self.has_groups() {
                    tr { @for (name, columns) in self.groups() {
                        @let columns = (columns > 1).then_some(columns);
                        @if name.is_empty() { td colspan=[columns] {} } @else { th colspan=[columns] { (name) } }
                    } }
                }
                tr { @for column in &self.columns {
                    // A header without words is none to a screen reader.
                    @if column.name.is_empty() { td {} }
                    @else { th scope="col" class=[class(column)] { (column.name) } }
                } }
            }
            tbody {
                @for row in self.rows.iter().take(ROWS) { tr {
                    @for (cell, column) in row.iter().zip(&self.columns) {
                        @let classes = [class(column).unwrap_or_default(), cell.class].join(" ");
                        td class=[Some(classes.trim()).filter(|all| !all.is_empty())] { @match cell.row {
                            Some(row) => a href={ "#p" (row) } { (cell.text) },
                            None => (cell.text),
                        } }
                    }
                } }
                @if left_out > 0 { tr { td colspan=(self.columns.len()) { "and " (left_out) " more" } } }
            }
        }
    }

    /// The names above the columns, and how many columns each is above.
    fn groups(&self) -> Vec<(&str, usize)> {
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for column in &self.columns {
            match (&column.group, groups.last_mut()) {
                (None, Some((_, columns))) => *columns += 1,
                (group, _) => groups.push((group.as_deref().unwrap_or_default(), 1)),
            }
        }
        groups
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
            '&' => escaped.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' => escaped.extend(['\\', c]),
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

//! A table with its columns side by side: a row for each of the study's rows, with a few cells for
//! each column.

use super::reproduction::{Line, ReproducedTable};
use crate::grid::{Align, Grid};
use crate::text::printable;

/// With more columns the table would be too wide: there each figure has a line of its own.
const COLUMNS_MAX: usize = 3;

/// What is shown of each figure; a terminal has room for the first ones.
const CELLS: [Cell; 5] = [
    ("they predicted", |line| line.predicted.clone()),
    ("published", |line| line.published.clone()),
    ("here", here),
    ("median here", median),
    ("costof predicted", |line| line.expected.clone()),
];
const ON_A_TERMINAL: usize = 4;

/// The name of a cell, and its text.
type Cell = (&'static str, fn(&Line) -> String);

pub(crate) struct Wide<'a> {
    table: &'a ReproducedTable,
    /// For each column those that at least one of its figures has.
    cells: Vec<Vec<Cell>>,
}

/// A figure's value with its interval, which is that of the median.
fn here(line: &Line) -> String {
    match (&*line.median, &*line.interval) {
        ("", interval) if !interval.is_empty() => format!("{} ({interval})", line.here),
        _ => line.here.clone(),
    }
}

/// The median, if the value is a mean.
fn median(line: &Line) -> String {
    match (&*line.median, &*line.interval) {
        ("", _) | (_, "") => line.median.clone(),
        (median, interval) => format!("{median} ({interval})"),
    }
}

impl ReproducedTable {
    /// The table with its columns side by side, if there are few.
    pub(crate) fn wide(&self) -> Option<Wide<'_>> {
        self.with_cells(&CELLS)
    }

    /// The same with as many cells as a terminal has room for.
    pub(super) fn narrow(&self) -> Option<Wide<'_>> {
        self.with_cells(&CELLS[..ON_A_TERMINAL])
    }

    fn with_cells(&self, cells: &[Cell]) -> Option<Wide<'_>> {
        let count = self.columns.len();
        if !(1..=COLUMNS_MAX).contains(&count) {
            return None;
        }
        let is_some = |text: String| !matches!(&*text, "" | "-");
        let of_column = |column: usize| {
            let lines = || self.lines.iter().skip(column).step_by(count);
            let has = |(_, of): &Cell| lines().any(|line| is_some(of(line)));
            let cells = cells.iter().copied().filter(has);
            cells.map(|cell| self.named(cell)).collect()
        };
        Some(Wide {
            table: self,
            cells: (0..count).map(of_column).collect(),
        })
    }
}

impl<'a> Wide<'a> {
    /// The name of each column, and those of its cells.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&'a str, Vec<&'static str>)> {
        let names = self.table.columns.iter().map(|name| &**name);
        let cells = self.cells.iter();
        names.zip(cells.map(|cells| cells.iter().map(|(name, _)| *name).collect()))
    }

    /// The unit that all cells are in.
    pub(crate) fn unit(&self) -> &'a str {
        &self.table.unit
    }

    /// The name of each row, and its figures.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'a str, &'a [Line])> {
        let columns = &self.table.columns;
        self.table.lines.chunks(columns.len()).map(|row| {
            let of_first = format!(": {}", columns[0]);
            let name = &*row[0].name;
            (name.strip_suffix(&*of_first).unwrap_or(name), row)
        })
    }

    /// The names and texts of the cells of a row's figures. The unit stands in the head of the table.
    pub(crate) fn cells_of<'r>(
        &self,
        row: &'r [Line],
    ) -> impl Iterator<Item = (&'r Line, &'static str, String)> {
        let symbol = format!(" {}", self.unit());
        let figures = row.iter().zip(&self.cells);
        let cells = figures.flat_map(|(line, cells)| cells.iter().map(move |cell| (line, cell)));
        cells.map(move |(line, (name, of))| match self.unit() {
            "" => (line, *name, of(line)),
            _ => (line, *name, without_unit(&of(line), &symbol)),
        })
    }

    pub(super) fn grid(&self) -> Grid {
        let head = self.columns().flat_map(|(column, cells)| {
            let cells = cells.into_iter().enumerate();
            cells.map(move |(at, cell)| match at {
                0 => format!("{}\n{cell}", printable(column)),
                _ => format!("\n{cell}"),
            })
        });
        let head: Vec<String> = head.collect();
        let first = [(self.unit(), Align::Left)].into_iter();
        let head = head.iter().map(|name| (&**name, Align::Right));
        let last = [("\ngrades", Align::Left), ("", Align::Left)];
        let mut grid = Grid::new(first.chain(head).chain(last));
        for (name, row) in self.rows() {
            let cells = self.cells_of(row).map(|(.., text)| text);
            let first = [name.to_owned()].into_iter();
            grid.add(first.chain(cells).chain([grades(row), marks(row)]));
        }
        grid
    }
}

/// A text without the unit behind its numbers.
fn without_unit(text: &str, symbol: &str) -> String {
    let mut parts = text.split(symbol);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let is_behind_a_number = plain.ends_with(|c: char| c.is_ascii_digit())
            && !rest.starts_with(|c: char| c.is_alphanumeric() || c == '/');
        if !is_behind_a_number {
            plain += symbol;
        }
        plain += rest;
    }
    plain
}

/// The grade of each figure of a row.
pub(crate) fn grades(row: &[Line]) -> String {
    let grades = row.iter().map(|line| match &*line.grade {
        "" => "—",
        grade => grade,
    });
    grades.collect::<Vec<_>>().join(" ")
}

/// The numbers of the notes of a row, each once.
pub(crate) fn marks(row: &[Line]) -> String {
    let mut marks: Vec<usize> = row.iter().flat_map(|line| line.marks.clone()).collect();
    marks.sort_unstable();
    marks.dedup();
    marks.iter().map(|mark| format!("[{mark}]")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_unit_behind_a_number_goes() {
        assert_eq!(without_unit("2 s (1 s–3 s)", " s"), "2 (1–3)");
        assert_eq!(
            without_unit("the plot shows 2 s/B", " s"),
            "the plot shows 2 s/B"
        );
    }

    #[test]
    fn columns_stand_beside_each_other_without_what_none_has() {
        let line = |name: &str, here: &str, marks: Vec<usize>| Line {
            name: name.to_owned(),
            published: "-".to_owned(),
            here: here.to_owned(),
            interval: "1–3".to_owned(),
            grade: "B".to_owned(),
            marks,
            ..Line::default()
        };
        let mut table = ReproducedTable {
            columns: vec!["one".to_owned(), "two".to_owned()],
            unit: "µs".to_owned(),
            lines: vec![
                line("64 B: one", "2 µs", vec![2]),
                line("64 B: two", "3 µs", vec![1, 2]),
            ],
            ..ReproducedTable::default()
        };
        let markdown = table.wide().unwrap().grid().markdown();
        assert!(
            markdown.starts_with("| µs | one, here | two, here | grades | |\n"),
            "{markdown}"
        );
        assert!(
            markdown.ends_with("| 64 B | 2 (1–3) | 3 (1–3) | B B | \\[1\\]\\[2\\] |\n"),
            "{markdown}"
        );
        table.lines[0].published = "5 µs".to_owned();
        let cells = |table: &ReproducedTable| -> Vec<Vec<&str>> {
            let wide = table.wide().unwrap();
            wide.columns().map(|(_, cells)| cells).collect()
        };
        assert_eq!(cells(&table), [vec!["published", "here"], vec!["here"]]);
        table.is_of_means = true;
        assert_eq!(cells(&table)[0], ["published", "mean here"]);
        table.columns = vec![String::new(); 4];
        assert!(table.wide().is_none(), "four are too many");
    }
}

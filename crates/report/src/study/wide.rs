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
    /// Those that at least one figure has.
    pub(crate) cells: Vec<&'static str>,
    of: Vec<fn(&Line) -> String>,
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
        let is_some = |text: String| !matches!(&*text, "" | "-");
        let has = |of: fn(&Line) -> String| self.lines.iter().any(|line| is_some(of(line)));
        let cells = cells.iter().copied().filter(|(_, of)| has(*of));
        let (cells, of) = cells.map(|cell| self.named(cell)).unzip();
        let are_few = (1..=COLUMNS_MAX).contains(&self.columns.len());
        are_few.then_some(Wide {
            table: self,
            cells,
            of,
        })
    }
}

impl<'a> Wide<'a> {
    pub(crate) fn columns(&self) -> &'a [String] {
        &self.table.columns
    }

    /// The unit that all cells are in.
    pub(crate) fn unit(&self) -> &'a str {
        &self.table.unit
    }

    /// The name of each row, and its figures.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'a str, &'a [Line])> {
        let columns = self.columns();
        self.table.lines.chunks(columns.len()).map(|row| {
            let of_first = format!(": {}", columns[0]);
            let name = &*row[0].name;
            (name.strip_suffix(&*of_first).unwrap_or(name), row)
        })
    }

    /// The cells of a figure. The unit stands in the head of the table.
    pub(crate) fn cells_of(&self, line: &Line) -> Vec<String> {
        let symbol = format!(" {}", self.unit());
        let plain = |of: &fn(&Line) -> String| match self.unit() {
            "" => of(line),
            _ => without_unit(&of(line), &symbol),
        };
        self.of.iter().map(plain).collect()
    }

    pub(super) fn grid(&self) -> Grid {
        let head = self.columns().iter().flat_map(|column| {
            let cells = self.cells.iter().enumerate();
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
            let cells = row.iter().flat_map(|line| self.cells_of(line));
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
        assert_eq!(table.wide().unwrap().cells, ["published", "here"]);
        table.is_of_means = true;
        assert_eq!(table.wide().unwrap().cells, ["published", "mean here"]);
        table.columns = vec![String::new(); 4];
        assert!(table.wide().is_none(), "four are too many");
    }
}

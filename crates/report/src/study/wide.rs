//! A table with its columns side by side: a row for each of the study's rows, with a few cells for
//! each column.

use super::reproduction::ReproducedTable;
use super::result::Line;
use crate::grid::{Align, Cell, Grid};

/// With more columns the table would be too wide: there each figure has a line of its own.
const COLUMNS_MAX: usize = 3;

/// What is shown of each figure; a terminal has room for the first ones.
const CONTENTS: [Content; 5] = [
    ("they predicted", |line| line.predicted.clone()),
    ("published", |line| line.published.clone()),
    ("here", here),
    ("median here", median),
    ("costof predicted", |line| line.expected.clone()),
];
const ON_A_TERMINAL: usize = 4;

/// The name of a cell, and its text.
type Content = (&'static str, fn(&Line) -> String);

pub(super) struct Wide<'a> {
    table: &'a ReproducedTable,
    /// For each column those that at least one of its figures has.
    cells: Vec<Vec<Content>>,
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
    pub(super) fn wide(&self) -> Option<Wide<'_>> {
        self.with_cells(&CONTENTS)
    }

    /// The same with as many cells as a terminal has room for.
    pub(super) fn narrow(&self) -> Option<Wide<'_>> {
        self.with_cells(&CONTENTS[..ON_A_TERMINAL])
    }

    fn with_cells(&self, cells: &[Content]) -> Option<Wide<'_>> {
        let count = self.columns.len();
        if !(1..=COLUMNS_MAX).contains(&count) {
            return None;
        }
        let is_some = |text: String| !matches!(&*text, "" | "-");
        let of_column = |column: usize| {
            let lines = || self.lines.iter().skip(column).step_by(count);
            let has = |(_, of): &Content| lines().any(|line| is_some(of(line)));
            let cells = cells.iter().copied().filter(has);
            cells.map(|cell| self.with_statistic(cell)).collect()
        };
        Some(Wide { table: self, cells: (0..count).map(of_column).collect() })
    }
}

impl Wide<'_> {
    /// The table. `position` is the row of the run that a figure is compared with. The unit of all cells stands in
    /// the head of the table.
    pub(super) fn grid(&self, position: &dyn Fn(&Line) -> Option<usize>) -> Grid {
        let (unit, names) = (&*self.table.unit, &self.table.columns);
        let head = names.iter().zip(&self.cells).flat_map(|(column, cells)| {
            let cells = cells.iter().enumerate();
            cells.map(move |(at, (cell, _))| ((at == 0).then_some(&**column), *cell, Align::Right))
        });
        let first = [(Some(unit), "", Align::Left)].into_iter();
        let last = [(Some(""), "grades", Align::Left), (Some(""), "", Align::Left)];
        let mut grid = Grid::grouped(first.chain(head).chain(last));
        let symbol = format!(" {unit}");
        for row in self.table.lines.chunks(names.len()) {
            let of_first = format!(": {}", names[0]);
            let name = &*row[0].name;
            let name = name.strip_suffix(&*of_first).unwrap_or(name);
            let figures = row.iter().zip(&self.cells);
            let cells =
                figures.flat_map(|(line, cells)| cells.iter().map(move |cell| (line, cell)));
            let cells = cells.map(|(line, (name, of))| {
                let text = match unit {
                    "" => of(line),
                    _ => without_unit(&of(line), &symbol),
                };
                let is_here = matches!(*name, "here" | "mean here");
                Cell::linked(text, position(line).filter(|_| is_here))
            });
            let first = [Cell::from(name.to_owned())].into_iter();
            let last = [grades(row), marks(row)].map(Cell::from);
            grid.add(first.chain(cells).chain(last));
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
fn grades(row: &[Line]) -> String {
    let grades = row.iter().map(|line| match &*line.grade {
        "" => "—",
        grade => grade,
    });
    grades.collect::<Vec<_>>().join(" ")
}

/// The numbers of the notes of a row, each once.
fn marks(row: &[Line]) -> String {
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
        assert_eq!(without_unit("the plot shows 2 s/B", " s"), "the plot shows 2 s/B");
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
            lines: vec![line("64 B: one", "2 µs", vec![2]), line("64 B: two", "3 µs", vec![1, 2])],
            ..ReproducedTable::default()
        };
        let markdown = table.wide().unwrap().grid(&|_| None).markdown();
        assert!(markdown.starts_with("| µs | one, here | two, here | grades | |\n"), "{markdown}");
        assert!(
            markdown.ends_with("| 64 B | 2 (1–3) | 3 (1–3) | B B | \\[1\\]\\[2\\] |\n"),
            "{markdown}"
        );
        table.lines[0].published = "5 µs".to_owned();
        let cells = |table: &ReproducedTable| -> Vec<Vec<&str>> {
            let wide = table.wide().unwrap();
            let cells = wide.cells.iter();
            cells.map(|cells| cells.iter().map(|(name, _)| *name).collect()).collect()
        };
        assert_eq!(cells(&table), [vec!["published", "here"], vec!["here"]]);
        let page = table.wide().unwrap().grid(&|_| Some(7)).html().into_string();
        for part in [
            "<tr><th>µs</th><th colspan=\"2\">one</th><th>two</th><td></td><td></td></tr>",
            "<td class=\"v\">5</td><td class=\"v\"><a href=\"#p7\">2 (1–3)</a></td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        table.is_of_means = true;
        assert_eq!(cells(&table)[0], ["published", "mean here"]);
        table.columns = vec![String::new(); 4];
        assert!(table.wide().is_none(), "four are too many");
    }
}

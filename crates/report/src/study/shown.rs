//! The comparison of a study with a run, as a document.

use super::guess;
use super::reproduction::{Answer, ReproducedTable, Reproduction};
use super::result::Line;
use crate::document::{self, Part};
use crate::grid::{Align, Cell, Grid, escaped};
use crate::names::short_point;
use crate::page::figures::figures;
use crate::plots;
use crate::rows::Rows;
use crate::run::machine;
use costof_findings::Finding;
use costof_model::{Point, Run};
use maud::html;

/// At most this many points of an answer are named.
const NAMED: usize = 2;

/// The heading of a column, and its text for a line.
type Column = (&'static str, fn(&Line) -> &str);

const COLUMNS: [Column; 8] = [
    ("they predicted", |line| &line.predicted),
    ("published", |line| &line.published),
    ("here", |line| &line.here),
    ("median here", |line| &line.median),
    ("95 % interval", |line| &line.interval),
    ("here ÷ published", |line| &line.ratio),
    ("costof predicted", |line| &line.expected),
    ("grade", |line| &line.grade),
];

impl ReproducedTable {
    /// The columns in which at least one line has text.
    fn columns(&self) -> Vec<Column> {
        let has = |column: &Column| self.lines.iter().any(|line| !(column.1)(line).is_empty());
        COLUMNS.into_iter().filter(has).map(|column| self.with_statistic(column)).collect()
    }

    /// A column or cell, of which the name says if all numbers here are means.
    pub(super) fn with_statistic<F>(&self, (name, of): (&'static str, F)) -> (&'static str, F) {
        match name {
            "here" if self.is_of_means => ("mean here", of),
            name => (name, of),
        }
    }

    /// The table for a terminal, or for a document that has more room. `row` is the row of the run that a line
    /// is compared with.
    fn grid(&self, is_terminal: bool, row: &dyn Fn(&Line) -> Option<usize>) -> Grid {
        let wide = if is_terminal { self.narrow() } else { self.wide() };
        if let Some(wide) = wide {
            return wide.grid(row);
        }
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name, Align::Right));
        let blank = || [("", Align::Left)].into_iter();
        let mut grid = Grid::new(blank().chain(names).chain(blank()));
        for line in &self.lines {
            let cells = columns.iter().map(|(_, of)| of(line).to_owned());
            let cells = cells.chain([line.marked()]).map(Cell::from);
            grid.add([Cell::linked(line.name.clone(), row(line))].into_iter().chain(cells));
        }
        grid
    }

    /// The notes below the lines.
    fn below(&self) -> Vec<String> {
        let misled = self.misled.iter();
        let misled = misled.map(|misled| format!("Where the original misled: {misled}"));
        let marks = self.marks.iter().enumerate().map(|(at, mark)| format!("[{}] {mark}", at + 1));
        self.note.iter().cloned().chain(misled).chain(marks).collect()
    }
}

impl Line {
    fn marked(&self) -> String {
        self.marks.iter().map(|mark| format!("[{mark}]")).collect()
    }
}

impl Answer {
    /// This run's answers, then the publication's.
    pub fn lines(&self, run: &Run) -> impl Iterator<Item = String> {
        let here = self.sentences(run).into_iter();
        let here = here.map(|sentence| format!("here: {sentence}"));
        here.chain(self.theirs.iter().map(|theirs| format!("they: {theirs}")))
    }

    /// Each answer as a sentence with its evidence, or why there is none.
    pub fn sentences(&self, run: &Run) -> Vec<String> {
        if let Some(because) = &self.because {
            return vec![format!("not answered here, because {because}")];
        }
        let name = |point: &Point| {
            let row = run.points.iter().find(|row| row.point == *point);
            let label = row.and_then(|row| row.label.clone());
            label.unwrap_or_else(|| short_point(point, run.probe(&point.probe)))
        };
        let sentence = |finding: &Finding| {
            let evidence: Vec<String> =
                in_order(run, &finding.evidence).into_iter().take(NAMED).map(name).collect();
            let more = match finding.evidence.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            let sentence = finding.with_advice();
            if evidence.is_empty() {
                return sentence;
            }
            format!("{sentence} (from {}{more})", evidence.join("; "))
        };
        self.findings.iter().map(sentence).collect()
    }
}

/// Points in the order of the plan, in which sizes grow.
fn in_order<'p>(run: &Run, points: &'p [Point]) -> Vec<&'p Point> {
    let mut points: Vec<&Point> = points.iter().collect();
    points.sort_by_cached_key(|point| run.run.plan.points().position(|own| own == *point));
    points
}

impl Reproduction<'_> {
    /// The part before the tables: who published the figures, and what was measured here.
    pub(super) fn head(&self, run: &Run) -> Vec<String> {
        let study = self.study;
        let machine = machine(run);
        let here = machine.lines().next().unwrap_or("an unknown machine");
        [
            format!("Published: {}", study.source),
            format!("Measured there on: {}", study.machine),
            format!("Measured here on: {here}"),
        ]
        .into_iter()
        .chain(self.caveats.clone())
        .chain(study.notes.clone())
        .collect()
    }

    /// The comparison for a terminal, or for a document that has more room.
    pub(crate) fn parts(&self, rows: &Rows<'_>, is_terminal: bool) -> Vec<Part> {
        let row = |line: &Line| rows.position(line.point.as_ref()?);
        let title = Part::Heading(1, self.study.title.clone());
        let mut parts = vec![title, Part::List("", self.head(rows.run))];
        parts.extend(guess::parts(&self.guesses, &self.tables));
        for table in &self.tables {
            parts.push(Part::Heading(2, table.title.clone()));
            let grid = table.grid(is_terminal, &row);
            parts.push(Part::Table(table.title.clone(), grid));
            parts.push(Part::List("quiet", table.below()));
        }
        parts.push(Part::Drawing(html! {
            @if self.plots.iter().any(Result::is_ok) { h3 { "Plots" } }
            (figures(self.plots.iter().flatten()))
        }));
        let not_drawn = self.plots.iter().filter_map(|plot| plot.as_ref().err());
        let not_drawn = not_drawn.map(|(title, why)| format!("{title}: {why}"));
        let sections = [
            ("Plots that are not drawn", not_drawn.collect()),
            ("Where the method of the original misled", self.study.misled.clone()),
        ];
        for (heading, lines) in sections {
            if !lines.is_empty() {
                parts.push(Part::Heading(2, heading.to_owned()));
                parts.push(Part::List("", lines));
            }
        }
        if !self.answers.is_empty() {
            parts.push(Part::Heading(2, "Questions".to_owned()));
        }
        for answer in &self.answers {
            parts.push(Part::Heading(3, answer.ask.clone()));
            parts.push(Part::List("", answer.lines(rows.run).collect()));
        }
        parts
    }

    /// The comparison as text for a terminal. Sentences have at most this many columns.
    pub fn text(&self, run: &Run, columns: usize) -> String {
        document::text(&self.parts(&Rows::new(run), true), columns)
    }

    /// The comparison as Markdown, for a README, an issue or a report.
    pub fn markdown(&self, run: &Run) -> String {
        document::markdown(&self.parts(&Rows::new(run), false))
    }

    /// The comparison as the files of a report to edit: the Markdown with the machine and the plots, then each plot.
    pub fn report(&self, run: &Run) -> Vec<(String, String)> {
        let mut parts = self.parts(&Rows::new(run), false);
        parts.push(Part::Heading(2, "The machine".to_owned()));
        parts.extend(Part::lines(&machine(run)));
        let mut text = document::markdown(&parts);
        let mut files = Vec::new();
        for figure in self.plots.iter().flatten() {
            text += &format!("\n## {}\n\n", escaped(&figure.title));
            for (name, svg) in plots::files([figure.clone()]) {
                text += &format!("![{}]({name})\n", escaped(&figure.title));
                files.push((name, svg));
            }
        }
        files.insert(0, ("report.md".to_owned(), text));
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{planned, sized_row};

    #[test]
    fn evidence_is_named_by_growing_size() {
        let [small, large] = [64, 4096].map(|size| sized_row("a.x", size, 1.0).point);
        let run = planned([vec![small.clone()], vec![large.clone()]]);
        let evidence = [large.clone(), small.clone()];
        assert_eq!(in_order(&run, &evidence), [&small, &large]);
    }
}

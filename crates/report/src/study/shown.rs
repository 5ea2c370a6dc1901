//! The comparison of a study with a run, as text and as Markdown.

use super::reproduction::{Answer, Line, ReproducedTable, Reproduction};
use crate::grid::escaped;
use crate::grid::{Align, Grid};
use crate::names::short_point;
use crate::run::machine;
use crate::text::wrapped;
use costof_findings::finding::Finding;
use costof_model::point::Point;
use costof_model::run_file::Run;

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
    pub(crate) fn columns(&self) -> Vec<Column> {
        let has = |column: &Column| self.lines.iter().any(|line| !(column.1)(line).is_empty());
        COLUMNS
            .into_iter()
            .filter(has)
            .map(|column| self.named(column))
            .collect()
    }

    /// A column or cell, of which the name says if all numbers here are means.
    pub(super) fn named<F>(&self, (name, of): (&'static str, F)) -> (&'static str, F) {
        match name {
            "here" if self.is_of_means => ("mean here", of),
            name => (name, of),
        }
    }

    /// The table for a terminal, or for a document that has more room.
    fn grid(&self, is_terminal: bool) -> Grid {
        let wide = if is_terminal {
            self.narrow()
        } else {
            self.wide()
        };
        if let Some(wide) = wide {
            return wide.grid();
        }
        let columns = self.columns();
        let names = columns.iter().map(|(name, _)| (*name, Align::Right));
        let blank = || [("", Align::Left)].into_iter();
        let mut grid = Grid::new(blank().chain(names).chain(blank()));
        for line in &self.lines {
            let cells = columns.iter().map(|(_, of)| of(line).to_owned());
            let first = [line.name.clone()].into_iter();
            grid.add(first.chain(cells).chain([line.marked()]));
        }
        grid
    }

    /// The notes below the lines.
    pub(crate) fn below(&self) -> Vec<String> {
        let misled = self.misled.iter();
        let misled = misled.map(|misled| format!("Where the original misled: {misled}"));
        let marks = self.marks.iter().enumerate();
        let marks = marks.map(|(at, mark)| format!("[{}] {mark}", at + 1));
        self.note
            .iter()
            .cloned()
            .chain(misled)
            .chain(marks)
            .collect()
    }
}

impl Line {
    pub(crate) fn marked(&self) -> String {
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
            let evidence = in_order(run, &finding.evidence);
            let evidence: Vec<String> = evidence.into_iter().take(NAMED).map(name).collect();
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

/// A part of the comparison, before it becomes text or Markdown.
enum Part {
    Title(String),
    /// What a reader has to know first.
    Head(String),
    Heading(String),
    Table(Grid),
    /// The notes below a table.
    Below(String),
    Misled(String),
    Questions,
    Ask(String),
    Answer(String),
}

impl Reproduction<'_> {
    /// The part before the tables: who published the figures, and what was measured here.
    pub(crate) fn head(&self, run: &Run) -> Vec<String> {
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

    fn parts(&self, run: &Run, is_terminal: bool) -> Vec<Part> {
        let mut parts = vec![Part::Title(self.study.title.clone())];
        parts.extend(self.head(run).into_iter().map(Part::Head));
        for table in &self.tables {
            parts.push(Part::Heading(table.title.clone()));
            parts.push(Part::Table(table.grid(is_terminal)));
            parts.extend(table.below().into_iter().map(Part::Below));
        }
        let not_drawn = self.plots.iter().filter_map(|plot| plot.as_ref().err());
        let not_drawn: Vec<Part> = not_drawn
            .map(|(title, why)| Part::Below(format!("{title}: {why}")))
            .collect();
        if !not_drawn.is_empty() {
            parts.push(Part::Heading("Plots that are not drawn".to_owned()));
        }
        parts.extend(not_drawn);
        if !self.study.misled.is_empty() {
            let heading = "Where the method of the original misled";
            parts.push(Part::Heading(heading.to_owned()));
        }
        parts.extend(self.study.misled.iter().cloned().map(Part::Misled));
        if !self.answers.is_empty() {
            parts.push(Part::Questions);
        }
        for answer in &self.answers {
            parts.push(Part::Ask(answer.ask.clone()));
            parts.extend(answer.lines(run).map(Part::Answer));
        }
        parts
    }

    /// The comparison as text for a terminal. Sentences have at most this many columns.
    pub fn text(&self, run: &Run, columns: usize) -> String {
        let wrapped = |line: &str, indent| wrapped(columns, line, indent);
        let parts = self.parts(run, true).into_iter().map(|part| match part {
            Part::Title(title) => format!("{title}\n\n"),
            Part::Head(line) => wrapped(&line, ""),
            Part::Heading(heading) => format!("\n{heading}\n"),
            Part::Table(grid) => grid.text(),
            Part::Below(line) | Part::Ask(line) => wrapped(&line, "  "),
            Part::Misled(line) => wrapped(&format!("- {line}"), "  "),
            Part::Questions => "\nQuestions\n".to_owned(),
            Part::Answer(line) => wrapped(&line, "    "),
        });
        parts.collect()
    }

    /// The comparison as Markdown, for a README, an issue or a report.
    pub fn markdown(&self, run: &Run) -> String {
        let parts = self.parts(run, false).into_iter().map(|part| match part {
            Part::Title(title) => format!("# {}\n\n", escaped(&title)),
            Part::Head(line) | Part::Below(line) | Part::Misled(line) | Part::Answer(line) => {
                format!("- {}\n", escaped(&line))
            }
            Part::Heading(heading) => format!("\n## {}\n\n", escaped(&heading)),
            Part::Table(grid) => grid.markdown() + "\n",
            Part::Questions => "\n## Questions\n".to_owned(),
            Part::Ask(question) => format!("\n**{}**\n\n", escaped(&question)),
        });
        parts.collect()
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

//! A study that was held against a run, as text and as Markdown.

use super::held::{Answer, Held, HeldTable, Line};
use crate::markdown::escaped;
use crate::names::short_point;
use crate::run::machine;
use crate::text::{table, wrapped};
use costof_model::point::Point;
use costof_model::run_file::Run;
use std::fmt::Write;

/// So many points of an answer are named.
const NAMED: usize = 4;

/// What a column is called, and what a line has in it.
type Column = (&'static str, fn(&Line) -> &str);

const COLUMNS: [Column; 7] = [
    ("they predicted", |line| &line.predicted),
    ("published", |line| &line.published),
    ("here", |line| &line.here),
    ("95 % interval", |line| &line.interval),
    ("here ÷ published", |line| &line.ratio),
    ("costof predicted", |line| &line.expected),
    ("grade", |line| &line.grade),
];

impl HeldTable {
    /// The columns in which any line has something.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let has = |column: &Column| self.lines.iter().any(|line| !(column.1)(line).is_empty());
        COLUMNS.into_iter().filter(has).collect()
    }

    /// What stands below the lines.
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
    /// Each answer as a sentence, with its evidence; or why there is none.
    pub(crate) fn sentences(&self, run: &Run) -> Vec<String> {
        if let Some(because) = &self.because {
            return vec![format!("not answered here, because {because}")];
        }
        let name = |point: &Point| short_point(point, run.probe(&point.probe));
        let sentence = |finding: &costof_findings::finding::Finding| {
            let more = finding.evidence.len().saturating_sub(NAMED);
            let evidence: Vec<String> = finding.evidence.iter().take(NAMED).map(name).collect();
            let more = if more > 0 {
                format!(", and {more} more")
            } else {
                String::new()
            };
            let advice = finding
                .advice()
                .into_iter()
                .map(|advice| format!(": {advice}"));
            let advice: String = advice.collect();
            let evidence = match evidence.is_empty() {
                true => String::new(),
                false => format!(" (from {}{more})", evidence.join("; ")),
            };
            format!("{}{advice}{evidence}", finding.sentence())
        };
        self.findings.iter().map(sentence).collect()
    }
}

impl Held<'_> {
    /// What stands before the tables: whose they are, and what was measured here.
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
        .chain(self.said.clone())
        .chain(study.notes.clone())
        .collect()
    }

    /// As text for a terminal.
    pub fn text(&self, run: &Run) -> String {
        let mut text = format!("{}\n\n", self.study.title);
        for line in self.head(run) {
            text.push_str(&wrapped(&line, ""));
        }
        for held in &self.tables {
            let _ = write!(text, "\n{}\n", held.title);
            text.push_str(&lines(held));
            for line in held.below() {
                text.push_str(&wrapped(&line, "  "));
            }
        }
        if !self.study.misled.is_empty() {
            text.push_str("\nWhere the method of the original misled\n");
            for line in &self.study.misled {
                text.push_str(&wrapped(&format!("- {line}"), "  "));
            }
        }
        if !self.answers.is_empty() {
            text.push_str("\nQuestions\n");
        }
        for answer in &self.answers {
            text.push_str(&wrapped(&answer.ask, "  "));
            if let Some(theirs) = &answer.theirs {
                text.push_str(&wrapped(&format!("they: {theirs}"), "    "));
            }
            for sentence in answer.sentences(run) {
                text.push_str(&wrapped(&format!("here: {sentence}"), "    "));
            }
        }
        text
    }

    /// As Markdown, for a README, an issue or a report.
    pub fn markdown(&self, run: &Run) -> String {
        let mut text = format!("# {}\n\n", escaped(&self.study.title));
        for line in self.head(run) {
            let _ = writeln!(text, "- {}", escaped(&line));
        }
        for held in &self.tables {
            let columns = held.columns();
            let _ = write!(text, "\n## {}\n\n| |", escaped(&held.title));
            for (name, _) in &columns {
                let _ = write!(text, " {name} |");
            }
            let _ = write!(text, " |\n|---|{}---|\n", "--:|".repeat(columns.len()));
            for line in &held.lines {
                let _ = write!(text, "| {} |", escaped(&line.name));
                for (_, of) in &columns {
                    let _ = write!(text, " {} |", escaped(of(line)));
                }
                let _ = writeln!(text, " {} |", escaped(&line.marked()));
            }
            text.push('\n');
            for line in held.below() {
                let _ = writeln!(text, "- {}", escaped(&line));
            }
        }
        if !self.study.misled.is_empty() {
            text.push_str("\n## Where the method of the original misled\n\n");
            for line in &self.study.misled {
                let _ = writeln!(text, "- {}", escaped(line));
            }
        }
        if !self.answers.is_empty() {
            text.push_str("\n## Questions\n");
        }
        for answer in &self.answers {
            let _ = write!(text, "\n**{}**\n\n", escaped(&answer.ask));
            if let Some(theirs) = &answer.theirs {
                let _ = writeln!(text, "- they: {}", escaped(theirs));
            }
            for sentence in answer.sentences(run) {
                let _ = writeln!(text, "- here: {}", escaped(&sentence));
            }
        }
        text
    }
}

fn lines(held: &HeldTable) -> String {
    let columns = held.columns();
    let blank = || [String::new()].into_iter();
    let names = columns.iter().map(|(name, _)| (*name).to_owned());
    let header = blank().chain(names).chain(blank()).collect();
    let rows = held.lines.iter().map(|line| {
        let cells = columns.iter().map(|(_, of)| of(line).to_owned());
        let first = [line.name.clone()].into_iter();
        first.chain(cells).chain([line.marked()]).collect()
    });
    table(header, rows, 1..columns.len() + 1)
}

//! `costof explain`: how what a probe measures works, how it is measured, and where the method comes from.

use super::list::{LINKS, values};
use crate::cli::ExplainOptions;
use crate::error::Done;
use crate::plan::keywords::Take;
use crate::plan::request::select;
use crate::project;
use crate::record::Table;
use crate::terminal::{print, prose_columns};
use crate::{history, record};
use costof_model::{Domain, ProbeInfo, Run};
use costof_report::mechanism::{Mechanism, Note};
use costof_report::predictions;
use costof_report::text::wrapped;
use std::path::PathBuf;

pub(crate) fn run(table: Table, options: &ExplainOptions) -> Done {
    let word = std::slice::from_ref(&options.probe);
    let infos = select(table, word, Take::Best { most: 1 })?;
    project::log_file(table, infos.iter().copied());
    let mut texts = Vec::new();
    for info in infos {
        let measured = match &options.run {
            Some(path) => Some((path.clone(), record::read(path, table)?)),
            None => history::best_with(table, &info.id),
        };
        let run = measured.as_ref().map(|(_, run)| run);
        texts.push(explain(info, run) + &sums(info, measured.as_ref()));
    }
    print(texts.join("\n"))
}

/// The description of a probe as text: first how what it measures works and what a run says of it, then the method.
fn explain(info: &ProbeInfo, run: Option<&Run>) -> String {
    let mut text = wrapped(prose_columns(), &format!("{}: {}", info.id, info.question), "");
    let mechanism = Mechanism::of(&info.id);
    if let Some(mechanism) = mechanism {
        let drawing = mechanism.drawing.lines().map(|line| format!("  {line}\n"));
        let drawing: String = drawing.collect();
        text += &format!("\n{drawing}\n{}", paragraph(&mechanism.explained(&info.id, run)));
        let tries = mechanism.tries.iter().flat_map(|tried| {
            let expected = format!("  {}", tried.expected(&info.primary().name));
            [format!("costof run {}", tried.run), expected]
        });
        section(&mut text, "Try this", tries);
    }
    section(&mut text, &format!("How (method {})", info.method), [&*info.how]);
    for note in mechanism.iter().flat_map(|mechanism| &mechanism.notes) {
        text.push_str(&drawn(note));
    }
    let metrics = info.metrics.iter().enumerate().map(|(position, metric)| {
        let primary = if position == 0 { ", the answer" } else { "" };
        let unit = serde_json::to_value(metric.unit).unwrap_or_default();
        format!("{} ({}{primary}): {}", metric.name, unit.as_str().unwrap_or("?"), metric.about)
    });
    section(&mut text, "Metrics", metrics);
    let axes = info.axes.iter().flat_map(|axis| {
        let (choices, values) = match &axis.domain {
            Domain::Choice(choices) => (&choices[..], String::new()),
            Domain::Place { words, .. } => (&words[..], format!(" [{}]", values(axis))),
            Domain::Number { .. } => (&[][..], format!(" [{}]", values(axis))),
        };
        let head = format!("{}: {}{values}", axis.name, axis.about);
        let choices = choices.iter();
        let lines = choices.map(|choice| format!("  {}: {}", choice.value, choice.about));
        std::iter::once(head).chain(lines)
    });
    section(&mut text, "Axes", axes);
    let between = format!(
        "a {}, which leads, and a {}, each in a process of its own; --link names the path between them: {LINKS}, such as delay=10ms,loss=1%; --peer HOST runs the other end there",
        info.roles.last().map_or("", |role| role),
        info.roles.first().map_or("", |role| role),
    );
    let peers = info.needs_link().then_some(between);
    section(&mut text, "Two ends", peers);
    let before = info.aliases.iter().map(|alias| format!("{}: now {}", alias.was, alias.is));
    let mut before: Vec<String> = before.collect();
    // Once for each method.
    before.dedup();
    section(&mut text, "Called before", before);
    section(&mut text, "Predicted from", [&*info.predicted_from]);
    let relations = info.relations.iter().map(ToString::to_string);
    section(&mut text, "What must hold, or rows contradict each other", relations);
    section(&mut text, "Measured after", info.after.iter());
    section(&mut text, "Needs", info.needs.iter());
    section(&mut text, "Sources", info.sources.iter());
    text
}

/// The predictions of a run for the probe, the sums behind them, and the measurements.
fn sums(info: &ProbeInfo, measured: Option<&(PathBuf, Run)>) -> String {
    let Some((path, run)) = measured else {
        let line = format!(
            "None of the last {} runs here has it: `costof run {}` measures it",
            history::SEARCHED,
            info.id
        );
        return format!("\n{}", wrapped(prose_columns(), &line, ""));
    };
    let sums = predictions::of_probe(run, &info.id, prose_columns());
    let heading = format!("Expected and measured (run {})", path.display());
    if sums.is_empty() {
        return format!("\n{heading}\n  that run has no prediction for it\n");
    }
    format!("\n{heading}\n{sums}")
}

/// A heading and a text. What is drawn keeps its lines; a paragraph is wrapped.
fn drawn(note: &Note) -> String {
    let paragraphs = note.text.trim_end().split("\n\n").map(|text| {
        let is_drawn = |line: &str| line.trim().contains("  ");
        if text.lines().any(is_drawn) {
            let lines = text.lines().map(|line| format!("  {line}\n"));
            return lines.collect();
        }
        paragraph(&text.replace('\n', " "))
    });
    format!("\n{}\n{}", note.heading, paragraphs.collect::<Vec<_>>().join("\n"))
}

/// Prose with one indent, and not the deeper one of a line that goes on.
fn paragraph(text: &str) -> String {
    let text = wrapped(prose_columns().saturating_sub(2), text, "");
    text.lines().map(|line| format!("  {}\n", line.trim_start())).collect()
}

/// A heading and its lines, wrapped; nothing if there are no lines.
fn section<T: AsRef<str>>(text: &mut String, heading: &str, lines: impl IntoIterator<Item = T>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_none() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    for line in lines {
        let line = line.as_ref();
        let indent = "  ".repeat(1 + (line.len() - line.trim_start().len()) / 2);
        text.push_str(&wrapped(prose_columns(), line.trim_start(), &indent));
    }
}

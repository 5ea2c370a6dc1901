//! The tables of a study compared with the run, and its questions.

use super::{figures, lines};
use crate::rows::Rows;
use crate::study::wide::{self, Wide};
use crate::study::{Line, ReproducedTable, Reproduction};
use maud::{Markup, html};

pub(super) fn section(reproduction: &Reproduction<'_>, rows: &Rows<'_>) -> Markup {
    html! {
        h2 { (reproduction.study.title) }
        ul { @for line in reproduction.head(rows.run) { li { (lines::commands(&line)) } } }
        @for table in &reproduction.tables {
            h3 { (table.title) }
            div.scroll role="region" tabindex="0" aria-label=(table.title) { table {
                @match table.wide() {
                    Some(wide) => (beside(&wide, rows)),
                    None => (lines_of(table, rows)),
                }
            } }
            ul.quiet { @for line in table.below() { li { (lines::commands(&line)) } } }
        }
        @if !reproduction.plots.is_empty() { h3 { "Plots" } }
        (figures::figures(reproduction.plots.iter().flatten()))
        ul.quiet { @for (title, why) in reproduction.plots.iter().filter_map(|plot| plot.as_ref().err()) {
            li { (title) ": not drawn, because " (lines::commands(why)) }
        } }
        @if !reproduction.study.misled.is_empty() {
            h3 { "Where the method of the original misled" }
            ul { @for line in &reproduction.study.misled { li { (lines::commands(line)) } } }
        }
        @if !reproduction.answers.is_empty() { h3 { "Its questions" } }
        @for answer in &reproduction.answers {
            h4 { (answer.ask) }
            ul {
                @for sentence in answer.sentences(rows.run) {
                    li { (lines::commands(&format!("here: {sentence}"))) }
                }
                @if let Some(theirs) = &answer.theirs { li.quiet { "they: " (theirs) } }
            }
        }
    }
}

/// A line for each figure.
fn lines_of(table: &ReproducedTable, rows: &Rows<'_>) -> Markup {
    let columns = table.columns();
    html! {
        thead { tr { th {} @for (name, _) in &columns { th style="text-align:right" { (name) } } th {} } }
        tbody { @for line in &table.lines { tr {
            td { (linked(line, &line.name, rows)) }
            @for (_, of) in &columns { td.v { (of(line)) } }
            td { (line.marked()) }
        } } }
    }
}

/// A row for each of the study's rows, with its columns beside each other.
fn beside(wide: &Wide<'_>, rows: &Rows<'_>) -> Markup {
    html! {
        thead {
            tr {
                th { (wide.unit()) }
                @for (name, cells) in wide.columns() { th colspan=(cells.len()) style="text-align:center" { (name) } }
                th {} th {}
            }
            tr {
                th {}
                @for (_, cells) in wide.columns() { @for cell in cells { th style="text-align:right" { (cell) } } }
                th { "grades" } th {}
            }
        }
        tbody { @for (name, row) in wide.rows() { tr {
            td style="white-space:nowrap" { (name) }
            @for (line, name, cell) in wide.cells_of(row) {
                td.v { @if matches!(name, "here" | "mean here") { (linked(line, &cell, rows)) } @else { (cell) } }
            }
            td { (wide::grades(row)) }
            td { (wide::marks(row)) }
        } } }
    }
}

/// A text that leads to the numbers of a figure's point.
fn linked(line: &Line, text: &str, rows: &Rows<'_>) -> Markup {
    let position = line.point.as_ref().and_then(|point| rows.position(point));
    html! { @match position {
        Some(at) => a href={ "#p" (at) } { (text) },
        None => (text),
    } }
}

//! The tables of a study compared with the run, and its questions.

use super::lines;
use crate::rows::Rows;
use crate::study::Reproduction;
use maud::{Markup, html};

pub(super) fn section(reproduction: &Reproduction<'_>, rows: &Rows<'_>) -> Markup {
    let position = |point: &Option<_>| rows.position(point.as_ref()?);
    html! {
        h2 { (reproduction.study.title) }
        ul { @for line in reproduction.head(rows.run) { li { (lines::commands(&line)) } } }
        @for table in &reproduction.tables {
            h3 { (table.title) }
            @let columns = table.columns();
            div.scroll role="region" tabindex="0" aria-label=(table.title) { table {
                thead { tr { th {} @for (name, _) in &columns { th style="text-align:right" { (name) } } th {} } }
                tbody {
                    @for line in &table.lines {
                        tr {
                            td { @match position(&line.point) {
                                Some(at) => a href={ "#p" (at) } { (line.name) },
                                None => (line.name),
                            } }
                            @for (_, of) in &columns { td.v { (of(line)) } }
                            td { (line.marked()) }
                        }
                    }
                }
            } }
            ul.quiet { @for line in table.below() { li { (lines::commands(&line)) } } }
        }
        @if !reproduction.study.misled.is_empty() {
            h3 { "Where the method of the original misled" }
            ul { @for line in &reproduction.study.misled { li { (lines::commands(line)) } } }
        }
        @if !reproduction.answers.is_empty() { h3 { "Its questions" } }
        @for answer in &reproduction.answers {
            h4 { (answer.ask) }
            ul {
                @if let Some(theirs) = &answer.theirs { li.quiet { "they: " (theirs) } }
                @for sentence in answer.sentences(rows.run) {
                    li { (lines::commands(&format!("here: {sentence}"))) }
                }
            }
        }
    }
}

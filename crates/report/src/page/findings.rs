//! What was found, most surprising first, and which predictions were missed.

use super::{latency, lines};
use crate::notes;
use crate::rows::Rows;
use crate::text::capital;
use costof_findings::finding::Finding;
use costof_findings::sureness::{Points, Sureness};
use maud::{Markup, html};

/// So many points of a finding are named.
const NAMED: usize = 4;
/// So many missed predictions are shown; the tables mark all.
const MISSED: usize = 40;
/// So many findings are shown.
const FINDINGS: usize = 200;

pub(super) fn title(rows: &Rows<'_>) -> String {
    let found = costof_findings::all::findings(rows.run).len();
    format!(
        "Findings ({found}) and missed predictions ({})",
        latency::missed(rows).len()
    )
}

pub(super) fn section(rows: &Rows<'_>) -> Markup {
    let (findings, questions) = costof_findings::all::both(rows.run);
    let known = Points::new(rows.run);
    let missed = latency::missed(rows);
    let other_words = notes::distributions(rows.run);
    html! {
        @if findings.is_empty() { p { "Nothing was found that a line could say." } }
        @else {
            p.quiet { "Most surprising first: by how far the points that a finding rests on lie \
                       outside what was predicted of them." }
        }
        ul.findings {
            @for found in findings.iter().take(FINDINGS) { li { (finding(rows, &known, found)) } }
        }
        (lines::list(&other_words))
        @if !questions.is_empty() {
            h3 { "Six questions of a study (network I/O primitives, 2026)" }
            @for asked in &questions {
                h4 { (asked.question) }
                ul {
                    @for answer in &asked.answers { li { (finding(rows, &known, answer)) } }
                    @if let Some(lacks) = asked.lacks { li.quiet { "No answer in this run: " (lacks) } }
                }
            }
        }
        @if !missed.is_empty() {
            h3 { "Predictions that were missed, furthest off first" }
            ul.findings {
                @for (at, sum) in missed.iter().take(MISSED) {
                    li { (lines::commands(sum)) " " a href={ "#p" (at) } { "numbers" } }
                }
            }
            @if missed.len() > MISSED {
                p.quiet { "and " (missed.len() - MISSED) " more, marked ✗ in the tables" }
            }
        }
    }
}

pub(super) fn finding(rows: &Rows<'_>, known: &Points<'_>, finding: &Finding) -> Markup {
    let sureness = known.sureness(finding);
    let points = finding
        .evidence
        .iter()
        .filter_map(|point| rows.position(point));
    let points: Vec<usize> = points.collect();
    html! {
        (lines::commands(&begun(&finding.sentence())))
        @if let Some(advice) = finding.advice() { ": " (lines::commands(&advice)) }
        @if !points.is_empty() {
            div.evidence {
                @for at in points.iter().take(NAMED) { a href={ "#p" (at) } { (rows.name(*at)) } " " }
                @if points.len() > NAMED { "and " (points.len() - NAMED) " more" }
                @if let Some(Sureness { grade, launches }) = sureness {
                    " at worst grade " (grade) ", " (launches) " launches"
                }
            }
        }
    }
}

/// A sentence begins with a capital, unless with a name that has a dot or an underscore.
fn begun(sentence: &str) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    if first.contains(['.', '_']) {
        return sentence.to_owned();
    }
    capital(sentence)
}

//! The findings, the most surprising first, and the missed predictions.

use super::latency;
use crate::conclusion::{self, Matter};
use crate::document::{commands, list};
use crate::notes;
use crate::rows::Rows;
use crate::text::capital;
use costof_findings::Finding;
use costof_findings::sureness::{Points, Sureness};
use costof_model::PointRow;
use maud::{Markup, html};

/// At most this many points of a finding are named.
const NAMED: usize = 4;
/// At most this many missed predictions are listed; the tables mark all of them.
const MISSED: usize = 40;
/// At most this many findings are shown.
const FINDINGS: usize = 200;

/// The findings of a run, computed once: several sections of a page show some of them.
pub(super) struct Found<'a> {
    findings: Vec<Finding>,
    /// The positions of the missed predictions, each with its sum.
    missed: Vec<(usize, String)>,
    points: Points<'a>,
}

impl<'a> Found<'a> {
    pub(super) fn new(rows: &Rows<'a>) -> Found<'a> {
        let findings = costof_findings::all::findings(rows.run);
        Found { findings, missed: latency::missed(rows), points: Points::new(rows.run) }
    }

    pub(super) fn title(&self) -> String {
        let (found, missed) = (self.findings.len(), self.missed.len());
        format!("Findings ({found}) and missed predictions ({missed})")
    }

    /// For the first screen.
    pub(super) fn matters(&self, rows: &Rows<'_>) -> Markup {
        let matters = conclusion::matters(rows.run, &self.points, &self.findings);
        html! {
            @if !matters.is_empty() {
                h2 { "What matters" }
                ul.findings {
                    @for matter in matters {
                        li { @match matter {
                            Matter::Found(found) => (finding(rows, &self.points, found)),
                            Matter::Missed(row) => (missed(rows, row)),
                        } }
                    }
                }
            }
        }
    }

    pub(super) fn section(&self, rows: &Rows<'_>) -> Markup {
        html! {
            @if self.findings.is_empty() { p { "There are no findings." } }
            @else {
                p.quiet { "Most surprising first: sorted by how far a finding's points lie outside \
                           their predictions." }
            }
            ul.findings {
                @for found in self.findings.iter().take(FINDINGS) {
                    li { (finding(rows, &self.points, found)) }
                }
            }
            (list(&notes::distributions(rows.run)))
            @if !self.missed.is_empty() {
                h3 { "Missed predictions, the largest miss first" }
                ul.findings {
                    @for (at, sum) in self.missed.iter().take(MISSED) {
                        li { (commands(sum)) " " a href={ "#p" (at) } { "numbers" } }
                    }
                }
                @if self.missed.len() > MISSED {
                    p.quiet { "and " (self.missed.len() - MISSED) " more, marked ✗ in the tables" }
                }
            }
        }
    }
}

fn missed(rows: &Rows<'_>, row: &PointRow) -> Markup {
    html! {
        (commands(&begun(&conclusion::missed_line(rows.run, row)))) " "
        @if let Some(at) = rows.position(&row.point) {
            div.evidence { a href={ "#p" (at) } { (rows.label(at)) } " · grade " (row.grade) }
        }
    }
}

fn finding(rows: &Rows<'_>, known: &Points<'_>, finding: &Finding) -> Markup {
    let sureness = known.sureness(finding);
    let points: Vec<usize> =
        finding.evidence.iter().filter_map(|point| rows.position(point)).collect();
    html! {
        (commands(&begun(&finding.sentence)))
        @if let Some(advice) = &finding.advice { ": " (commands(advice)) }
        @if !points.is_empty() {
            div.evidence {
                @for (position, at) in points.iter().take(NAMED).enumerate() {
                    @if position > 0 { "; " }
                    a href={ "#p" (at) } { (rows.label(*at)) }
                }
                @if points.len() > NAMED { "; and " (points.len() - NAMED) " more" }
                @if let Some(Sureness { grade, launches }) = sureness {
                    " · at worst grade " (grade) ", " (launches) " launches"
                }
            }
        }
    }
}

/// Capitalises a sentence, unless it begins with a name that has a dot or an underscore.
pub(super) fn begun(sentence: &str) -> String {
    let first = sentence.split(' ').next().unwrap_or_default();
    if first.contains(['.', '_']) {
        return sentence.to_owned();
    }
    capital(sentence)
}

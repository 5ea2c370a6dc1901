//! The first screen: how far the run can be trusted, what matters, and the numbers that everybody knows.

use super::{findings, latency, lines};
use crate::notes;
use crate::rows::Rows;
use costof_findings::sureness::Points;
use costof_model::metric::Estimate;
use costof_model::noise::Grade;
use costof_model::unit::Unit;
use maud::{Markup, html};

/// So many findings stand here; the section of findings has all.
const MATTERS: usize = 5;
/// The grades with what they mean.
const GRADES: [(Grade, &str); 4] = [
    (
        Grade::A,
        "nothing was recorded that could have moved the number",
    ),
    (Grade::B, "small disturbances"),
    (Grade::C, "disturbances that may have moved it"),
    (Grade::D, "disturbances large enough to decide what it is"),
];
/// The probes whose first row of the latency table everybody knows; of memory, the last one too.
const KNOWN: [&str; 12] = [
    "cpu.clock",
    "cpu.branch_miss",
    "memory.latency",
    "sync.mutex",
    "os.syscall",
    "os.context_switch",
    "os.page_fault",
    "os.process",
    "file.read",
    "file.sync",
    "net.rtt",
    "rpc.rtt",
];

pub(super) fn section(rows: &Rows<'_>) -> Markup {
    html! {
        (trust(rows))
        (matters(rows))
        (known(rows))
    }
}

/// How many rows can be trusted, what the others suffer from, and a bar of the grades.
fn trust(rows: &Rows<'_>) -> Markup {
    let count = |grade| {
        rows.run
            .points
            .iter()
            .filter(|row| row.grade == grade)
            .count()
    };
    let counted = GRADES.map(|(grade, meaning)| (grade, meaning, count(grade)));
    html! {
        @if !rows.all().is_empty() {
            p { (lines::commands(&notes::verdict(rows.run))) "." }
            div.trust aria-hidden="true" {
                @for (grade, _, count) in counted.iter().filter(|(_, _, count)| *count > 0) {
                    i class={ "g" (grade) } style={ "flex:" (count) } { (grade) " " (count) }
                }
            }
            p.quiet {
                @for (grade, meaning, _) in &counted { b { (grade) } " " (meaning) ". " }
            }
        }
    }
}

fn matters(rows: &Rows<'_>) -> Markup {
    let found = costof_findings::all::findings(rows.run);
    let sureness = Points::new(rows.run);
    html! {
        @if !found.is_empty() {
            h2 { "What matters" }
            ul.findings {
                @for found in found.iter().take(MATTERS) { li { (findings::finding(rows, &sureness, found)) } }
            }
        }
    }
}

/// On one axis, the shortest first.
fn known(rows: &Rows<'_>) -> Markup {
    let by_probe = rows.by_probe();
    let of_probe = |probe: &&str| {
        let (_, positions) = by_probe.iter().find(|(name, _)| name == probe)?;
        let mut named = positions.iter().filter(|at| rows.row(**at).headline);
        let last = || positions.iter().rfind(|at| rows.row(**at).headline);
        let both = [
            named.next(),
            (*probe == "memory.latency").then(last).flatten(),
        ];
        Some(both.into_iter().flatten().copied())
    };
    let positions = KNOWN.iter().filter_map(of_probe).flatten();
    let mut shown: Vec<(usize, &Estimate)> = positions
        .filter_map(|at| Some((at, rows.row(at).primary()?)))
        .filter(|(_, estimate)| estimate.unit == Unit::Nanoseconds)
        .collect();
    shown.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    html! {
        @if shown.len() > 2 {
            h2 { "Numbers that everybody knows" }
            (latency::bars(rows, &shown, (1.0, 1e9)))
        }
    }
}

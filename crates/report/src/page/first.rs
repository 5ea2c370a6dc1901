//! The first screen: how far the run can be trusted, what matters, and the numbers that everybody knows.

use super::{findings, latency};
use crate::rows::Rows;
use costof_findings::sureness::Points;
use costof_model::metric::Estimate;
use costof_model::noise::{Grade, Warning};
use costof_model::unit::Unit;
use maud::{Markup, html};
use std::collections::BTreeMap;

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

/// A bar of the grades, and what the rest of them is due to.
fn trust(rows: &Rows<'_>) -> Markup {
    let all = rows.all().len();
    let count = |grade| {
        rows.run
            .points
            .iter()
            .filter(|row| row.grade == grade)
            .count()
    };
    let counted = GRADES.map(|(grade, meaning)| (grade, meaning, count(grade)));
    let trusted = counted[0].2 + counted[1].2;
    html! {
        @if all > 0 {
            p { b { (trusted) " of " (all) " numbers are of grade A or B" }
                @if let Some((cause, points)) = cause(rows).filter(|_| trusted < all) {
                    ". Main cause of the rest (" (points) "): " (cause.what) ": " (cause.advice)
                }
                "." }
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

/// The doubt that most rows of grade C and D share, and how many.
fn cause<'a>(rows: &Rows<'a>) -> Option<(&'a Warning, usize)> {
    let mut kinds: BTreeMap<&str, (&Warning, usize)> = BTreeMap::new();
    for row in rows.run.points.iter().filter(|row| row.grade > Grade::B) {
        for warning in row
            .warnings
            .iter()
            .filter(|warning| warning.grade == row.grade)
        {
            let (worst, count) = kinds.entry(&warning.kind).or_insert((warning, 0));
            *count += 1;
            if warning.grade > worst.grade {
                *worst = warning;
            }
        }
    }
    kinds.into_values().max_by_key(|(_, count)| *count)
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

//! The first screen: how far the run can be trusted, what matters, and the numbers that everybody knows.

use super::findings::Found;
use super::noise::by_grade;
use super::{latency, lines};
use crate::notes;
use crate::rows::Rows;
use costof_model::metric::Estimate;
use costof_model::unit::Unit;
use maud::{Markup, html};

/// What the grades mean, from A on.
const MEANINGS: [&str; 4] = [
    "nothing was recorded that could have moved the number",
    "small disturbances",
    "disturbances that may have moved it",
    "disturbances large enough to decide what it is",
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

pub(super) fn section(rows: &Rows<'_>, found: &Found<'_>) -> Markup {
    html! {
        (trust(rows))
        (found.matters(rows))
        (known(rows))
    }
}

/// How many rows can be trusted, what the others suffer from, and a bar of the grades.
fn trust(rows: &Rows<'_>) -> Markup {
    let counted = by_grade(rows.run);
    html! {
        @if !rows.all().is_empty() {
            p { (lines::commands(&notes::verdict(rows.run))) "." }
            div.trust aria-hidden="true" {
                @for (grade, count) in counted.iter().filter(|(_, count)| *count > 0) {
                    i class={ "g" (grade) } style={ "flex:" (count) } { (grade) " " (count) }
                }
            }
            p.quiet {
                @for ((grade, _), meaning) in counted.iter().zip(MEANINGS) { b { (grade) } " " (meaning) ". " }
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
            (latency::key())
            (latency::bars(rows, &shown, (1.0, 1e9), false))
        }
    }
}

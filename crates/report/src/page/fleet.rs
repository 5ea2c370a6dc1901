//! The page of `costof fleet`, without scripts: for each cohort a heat map of hosts and rows, the oddest host
//! first, and what is known of each host.

use super::document;
use crate::compare::percent;
use crate::fleet::{head, of_row, reason, undecided};
use costof_model::fleet::{Cohort, Fleet, Host, Verdict};
use costof_model::node_set::folded;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// A cell is drawn from this deviation on, and darker from each of the others.
const STEPS: [f64; 4] = [0.02, 0.05, 0.1, 0.2];
/// At most this many hosts have their own section.
const HOSTS: usize = 2000;

/// The page of a fleet.
pub fn page(fleet: &Fleet) -> String {
    let odd = crate::fleet::odd(fleet).count();
    let title = match odd {
        0 => "No host is odd".to_owned(),
        1 => "One host is odd".to_owned(),
        more => format!("{more} hosts are odd"),
    };
    let share = fleet.false_share * 100.0;
    let content = html! {
        main {
            h1 { (title) }
            p.quiet { "Of hosts called odd, at most " (share) " % are not, in the long run." }
            @for (at, cohort) in fleet.cohorts.iter().enumerate() { (of_cohort(at, cohort)) }
        }
    };
    document("", &title, &content)
}

fn of_cohort(at: usize, cohort: &Cohort) -> Markup {
    html! {
        h2 { (head(cohort)) }
        @if let Some(share) = cohort.detectable {
            p { "A typical row shows a deviation of " (percent(share)) " or more." }
        }
        @if !cohort.rows.is_empty() {
            (map(at, cohort))
            p.quiet {
                "A line is a host, the oddest at the top; a column is a row. Red is worse than usual, green better, from "
                @for (step, share) in STEPS.iter().enumerate() {
                    @if step > 0 { ", " }
                    (percent(*share))
                }
                " on. A line leads to its host below."
            }
        }
        @for (number, host) in cohort.hosts.iter().enumerate().take(HOSTS) {
            @if host.verdict.is_odd() { (of_host(at, number, host, cohort)) }
        }
        @for verdict in [Verdict::Undecided, Verdict::Normal] { (others(at, cohort, verdict)) }
    }
}

/// The hosts that are not odd: their names, and each one's largest deviations.
fn others(at: usize, cohort: &Cohort, verdict: Verdict) -> Markup {
    let hosts = cohort.hosts.iter().enumerate();
    let hosts: Vec<(usize, &Host)> = hosts.filter(|(_, host)| host.verdict == verdict).collect();
    let names: Vec<&str> = hosts.iter().map(|(_, host)| host.name.as_str()).collect();
    let why = if verdict == Verdict::Undecided {
        undecided(cohort)
    } else {
        String::new()
    };
    html! {
        @if !names.is_empty() {
            h3 { (names.len()) " " (verdict.word()) }
            p { (folded(&names)) (why) }
            @for (number, host) in hosts.into_iter().take(HOSTS) { (of_host(at, number, host, cohort)) }
        }
    }
}

fn of_host(at: usize, number: usize, host: &Host, cohort: &Cohort) -> Markup {
    let mut worst: Vec<(&String, f64)> = cohort
        .rows
        .iter()
        .zip(&host.worse)
        .filter_map(|(row, worse)| Some((row, (*worse)?)))
        .collect();
    worst.sort_by(|one, other| other.1.abs().total_cmp(&one.1.abs()));
    html! {
        details id=(id(at, number)) open[host.verdict.is_odd()] {
            summary {
                b { (host.name) } ": " (host.verdict.word())
                @if host.verdict.is_odd() { ": " (reason(host)) }
            }
            ul {
                @for row in &host.deviations { li { (of_row(row)) } }
                @for (what, here, usual) in &host.facts { li { (what) ": " (here) ", where most have " (usual) } }
                @if host.deviations.is_empty() {
                    @for (row, worse) in worst.into_iter().take(3) {
                        li.quiet { (row) ": " (crate::fleet::signed(worse)) ", which may be chance" }
                    }
                }
            }
        }
    }
}

fn id(cohort: usize, host: usize) -> String {
    format!("host-{cohort}-{host}")
}

/// The heat map: one square a cell, in paths by their colour, and a link over each line.
fn map(at: usize, cohort: &Cohort) -> Markup {
    let mut paths = vec![String::new(); 2 * STEPS.len()];
    let (columns, lines) = (cohort.rows.len(), cohort.hosts.len());
    for (line, host) in cohort.hosts.iter().enumerate() {
        for (column, worse) in host.worse.iter().enumerate() {
            let Some(step) =
                worse.and_then(|worse| STEPS.iter().rposition(|step| worse.abs() >= *step))
            else {
                continue;
            };
            let is_better = worse.is_some_and(|worse| worse < 0.0);
            let path = &mut paths[2 * step + usize::from(is_better)];
            let _ = write!(path, "M{column} {line}h1v1h-1z");
        }
    }
    let height = (lines * 14).clamp(40, 1600);
    let mut svg = format!(
        "<svg class=heat viewBox=\"0 0 {columns} {lines}\" height={height} preserveAspectRatio=none role=group \
         aria-label=\"Deviations of {lines} hosts in {columns} rows\" shape-rendering=crispEdges>"
    );
    for (position, path) in paths
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
    {
        let class = if position % 2 == 0 { "w" } else { "b" };
        let opacity = 0.25 * (position / 2 + 1) as f64;
        let _ = write!(svg, "<path class={class} opacity={opacity} d=\"{path}\"/>");
    }
    let links = html! {
        @for (number, host) in cohort.hosts.iter().enumerate().take(HOSTS) {
            a href={ "#" (id(at, number)) } {
                title { (host.name) ": " (host.verdict.word()) }
                rect y=(number) width=(columns) height="1" {}
            }
        }
    };
    PreEscaped(format!("{svg}{}</svg>", links.into_string()))
}

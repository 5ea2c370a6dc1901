//! A handout for a course on one sheet of paper: the machine, the best-known numbers, a call and the costs
//! beneath it, and three questions to discuss.

use super::bars::Ruler;
use super::findings::begun;
use super::{first, html_file, latency};
use crate::choose;
use crate::conclusion;
use crate::document::commands;
use crate::plot::{PAGE, drawing};
use crate::rows::Rows;
use crate::run::machine;
use crate::table::{interval_of, measured};
use crate::text::shortened;
use costof_model::{Estimate, Run, Unit};
use maud::{Markup, PreEscaped, html};

/// Limits that keep the handout on one sheet: the number of rows, and the letters of a name and of a finding.
const ROWS: usize = 12;
const NAME: usize = 60;
const FOUND: usize = 330;

/// The questions about the findings, in this order.
const ASKS: [&str; 3] = [
    "Why is this so? Name the mechanism, and a measurement that could prove you wrong.",
    "Which program would notice it, and what would you change in that program?",
    "Would another machine give the same? What decides it?",
];

/// The handout of a run.
pub fn page(run: &Run) -> String {
    let rows = Rows::new(run);
    let machine = machine(run);
    let known = known(&rows);
    html_file(
        "",
        "What things cost on this machine",
        &html! {
            main.sheet {
                h1 { "What things cost on this machine" }
                @for line in machine.lines().filter(|line| !line.is_empty()) { p.machine { (shortened(line, FOUND)) } }
                p.quiet { "Measured " (run.run.started) " by costof (precision " (run.run.plan.precision) "). Each number \
                    is a median with its 95 % interval; each step of the axis is a factor of ten. Grade A: no \
                    disturbance that could have changed the number; D: disturbances that may account for all of it." }
                @if !known.is_empty() { (table(&rows, &known)) }
                @for figure in choose::run_figures(&rows).iter().filter(|figure| figure.name == "call-ladder") {
                    h2 { (figure.title) }
                    @for panel in figure.panels.iter().take(1) {
                        p.quiet { "With " (panel.title) "." }
                        (PreEscaped(drawing(figure, panel, PAGE)))
                    }
                }
                h2 { "Questions to discuss" }
                ol { @for (found, ask) in questions(run, &rows, &known) {
                    li { (commands(&found)) " " b { (ask) } }
                } }
            }
        },
    )
}

/// The best-known numbers; if the run has too few of them, the first times that it has.
fn known<'a>(rows: &Rows<'a>) -> Vec<(usize, &'a Estimate)> {
    let mut known = first::known_times(rows);
    if known.len() < 3 {
        known = first::times(rows, |_| true);
    }
    known.retain(|(at, _)| rows.row(*at).is_usable());
    known.truncate(ROWS);
    known
}

fn table(rows: &Rows<'_>, shown: &[(usize, &Estimate)]) -> Markup {
    let medians = shown.iter().map(|(_, estimate)| estimate.median);
    let ruler = Ruler::over(medians, (1.0, 1e6), Unit::Nanoseconds);
    html! {
        table {
            thead { tr {
                th { "what" }
                td.ruler { span.b aria-hidden="true" {
                    @for (value, text) in ruler.ticks() { i.t style=(ruler.at(value)) { (text) } }
                } }
                th.v { "median" } th.v { "95 % interval" } th { "grade" }
            } }
            tbody { @for (at, estimate) in shown { tr {
                td { (shortened(&rows.label(*at), NAME)) }
                td { span.b {
                    i.f style={ "width:" (ruler.place(estimate.median)) "%" } {}
                    @if let Some(ends) = estimate.ci95 { (latency::interval_at(&ruler, ends)) }
                } }
                td.v { (measured(rows.row(*at))) }
                td.v { (interval_of(rows.row(*at))) }
                td { (rows.row(*at).grade) }
            } } }
        }
    }
}

/// A question about each finding; if there are few findings, also a question about the axis.
fn questions(
    run: &Run,
    rows: &Rows<'_>,
    known: &[(usize, &Estimate)],
) -> Vec<(String, &'static str)> {
    let found =
        conclusion::lines(run).into_iter().map(|line| begun(&shortened(&(line + "."), FOUND)));
    let mut asked: Vec<(String, &str)> = found.zip(ASKS).collect();
    if let (true, Some((least, _)), Some((most, _))) =
        (asked.len() < ASKS.len(), known.first(), known.last())
    {
        let [least, most] = [least, most].map(|at| shortened(&rows.label(*at), NAME));
        let fits = format!("How many times does “{least}” fit into “{most}”?");
        asked.push((fits, "Guess first, then read it off the axis."));
    }
    asked
}

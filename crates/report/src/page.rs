//! A run as one self-contained HTML file. It needs no network, and without scripts only hovering is lost.
//!
//! A page treats the contents of a run file as text, never as markup. The `maud` crate escapes what it
//! writes, `plot/svg.rs` escapes drawings, and a content security policy allows no script except the page's
//! own.

mod bars;
pub mod comparison;
mod facts;
pub(crate) mod figures;
mod findings;
mod first;
mod latency;
mod noise;
mod probes;
mod question;

use crate::choose;
use crate::document::{self, folded, list};
use crate::notes;
use crate::rows::Rows;
use crate::run::{machine, without_number};
use crate::study::Reproduction;
use crate::text::shortened;
use costof_model::Run;
use findings::Found;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
/// The digest of `script.js`, by which the browser recognises that script. If the script changes, a test
/// prints the right digest, as a browser's console does.
const SCRIPT_SHA256: &str = include_str!("page/script.sha256");

/// The page of a run. `doubts` are about reading the file, and stand at the top of the page.
pub fn page(run: &Run, doubts: &[String]) -> String {
    whole(run, doubts, None)
}

/// The page of a study: its tables first, then all that the page of a run has.
pub fn of_study(run: &Run, reproduction: &Reproduction<'_>) -> String {
    whole(run, &[], Some(reproduction))
}

fn whole(run: &Run, doubts: &[String], reproduction: Option<&Reproduction<'_>>) -> String {
    let rows = Rows::new(run);
    let policy = format!("script-src 'sha256-{}'; ", SCRIPT_SHA256.trim());
    let ladder = choose::ladder(&rows);
    let found = Found::new(&rows);
    let machine = machine(run);
    let heading = machine.lines().next().unwrap_or("a machine without a description");
    let shown = reproduction.map_or(&[][..], |study| &study.plots);
    let (mut chosen, left_out) = probes::chosen(&rows, shown);
    // A study has its own questions.
    let asked = match reproduction {
        Some(_) => Vec::new(),
        None => question::asked(&rows),
    };
    let answers = question::section(&rows, &asked, &mut chosen);
    let own = question::title(&rows, &asked);
    let question = reproduction.map_or(own, |study| &study.study.title);
    let title = format!("{question}: {heading}");
    html_file(
        &policy,
        &title,
        &html! {
            (SKIP)
            header {
                h1 { (question) }
                @for line in machine.lines().filter(|line| !line.is_empty()) {
                    p.machine { (line) }
                }
                p.quiet { (head(run)) }
                @for doubt in doubts { p.doubt { (doubt) } }
                nav {
                    @if reproduction.is_some() { a href="#study" { "Study" } }
                    @for (id, name) in SECTIONS { a href={ "#" (id) } { (name) } }
                }
            }
            main #main {
                @if let Some(reproduction) = reproduction { section #study { (document::page(&reproduction.parts(&rows, false), 2)) } }
                section #first { (answers) (first::section(&rows, &found)) }
                (folded("latency", &latency::title(&rows), &latency::table(&rows)))
                (folded("findings", &found.title(), &found.section(&rows)))
                (folded("plots", &probes::title(&rows), &probes::section(&rows, ladder.as_ref(), &chosen, left_out)))
                (folded("machine", "The machine", &facts::section(run)))
                (folded("noise", "Noise", &noise::section(run)))
                @let absent = without_number(run);
                (folded("absent", "What could not be measured", &html! {
                    @if absent.trim().is_empty() { p { "Every requested point has a number." } }
                    (list(&absent))
                }))
                (folded("made", "How this was made", &made(run)))
            }
            div #tip role="status" hidden {}
            script { (PreEscaped(SCRIPT)) }
        },
    )
}

/// The first link that takes the focus: it skips the part before the numbers, which is the same on every
/// page.
const SKIP: PreEscaped<&str> =
    PreEscaped("<a class=\"skip\" href=\"#main\">Skip to the numbers</a>");

/// An HTML file with a policy that allows only the page's own style, and `script` if there is one.
pub(crate) fn html_file(script: &str, title: &str, body: &Markup) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; {script}base-uri 'none'; form-action 'none'"
    );
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    html.into_string()
}

const SECTIONS: [(&str, &str); 7] = [
    ("latency", "Latency table"),
    ("findings", "Findings"),
    ("plots", "Plots and numbers"),
    ("machine", "Machine"),
    ("noise", "Noise"),
    ("absent", "Not measured"),
    ("made", "How it was made"),
];

/// When the run was measured, how much it measured, and how it ended.
fn head(run: &Run) -> String {
    let summary = match notes::summary(run) {
        none if none.is_empty() => "No point was measured".to_owned(),
        summary => summary,
    };
    let end = match &run.end {
        Some(_) => "",
        None => " The run was interrupted, and some points were not measured.",
    };
    format!("Started {}, precision {}. {summary}.{end}", run.run.started, run.run.plan.precision)
}

fn made(run: &Run) -> Markup {
    html! {
        @if !run.run.command.is_empty() {
            p { "The command: " code { (run.run.command.join(" ")) } }
        }
        @for attempt in run.attempts.iter().rev().take(1) {
            p { "costof " (attempt.costof) ", build " code { (shortened(&attempt.build, 24)) }
                ", seed " (run.run.seed) ", run " code { (run.run.id) } }
        }
        (list(&notes::instruments(run)))
        (list(&notes::links(run)))
        p.quiet {
            "Each number is the median over several launches, each a fresh process, with its 95 % \
             interval. Grades run from A (no disturbance that could have changed the number) to D \
             (disturbances that may account for all of it). A prediction was recorded before its \
             point was measured."
        }
    }
}

#[cfg(test)]
mod tests;

//! The page of three or more runs, without scripts: which run is the odd one, and one table with a column for
//! each run, the widest spread first.

use super::comparison::{facts_apart, made, of_comparison, outcome_class, side};
use super::{folded, lines, scroll};
use crate::compare::Side;
use crate::compare::many::{Pair, Row, Runs, letter};
use crate::compare::outcome::Outcome;
use maud::{Markup, html};

/// A table has at most this many rows; for a huge or hostile file, it says how many more there are.
const ROWS: usize = 3000;

/// The page of runs, with the comparison of each pair. `outcomes` has the outcome of each later run compared
/// with the first, with the run's name.
pub fn page(sides: &[Side<'_>], pairs: &[Pair], outcomes: &[(Option<String>, Outcome)]) -> String {
    let runs = Runs::new(sides, pairs);
    let (differ, alike) = runs.by_difference();
    let letters: Vec<String> = (0..sides.len()).map(letter).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let content = html! {
        p.outcome { (runs.odd_one()) }
        @for (name, outcome) in outcomes {
            p.headline.(outcome_class(outcome)) { (outcome.line(name.as_deref())) }
        }
        dl.sides { @for (letter, one) in letters.iter().zip(sides) { dt { (letter) } dd { (side(*one)) } } }
        @if !differ.is_empty() { (table("The rows in which runs differ", &runs, &differ)) }
        @if !alike.is_empty() {
            (folded("alike", &runs.without_difference(&alike), &table("The other rows", &runs, &alike)))
        }
        @let only_some = runs.only_some();
        @if !only_some.is_empty() {
            (folded("only", "What only some runs have", &lines::list(&only_some.join("\n"))))
        }
        (facts_apart(&letters, &runs.facts()))
        (folded("made", "How the runs were made", &html! { @for one in sides { (made(*one)) } }))
    };
    of_comparison(
        &format!("Which of {} runs is the odd one", sides.len()),
        &content,
    )
}

/// A table with a column for each run. If one run differs from all others, its number is highlighted.
fn table(name: &str, runs: &Runs<'_>, rows: &[&Row<'_>]) -> Markup {
    let content = html! {
        thead { tr { th { "what" } @for heading in runs.headings() { th.v { (heading) } } } }
        tbody { @for row in rows.iter().take(ROWS) { tr {
            td { (runs.name(row)) }
            @for (run, cell) in row.cells().iter().enumerate() { td.v.odd[row.is_odd(run)] { (cell) } }
        } } }
    };
    html! {
        (scroll(name, &content))
        @if rows.len() > ROWS { p.quiet { "and " (rows.len() - ROWS) " more, which costof compare --all lists" } }
    }
}

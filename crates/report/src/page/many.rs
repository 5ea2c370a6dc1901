//! The page of three or more runs, without scripts: which run is the odd one, and one table with a column for
//! each run, the widest spread first.

use super::comparison::{facts_apart, made, of_comparison, outcome_class, side};
use crate::compare::Side;
use crate::compare::many::{Pair, Runs, letter};
use crate::compare::outcome::Outcome;
use crate::document::Part;
use maud::html;

/// The page of runs, with the comparison of each pair. `outcomes` has the outcome of each later run compared
/// with the first, with the run's name.
pub fn page(sides: &[Side<'_>], pairs: &[Pair], outcomes: &[(Option<String>, Outcome)]) -> String {
    let runs = Runs::new(sides, pairs);
    let (differ, alike) = runs.by_difference();
    let letters: Vec<String> = (0..sides.len()).map(letter).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let mut parts = vec![
        Part::Paragraph("outcome", runs.odd_one()),
        Part::Drawing(html! {
            @for (name, outcome) in outcomes {
                p.headline.(outcome_class(outcome)) { (outcome.line(name.as_deref())) }
            }
            dl.sides { @for (letter, one) in letters.iter().zip(sides) { dt { (letter) } dd { (side(*one)) } } }
        }),
    ];
    if !differ.is_empty() {
        let name = "The rows in which runs differ".to_owned();
        parts.push(Part::Table(name, runs.table(&differ)));
    }
    if !alike.is_empty() {
        parts.push(Part::Folded {
            id: "alike",
            title: runs.without_difference(&alike),
            parts: vec![Part::Table("The other rows".to_owned(), runs.table(&alike))],
        });
    }
    let only = Part::lines(&runs.only_some().join("\n"));
    parts.extend(Part::folded("only", "What only some runs have", only));
    parts.push(facts_apart(&letters, &runs.facts()));
    let made = Part::Drawing(html! { @for one in sides { (made(*one)) } });
    parts.extend(Part::folded("made", "How the runs were made", [made]));
    let title = format!("Which of {} runs is the odd one", sides.len());
    of_comparison(&title, &parts)
}

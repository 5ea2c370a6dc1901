//! The text of `costof history`: what changed, the latest first.

use crate::compare::percent;
use crate::fleet::signed;
use crate::text::{hanging, printable_lines, wrapped};
use costof_model::history::{Change, History};
use costof_model::plural::counted;

/// At most this many changes are shown.
const CHANGES: usize = 12;
/// At most this many facts of a change are shown.
const FACTS: usize = 4;

/// What changed in a series of runs, in lines of at most this many columns.
pub fn text(history: &History, columns: usize) -> String {
    let head = format!("{}: {}", followed(history), count(history));
    let mut text = wrapped(columns, &head, "");
    for change in history.changes.iter().take(CHANGES) {
        text.push_str(&of_change(change, columns));
    }
    if history.changes.len() > CHANGES {
        let more = format!(
            "\nand {} earlier ones: --json has them",
            history.changes.len() - CHANGES
        );
        text.push_str(&format!("{more}\n"));
    }
    text.push_str(&format!("\n{}", wrapped(columns, &rules(history), "")));
    printable_lines(&text)
}

/// What the latest run changed, in a line or two: the largest change, and what else changed then. Empty if that
/// is nothing.
pub fn latest(history: &History, columns: usize) -> String {
    let size = |change: &&Change| change.worse.abs();
    let largest = history
        .latest()
        .max_by(|one, other| size(one).total_cmp(&size(other)));
    let Some(change) = largest else {
        return String::new();
    };
    let others = match history.latest().count() - 1 {
        0 => String::new(),
        1 => ", and 1 more row".to_owned(),
        more => format!(", and {more} more rows"),
    };
    let (name, since, step) = (change.of.name(), day(&change.at), step(change));
    let line = format!("changed for good since {since}: {name}: {step}{others} (`costof history`)");
    let mut text = hanging(columns, "- ", &line);
    if !change.facts.is_empty() {
        text += &hanging(
            columns,
            "- ",
            &format!("what else changed then: {}", causes(change).join("; ")),
        );
    }
    printable_lines(&text)
}

/// `26 runs since 2026-11-01, 4 rows`.
pub(crate) fn followed(history: &History) -> String {
    let since = history.runs.first().map_or("", |first| day(first));
    let (runs, rows) = (history.runs.len(), history.rows);
    let (runs, rows) = (counted(runs, "run"), counted(rows, "row"));
    format!("{runs} since {since}, {rows}")
}

/// `2 lasting changes`.
pub(crate) fn count(history: &History) -> String {
    match history.changes.len() {
        0 => "no lasting change".to_owned(),
        some => counted(some, "lasting change"),
    }
}

/// How large a change must be to be seen, and how often there is none.
pub(crate) fn rules(history: &History) -> String {
    let mut rules = Vec::new();
    if let Some((share, after)) = history.detectable {
        let share = percent(share);
        rules.push(format!(
            "A typical row shows a change of {share} or more after {}.",
            counted(after, "run")
        ));
    }
    if history.rows == 0 {
        rules.push("A row needs five runs with a grade of A to C.".to_owned());
    }
    let alarms = history.false_alarm_runs;
    rules.push(format!(
        "One false alarm in about {alarms} runs; a single run is never a change."
    ));
    rules.join(" ")
}

/// `4.10 ns → 4.91 ns (20 % worse)`.
pub(crate) fn step(change: &Change) -> String {
    let [from, to] = [change.from, change.to].map(|value| change.of.unit.display(value));
    format!("{from} → {to} ({})", signed(change.worse))
}

/// What else changed: `kernel: 6.1 → 6.2`.
pub(crate) fn causes(change: &Change) -> Vec<String> {
    if change.facts.is_empty() {
        return vec!["nothing else that costof knows of changed then".to_owned()];
    }
    let facts = change.facts.iter().take(FACTS);
    facts
        .map(|(what, from, to)| format!("{what}: {from} → {to}"))
        .collect()
}

fn of_change(change: &Change, columns: usize) -> String {
    let line = format!("{}: {}", change.of.name(), step(change));
    let mut text = hanging(columns, &format!("\n{}  ", day(&change.at)), &line);
    for cause in causes(change) {
        text.push_str(&wrapped(columns, &cause, "            "));
    }
    text
}

/// The day of a time.
pub(crate) fn day(time: &str) -> &str {
    time.get(.."2026-11-25".len()).unwrap_or(time)
}

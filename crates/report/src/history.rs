//! The text of `costof history`: what changed, the latest first.

use crate::compare::percent;
use crate::fleet::signed;
use crate::text::{hanging, printable_lines, wrapped};
use costof_model::history::{Change, History};

/// At most this many changes are shown.
const CHANGES: usize = 12;
/// At most this many facts of a change are shown.
const FACTS: usize = 4;

/// What changed in a series of runs, in lines of at most this many columns.
pub fn text(history: &History, columns: usize) -> String {
    let runs = history.runs.len();
    let count = match history.changes.len() {
        0 => "no lasting change".to_owned(),
        1 => "1 lasting change".to_owned(),
        more => format!("{more} lasting changes"),
    };
    let since = history.runs.first().map_or("", |first| day(first));
    let head = format!("{runs} runs since {since}, {} rows: {count}", history.rows);
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
    let mut rules = Vec::new();
    if let Some((share, after)) = history.detectable {
        let share = percent(share);
        rules.push(format!(
            "A typical row shows a change of {share} or more after {after} runs."
        ));
    }
    if history.rows == 0 {
        rules.push("A row needs five runs with a grade of A to C.".to_owned());
    }
    let alarms = history.false_alarm_runs;
    rules.push(format!(
        "One false alarm in about {alarms} runs; a single run is never a change."
    ));
    text.push_str(&format!("\n{}", wrapped(columns, &rules.join(" "), "")));
    printable_lines(&text)
}

fn of_change(change: &Change, columns: usize) -> String {
    let [from, to] = [change.from, change.to].map(|value| change.of.unit.display(value));
    let name = change.of.name();
    let line = format!("{name}: {from} → {to} ({})", signed(change.worse));
    let mut text = hanging(columns, &format!("\n{}  ", day(&change.at)), &line);
    if change.facts.is_empty() {
        text.push_str(&wrapped(
            columns,
            "nothing else that costof knows of changed then",
            "            ",
        ));
    }
    for (what, from, to) in change.facts.iter().take(FACTS) {
        let line = format!("{what}: {from} → {to}");
        text.push_str(&wrapped(columns, &line, "            "));
    }
    text
}

/// The day of a time.
fn day(time: &str) -> &str {
    time.get(.."2026-11-25".len()).unwrap_or(time)
}

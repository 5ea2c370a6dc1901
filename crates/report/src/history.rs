//! What `costof history` shows: what changed, the latest first; on a page, without scripts, also each row over time
//! as a sparkline.

mod sparkline;

use crate::check::{Case, Finding, Rules, Suite};
use crate::compare::percent;
use crate::document::{self, Entry, Part};
use crate::fleet::signed;
use crate::grid::{Align, Cell, Grid};
use crate::page::html_file;
use crate::text::{hanging, printable_lines};
use costof_model::history::{Change, History, Machines};
use costof_model::{MetricOfPoint, counted, span};
use maud::html;
use sparkline::{minute, sparklines};

/// At most this many changes are shown on a terminal.
const CHANGES: usize = 12;
/// At most this many changes stand in the table of a page.
const IN_TABLE: usize = 200;
/// At most this many facts of a change are shown.
const FACTS: usize = 4;

/// What changed in a series of runs, in lines of at most this many columns.
pub fn text(history: &History, columns: usize) -> String {
    let head = format!("{}: {}", followed(history), count(history));
    let mut parts = vec![Part::paragraph(head)];
    parts.extend(history.changes.iter().take(CHANGES).map(|change| of_change(change, history)));
    if history.changes.len() > CHANGES {
        let more = history.changes.len() - CHANGES;
        parts.push(Part::paragraph(format!("and {more} earlier ones: --json has them")));
    }
    parts.extend(machines(history));
    parts.push(Part::paragraph(rules(history)));
    document::text(&parts, columns)
}

/// Whether the latest run changed no row, of those that it has and that are followed.
pub fn check(history: &History, rules: &Rules) -> Suite {
    let latest = history.runs.len().checked_sub(1);
    let series =
        history.series.iter().enumerate().filter(|(_, series)| {
            series.values.last().is_some_and(|value| Some(value.run) == latest)
        });
    let soonest = history.detectable.map_or(0, |(_, runs)| runs as usize);
    let cases = series.map(|(at, series)| Case {
        name: named(&series.of, &series.machine, history),
        probe: Some(series.of.point.probe.clone()),
        finding: match history.latest().find(|change| change.row == at) {
            Some(change) => Finding::Fail(format!("{} since {}", step(change), day(&change.at))),
            None if series.values.len() <= soonest => Finding::Undecided(format!(
                "{} of it, and a change shows after {soonest}",
                counted(series.values.len(), "run")
            )),
            None => Finding::Pass,
        },
    });
    Suite::new("history", "row", cases.collect(), rules)
}

/// What holds of the latest run if no row changed.
pub fn reason(history: &History) -> String {
    match history.new_machines() {
        Some(new) => format!("the latest run is on a new machine class, {}", new.class),
        None => "no lasting change up to the latest run".to_owned(),
    }
}

/// What the runs measured: a class of machines, or several, each with its runs.
fn machines(history: &History) -> Option<Part> {
    let [_, _, ..] = &history.machines[..] else {
        let only = history.machines.first()?;
        return Some(Part::paragraph(format!("Machine class: {}.", only.class)));
    };
    let line = |machines: &Machines| {
        let Machines { class, runs, since, .. } = machines;
        let few = if machines.is_followed { "" } else { "; too few to show a change" };
        format!("  {class}: {} since {}{few}", counted(runs, "run"), day(since))
    };
    let mut lines = vec!["Machine classes, each followed by itself:".to_owned()];
    lines.extend(history.machines.iter().map(line));
    Some(Part::Paragraph("", lines.join("\n")))
}

/// The page of a history.
pub fn page(history: &History) -> String {
    let mut title = count(history);
    title[..1].make_ascii_uppercase();
    let mut parts = vec![
        Part::Heading(1, title.clone()),
        Part::Paragraph("quiet", followed(history)),
        Part::paragraph(rules(history)),
    ];
    parts.extend(machines(history));
    if !history.changes.is_empty() {
        parts.push(Part::Heading(2, "The changes, the latest first".to_owned()));
        parts.push(Part::Table("The changes".to_owned(), table(history)));
    }
    if !history.series.is_empty() {
        parts.push(Part::Heading(2, "Each row over time".to_owned()));
        parts.push(Part::Drawing(sparklines(history)));
    }
    html_file("", &title, &html! { main { (document::page(&parts, 1)) } })
}

fn table(history: &History) -> Grid {
    let mut grid = Grid::new([
        ("since", Align::Left),
        ("row", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("change", Align::Left),
        ("95 % interval", Align::Right),
        ("what else changed", Align::Left),
    ]);
    for change in history.changes.iter().take(IN_TABLE) {
        let [from, to] = [change.from, change.to].map(|value| change.of.unit.display(value).into());
        grid.add([
            minute(&change.at).into(),
            named(&change.of, &change.machine, history).into(),
            from,
            to,
            Cell::classed(
                signed(change.worse),
                ["w better", "w worse"][usize::from(change.worse > 0.0)],
            ),
            interval(change).into(),
            causes(change).join("; ").into(),
        ]);
    }
    grid
}

/// A row's name, with the class of its machines where there are several.
fn named(row: &MetricOfPoint, machine: &str, history: &History) -> String {
    match history.machines.len() {
        ..=1 => row.name(),
        _ => format!("{}, on {machine}", row.name()),
    }
}

/// `18 % to 22 %`, in the direction of the change.
fn interval(change: &Change) -> String {
    let Some((low, high)) = change.ci95 else {
        return String::new();
    };
    let (low, high) = if change.worse > 0.0 { (low, high) } else { (-high, -low) };
    let sign = if low < 0.0 { "−" } else { "" };
    format!("{sign}{}", span(&percent(low.abs()), " to ", &percent(high)))
}

/// What the latest run changed, in a line or two: the largest change, and what else changed then; or that it is on a new
/// class of machines. Otherwise empty.
pub fn latest(history: &History, columns: usize) -> String {
    let size = |change: &&Change| change.worse.abs();
    let largest = history.latest().max_by(|one, other| size(one).total_cmp(&size(other)));
    let Some(change) = largest else {
        let new = history.new_machines().map(|_| reason(history) + " (`costof history`)");
        return printable_lines(&new.map_or_else(String::new, |new| hanging(columns, "- ", &new)));
    };
    let others = match history.latest().count() - 1 {
        0 => String::new(),
        more => format!(", and {}", counted(more, "more row")),
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
fn followed(history: &History) -> String {
    let since = history.runs.first().map_or("", |first| day(first));
    let (runs, rows) = (history.runs.len(), history.rows);
    let (runs, rows) = (counted(runs, "run"), counted(rows, "row"));
    format!("{runs} since {since}, {rows}")
}

/// `2 lasting changes`, and whether the latest run can show any.
fn count(history: &History) -> String {
    let new = history.new_machines().map_or("", |_| "; the latest run is on a new machine class");
    match history.changes.len() {
        0 => format!("no lasting change{new}"),
        some => counted(some, "lasting change") + new,
    }
}

/// How large a change must be to be seen, and how often there is none.
fn rules(history: &History) -> String {
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
    rules.push(format!("One false alarm in about {alarms} runs; a single run is never a change."));
    rules.join(" ")
}

/// `4.10 ns → 4.91 ns (20 % worse)`.
fn step(change: &Change) -> String {
    let [from, to] = [change.from, change.to].map(|value| change.of.unit.display(value));
    format!("{from} → {to} ({})", signed(change.worse))
}

/// What else changed: `kernel: 6.1 → 6.2`.
fn causes(change: &Change) -> Vec<String> {
    if change.facts.is_empty() {
        return vec!["nothing else that costof knows of changed then".to_owned()];
    }
    let facts = change.facts.iter().take(FACTS);
    facts.map(|(what, from, to)| format!("{what}: {from} → {to}")).collect()
}

fn of_change(change: &Change, history: &History) -> Part {
    Part::Entry(Entry {
        label: day(&change.at).to_owned(),
        name: named(&change.of, &change.machine, history),
        about: step(change),
        details: vec![Part::List("", causes(change))],
        ..Entry::default()
    })
}

/// The day of a time.
fn day(time: &str) -> &str {
    time.get(.."2026-11-25".len()).unwrap_or(time)
}

//! A comparison in three lines, for a ticket: what changed and what did not; the rows that changed most; what cannot be
//! told, why, and how much more would do.

use super::outcome::{amount, change, is_beside_a_neighbour, worse_by};
use super::{known, share};
use crate::check::some;
use crate::names::{by_reason, short_point};
use crate::text::{printable, shortened};
use costof_model::comparison::{FactDifference, Groups, Level, Verdict};
use costof_model::plural::plural;
use costof_model::{Compared, Comparison, Run, counted};
use serde::Serialize;
use std::collections::BTreeMap;

/// What counts once if single runs are compared.
const LAUNCH: &str = "launch";
/// So many facts are named, each value with so many characters.
const FACTS: usize = 2;
const FACT: usize = 60;
/// How single runs were measured, which is no reason for what they cost.
const HOW_MEASURED: [&str; 4] = ["CPUs of the run", "precision", "launches of a point", "boot"];

/// The verdict and its three lines, without the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// `SLOWER`, `FASTER`, `MIXED`, `DIFFERENT`, `UNCHANGED` or `INCONCLUSIVE`.
    pub verdict: &'static str,
    /// What was compared, the layers, and how many rows were decided; the rows that changed most; what cannot be told.
    pub lines: [String; 3],
}

impl Summary {
    /// The three lines, the verdict first.
    pub fn text(&self) -> String {
        let [first, rows, open] = &self.lines;
        format!("{}  {first}\n{rows}\n{open}\n", self.verdict)
    }

    /// The same for a ticket in Markdown.
    pub fn markdown(&self) -> String {
        let [first, rows, open] = self.lines.each_ref().map(|line| crate::grid::escaped(line));
        format!("**{}** {first}\n- {rows}\n- {open}\n", self.verdict)
    }
}

/// Summarizes a comparison. `title` names both sides where no fact differs between them.
pub fn summary(comparison: &Comparison, title: &str, after: Option<&Run>) -> Summary {
    let mut rows: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for row in &comparison.rows {
        rows.entry(row.point.layer()).or_default().push(row);
    }
    let (mut whole, mut parts, mut unchanged) = (Vec::new(), Vec::new(), Vec::new());
    let mut layers = comparison.layers.clone();
    layers.sort_by(|one, other| other.worse.abs().total_cmp(&one.worse.abs()));
    let has = |verdict: Verdict| {
        layers.iter().any(|layer| layer.verdict == verdict) || super::count(comparison, verdict) > 0
    };
    // The verdict says which way, unless it was both.
    let words = if has(Verdict::Better) { [" slower", " faster"] } else { ["", ""] };
    for layer in layers.iter().filter(|layer| layer.verdict.is_change()) {
        let amount = amount(layer.worse, layer.ci95, words);
        whole.push(format!("{} {amount}", whole_name(&layer.layer)));
        rows.remove(&*layer.layer);
    }
    let is_alike = |layer: &str| {
        layers.iter().any(|of| of.layer == layer && of.verdict == Verdict::NoDifference)
    };
    for (layer, rows) in &rows {
        let changed = rows.iter().filter(|row| row.verdict.is_change()).count();
        if changed > 0 {
            parts.push(format!("{changed} of {} {} rows", rows.len(), name(layer)));
        } else if is_alike(layer) || rows.iter().all(|row| row.verdict == Verdict::NoDifference) {
            unchanged.push(name(layer));
        }
    }
    let are_alike = !rows.is_empty() && unchanged.len() == rows.len();
    let verdict = match (has(Verdict::Worse), has(Verdict::Better), has(Verdict::Differs)) {
        (true, true, _) => "MIXED",
        (true, false, _) => "SLOWER",
        (false, true, _) => "FASTER",
        (false, false, true) => "DIFFERENT",
        (false, false, false) if are_alike => "UNCHANGED",
        (false, false, false) => "INCONCLUSIVE",
    };
    if !parts.is_empty() {
        whole.push(format!("changed: {}", parts.join(", ")));
    }
    let mut first = vec![whole.join(", ")];
    if !unchanged.is_empty() {
        let within = share(comparison.matters);
        first.push(format!("{} unchanged within {within}", unchanged.join(", ")));
    }
    first.push(decided(comparison));
    first.retain(|part| !part.is_empty());
    let head = format!("{} ({})", what_differs(comparison, title), size(comparison));
    let lines =
        [format!("{head}: {}", first.join("; ")), largest(comparison, after), open(comparison)];
    Summary { verdict, lines: lines.map(|line| printable(&line)) }
}

/// A layer in words.
fn name(layer: &str) -> &str {
    match layer {
        "os" => "kernel",
        "net" => "network",
        "file" => "files",
        layer => layer,
    }
}

/// A layer as a whole, in words.
pub(super) fn whole_name(layer: &str) -> String {
    format!("{} layer", name(layer))
}

/// `4 of 6 rows decided: 1 worse, 3 unchanged`.
fn decided(comparison: &Comparison) -> String {
    let all = comparison.rows.len() + comparison.refused.len() + comparison.missing.len();
    let verdicts = [Verdict::Worse, Verdict::Better, Verdict::Differs, Verdict::NoDifference];
    let shared = beside_a_neighbour(comparison);
    let open = |of| if of == Verdict::Differs { shared } else { 0 };
    let counts = verdicts.map(|of| (super::count(comparison, of) - open(of), super::word(of)));
    let decided: usize = counts.iter().map(|(count, _)| count).sum();
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let colon = if counts.is_empty() { "" } else { ": " };
    format!("{decided} of {} decided{colon}{}", counted(all, "row"), counts.join(", "))
}

/// How many rows differ, perhaps because their core was shared.
pub(super) fn beside_a_neighbour(comparison: &Comparison) -> usize {
    comparison.rows.iter().filter(|row| is_beside_a_neighbour(row, comparison.matters)).count()
}

/// The facts in which the sides differ, with the old and the new value.
fn what_differs(comparison: &Comparison, title: &str) -> String {
    let has_kernel = comparison.facts.iter().any(|fact| fact.what == "kernel");
    // What follows from another kernel needs no word.
    let says_more = |fact: &&FactDifference| {
        let of_kernel = fact.what == "kernel's build" || fact.what.starts_with("CONFIG_");
        !(has_kernel && of_kernel || HOW_MEASURED.contains(&&*fact.what))
    };
    let facts = comparison.facts.iter().filter(says_more).map(|fact| {
        let [before, after] =
            [&fact.before, &fact.after].map(|value| shortened(known(value), FACT));
        format!("{} {before} → {after}", super::fact_name(fact))
    });
    let facts: Vec<String> = facts.collect();
    match facts.len().saturating_sub(FACTS) {
        _ if facts.is_empty() => title.to_owned(),
        0 => facts.join(", "),
        more => format!("{} and {}", facts[..FACTS].join(", "), counted(more, "more fact")),
    }
}

/// What was compared with what.
fn size(comparison: &Comparison) -> String {
    let Some(Groups { level, before, after, in_pairs, .. }) = &comparison.groups else {
        return if comparison.in_turns { "2 runs in turns" } else { "1 against 1 run" }.to_owned();
    };
    let (first, second) = (before, counted(after, level.noun()));
    match level {
        Level::Hosts if *in_pairs => format!("{second}, each with itself"),
        Level::Hosts => format!("{first} against {second}"),
        Level::Boots | Level::Runs => format!("{first} against {second} of one host each"),
    }
}

/// The rows that changed most.
fn largest(comparison: &Comparison, after: Option<&Run>) -> String {
    let changed = comparison.rows.iter().filter(|row| row.verdict.is_change());
    let mut changed: Vec<&Compared> = changed.collect();
    changed.sort_by(|one, other| worse_by(other).0.abs().total_cmp(&worse_by(one).0.abs()));
    let named = changed.iter().map(|row| {
        let name = row.label.clone().unwrap_or_else(|| {
            short_point(&row.point, after.and_then(|run| run.probe(&row.point.probe)))
        });
        format!("{name} {}", change(row))
    });
    match &named.collect::<Vec<_>>()[..] {
        [] => "No single row surely changed".to_owned(),
        named => format!("Most changed: {}", some(named)),
    }
}

/// What cannot be told, why, and how much more would do.
fn open(comparison: &Comparison) -> String {
    let level = comparison.groups.as_ref().map(|groups| groups.level);
    let noun = level.map_or(LAUNCH, Level::noun);
    let mut parts = Vec::new();
    let undecided = comparison.rows.iter().filter(|row| row.verdict == Verdict::CannotTell);
    let undecided: Vec<&Compared> = undecided.collect();
    if !undecided.is_empty() {
        let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &undecided {
            *layers.entry(name(row.point.layer())).or_default() += 1;
        }
        let layers = layers.into_iter().map(|(layer, count)| format!("{layer} {count}"));
        let layers = layers.collect::<Vec<_>>().join(", ");
        let rows = counted(undecided.len(), "row");
        let more = more(&undecided, noun);
        parts.push(format!(
            "{rows} inconclusive ({layers}), as their {} differ too much: {more}",
            plural(noun)
        ));
    }
    if let shared @ 1.. = beside_a_neighbour(comparison) {
        let rows = counted(shared, "row");
        parts.push(format!("{rows} measured on a shared core, which may be why they differ"));
    }
    let refused = comparison.refused.iter().map(|one| (&one.reason, one.point.probe.to_string()));
    for (reason, probes) in by_reason(refused) {
        parts.push(format!("{} not compared: {reason}", counted(probes.len(), "row")));
    }
    if !comparison.missing.is_empty() {
        let rows = counted(comparison.missing.len(), "row");
        parts.push(format!("{rows} without a number in the later run"));
    }
    let limit = match level {
        None if !comparison.in_turns => "one run each: what two runs differ in counts as a change",
        Some(Level::Runs) => "one boot each: what two boots differ in counts as a change",
        Some(Level::Boots) => "one host each: what two hosts differ in counts as a change",
        Some(Level::Hosts) | None => "",
    };
    parts.extend((!limit.is_empty()).then(|| limit.to_owned()));
    match &parts[..] {
        [] if comparison.rows.is_empty() => "Nothing could be compared".to_owned(),
        [] => "Everything was decided".to_owned(),
        parts => format!("Cannot tell: {}", parts.join("; ")),
    }
}

/// How many launches or hosts a side would decide these rows.
fn more(undecided: &[&Compared], noun: &str) -> String {
    let nouns = plural(noun);
    let mut needed: Vec<u32> = undecided.iter().filter_map(|row| row.needed).collect();
    needed.sort_unstable();
    let (Some(most), Some(half)) = (needed.last(), needed.get(needed.len().saturating_sub(1) / 2))
    else {
        return format!("no number of {nouns} would decide one, so measure on quieter machines");
    };
    let decided = |by: &u32| match needed.iter().filter(|needed| *needed <= by).count() {
        all if all == undecided.len() => "all".to_owned(),
        some => some.to_string(),
    };
    let of_them = if decided(half) == "all" { "" } else { " of them" };
    let last = match half < most {
        true => format!(", and {most} would decide {}", decided(most)),
        false => String::new(),
    };
    let now = undecided.iter().map(|row| row.before.1.min(row.after.1)).max().unwrap_or(0);
    let how = if noun == LAUNCH { "; --launches sets it" } else { "" };
    format!(
        "about {half} {nouns} a side would decide {}{of_them}{last} (now {now}{how})",
        decided(half)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::row;
    use costof_model::comparison::{LayerChange, Refused};

    fn layer(layer: &str, worse: f64, verdict: Verdict) -> LayerChange {
        let (layer, ci95) = (layer.to_owned(), (worse - 0.01, worse + 0.01));
        LayerChange { layer, rows: 3, worse, ci95, p: 0.001, verdict }
    }

    fn groups(level: Level, count: usize, in_pairs: bool) -> Option<Groups> {
        Some(Groups { level, before: count, after: count, in_pairs, row: None })
    }

    fn fact(what: &str, before: &str, after: &str) -> FactDifference {
        let [before, after] = [before, after].map(|value| Some(value.to_owned()));
        FactDifference { host: "only".into(), what: what.to_owned(), before, after }
    }

    #[test]
    fn three_lines_say_what_changed_what_did_not_and_what_is_open() {
        let open = |needed| Compared { needed, ..row("rpc.x", 1.0, 0.1, Verdict::CannotTell) };
        let comparison = Comparison {
            matters: 0.05,
            groups: groups(Level::Hosts, 10, false),
            facts: vec![
                fact("kernel", "6.18.44", "6.20.0"),
                fact("kernel's build", "#1", "#2"),
                fact("CONFIG_HZ", "250", "1000"),
                fact("microcode", "0x1", "0x2"),
            ],
            layers: vec![
                layer("os", 0.12, Verdict::Worse),
                layer("memory", 0.001, Verdict::NoDifference),
                layer("net", -0.002, Verdict::NoDifference),
            ],
            rows: vec![
                row("os.x", 1.14, 0.01, Verdict::Worse),
                row("memory.x", 1.0, 0.01, Verdict::NoDifference),
                row("net.x", 1.0, 0.01, Verdict::NoDifference),
                open(Some(14)),
                open(Some(31)),
                open(None),
            ],
            refused: vec![Refused {
                point: row("file.x", 1.0, 0.1, Verdict::CannotTell).point,
                metric: "cost".into(),
                reason: "only 1 host before".to_owned(),
            }],
            ..Comparison::default()
        };
        let found = summary(&comparison, "old → new", None);
        assert_eq!(
            found.text(),
            "SLOWER  kernel 6.18.44 → 6.20.0, microcode 0x1 → 0x2 (10 against 10 hosts): kernel layer 12 % (11–13); \
             memory, network unchanged within 5 %; 3 of 7 rows decided: 1 worse, 2 unchanged\n\
             Most changed: os.x size=64 14 % slower (13–15)\n\
             Cannot tell: 3 rows inconclusive (rpc 3), as their hosts differ too much: about 14 hosts a side would decide \
             1 of them, and 31 would decide 2 (now 10); 1 row not compared: only 1 host before\n"
        );
        assert!(found.markdown().starts_with("**SLOWER** kernel 6.18.44"), "{}", found.markdown());
        // Beside a neighbour, what differs is not decided.
        let rows = vec![
            row("os.x", 1.5, 0.01, Verdict::Differs),
            row("net.x", 1.0, 0.01, Verdict::NoDifference),
        ];
        let shared = Comparison { matters: 0.05, rows, ..Comparison::default() };
        let text = summary(&shared, "", None).text();
        assert!(text.contains("1 of 2 rows decided: 1 unchanged"), "{text}");
        assert!(text.contains("Cannot tell: 1 row measured on a shared core"), "{text}");
        let none = Comparison { groups: groups(Level::Hosts, 2, false), ..Comparison::default() };
        let none = summary(&none, "", None).text();
        assert!(none.contains("Nothing could be compared"), "{none}");
        let verdict = |layers: Vec<LayerChange>, rows: Vec<Compared>| {
            summary(&Comparison { layers, rows, ..comparison.clone() }, "", None).verdict
        };
        let alike = || row("net.x", 1.0, 0.01, Verdict::NoDifference);
        let better = || row("net.x", 0.9, 0.01, Verdict::Better);
        for (layers, rows, expected) in [
            (vec![], vec![alike()], "UNCHANGED"),
            (vec![], vec![alike(), open(None)], "INCONCLUSIVE"),
            (vec![], vec![], "INCONCLUSIVE"),
            (vec![], vec![better()], "FASTER"),
            (
                vec![layer("os", 0.2, Verdict::Worse)],
                vec![better(), row("os.x", 1.2, 0.1, Verdict::CannotTell)],
                "MIXED",
            ),
            (
                vec![layer("net", 0.03, Verdict::NoDifference)],
                vec![alike(), row("net.y", 1.0, 0.1, Verdict::CannotTell)],
                "UNCHANGED",
            ),
            (vec![], vec![row("net.x", 0.9, 0.01, Verdict::Differs)], "DIFFERENT"),
        ] {
            assert_eq!(verdict(layers.clone(), rows), expected, "{layers:?}");
        }
    }

    #[test]
    fn what_is_compared_is_named_by_its_level() {
        let of = |groups, in_turns| {
            let rows = vec![row("os.x", 1.0, 0.01, Verdict::NoDifference)];
            let comparison =
                Comparison { matters: 0.05, groups, in_turns, rows, ..Comparison::default() };
            let text = summary(&comparison, "old → new", None).text();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for (groups, in_turns, head, open) in [
            (
                groups(Level::Hosts, 4, true),
                false,
                "(4 hosts, each with itself)",
                "Everything was decided",
            ),
            (
                groups(Level::Boots, 3, false),
                false,
                "(3 against 3 boots of one host each)",
                "what two hosts differ in",
            ),
            (
                groups(Level::Runs, 3, false),
                false,
                "(3 against 3 runs of one host each)",
                "what two boots differ in",
            ),
            (None, false, "(1 against 1 run)", "what two runs differ in"),
            (None, true, "(2 runs in turns)", "Everything was decided"),
        ] {
            let lines = of(groups, in_turns);
            assert!(
                lines[0].starts_with("UNCHANGED  old → new ") && lines[0].contains(head),
                "{lines:?}"
            );
            assert_eq!((lines.len(), &*lines[1]), (3, "No single row surely changed"));
            assert!(lines[2].contains(open), "{lines:?}");
        }
    }
}

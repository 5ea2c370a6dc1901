//! The comparison of runs as text.

pub mod outcome;
pub mod summary;

use crate::document::{self, Part};
use crate::grid::{Align, Grid};
use crate::names::{by_probe, by_reason, points_counted, short_point};
use crate::text::{COLUMNS, printable};
use costof_model::comparison::{FactDifference, Missing, Verdict};
use costof_model::noise::PEER;
use costof_model::{Compared, Comparison, Point, Run, Unit, counted, span};
use costof_stats::median;
use std::collections::BTreeSet;

/// Where the core clock differs by more than this share, times differ visibly by it.
const CLOCK_MOVED: f64 = 0.01;

/// A run and its name.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The name of its file or its host.
    pub name: &'a str,
    /// The run.
    pub run: &'a Run,
}

/// The text of a comparison: the headline, what differs between the machines, the rows that show a result
/// (with `all`, every row), the points that could not be compared, and how far the verdicts can be trusted.
/// `after` is the later run; its descriptions name the points. The text fits a terminal of this width.
pub fn compared(comparison: &Comparison, after: &Run, all: bool, width: usize) -> String {
    let mut rows = in_order(&comparison.rows);
    rows.retain(|row| all || row.verdict != Verdict::CannotTell);
    let hidden = match comparison.rows.len() - rows.len() {
        0 => "",
        _ => "`--all` shows the inconclusive rows.\n",
    };
    let differences = comparison.facts.iter().map(|difference| {
        let (before, after) = (known(&difference.before), known(&difference.after));
        format!("{}: {before} → {after}", fact_name(difference))
    });
    let mut parts = vec![Part::paragraph(head(comparison, after))];
    let differences: Vec<String> = differences.collect();
    if !differences.is_empty() {
        parts.push(Part::Heading(2, "Differs between the runs:".to_owned()));
        parts.push(Part::List("", differences));
    }
    if !rows.is_empty() {
        parts.push(Part::Table(String::new(), table(&rows, after, width)));
    }
    parts.push(Part::paragraph(hidden.to_owned() + &trust(comparison)));
    let apart = [refused(comparison, after), missing(comparison, after), only(comparison)];
    parts.extend(apart.concat().lines().map(Part::paragraph));
    document::text(&parts, COLUMNS.min(width))
}

/// The first lines of a comparison.
pub(crate) fn head(comparison: &Comparison, after: &Run) -> String {
    summary::summary(comparison, "after against before", Some(after)).text()
}

/// The points that only one run has a number for, as counts per probe.
pub(crate) fn only(comparison: &Comparison) -> String {
    let of_runs = [(&comparison.only_before, "earlier"), (&comparison.only_after, "later")];
    let of_runs = of_runs.iter().filter(|(points, _)| !points.is_empty());
    let lines = of_runs.map(|(points, which)| {
        let count = points_counted(points.len());
        let probes = by_probe(points.iter());
        format!("{count} only in the {which} run: {probes}.\n")
    });
    lines.collect()
}

/// The points that no longer have a number, by reason.
pub(crate) fn missing(comparison: &Comparison, after: &Run) -> String {
    let missing = comparison.missing.iter();
    let reasons =
        by_reason(missing.map(|missing| (why_missing(missing), named(&missing.point, after))));
    let lines = reasons.into_iter().map(|(reason, names)| {
        format!("No number in the later run, {reason}: {}.\n", names.join("; "))
    });
    lines.collect()
}

/// Why a point has no number. If noise is the reason, its cause is named.
fn why_missing(missing: &Missing) -> String {
    let cause = if missing.is_noise { " (cause: noise)" } else { "" };
    format!("{}{cause}", missing.reason)
}

/// The name of the fact, and which peer it is about.
pub(crate) fn fact_name(difference: &FactDifference) -> String {
    let is_peer = difference.host == PEER;
    let end = if is_peer { " of the other end" } else { "" };
    format!("{}{end}", difference.what)
}

/// The value of a fact.
pub(crate) fn known(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("unknown")
}

/// The rows in the order in which they are shown: first what became worse, the largest change first; then
/// what became better; then the others in the order of the plan.
pub(crate) fn in_order(rows: &[Compared]) -> Vec<&Compared> {
    let mut rows: Vec<&Compared> = rows.iter().collect();
    let change = |row: &Compared| row.ratio.ln().abs();
    rows.sort_by(|a, b| {
        let by_verdict = a.verdict.cmp(&b.verdict);
        match a.verdict.is_change() {
            false => by_verdict,
            true => by_verdict.then(change(b).total_cmp(&change(a))),
        }
    });
    rows
}

pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Differs => "differs",
        Verdict::NoDifference => "unchanged",
        Verdict::CannotTell => "inconclusive",
    }
}

fn table(rows: &[&Compared], after: &Run, width: usize) -> Grid {
    let numbers = ["before", "after", "ratio", "95 % interval", "detectable"];
    let numbers = numbers.map(|name| (name, Align::Right));
    let from_widths = [0, 0, 120, 120, 0, 120, 160];
    let mut grid = Grid::new([("", Align::Left); 2].into_iter().chain(numbers));
    for row in rows {
        grid.add([
            word(row.verdict).to_owned(),
            what(row, after),
            row.unit.display(row.before.0),
            row.unit.display(row.after.0),
            format!("{:.3}", row.ratio),
            interval(row.ci95),
            percent(row.visible),
        ]);
    }
    grid.fit(width, &from_widths, 1);
    grid
}

/// The interval of a ratio: `1.069–1.091`.
pub(crate) fn interval((low, high): (f64, f64)) -> String {
    span(&format!("{low:.3}"), "–", &format!("{high:.3}"))
}

pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share.is_nan() => "unknown".to_owned(),
        share if share < 0.1 => format!("{:.1} %", 100.0 * share),
        share if share < 10.0 => format!("{:.0} %", 100.0 * share),
        _ => "over 10x".to_owned(),
    }
}

/// The row's name as in the latency table. The metric is named if it is not the probe's primary one.
pub(crate) fn what(row: &Compared, after: &Run) -> String {
    let found = after.points.iter().find(|point| point.point == row.point);
    let label = found.and_then(|found| found.label.as_deref().map(printable));
    let name = label.unwrap_or_else(|| named(&row.point, after));
    if found.is_some_and(|found| found.primary == row.metric) {
        return name;
    }
    format!("{name}: {}", row.metric)
}

fn named(point: &Point, run: &Run) -> String {
    printable(&short_point(point, run.probe(&point.probe)))
}

/// A change as a percentage: `5 %`, `2.5 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

fn count(comparison: &Comparison, verdict: Verdict) -> usize {
    let rows = comparison.rows.iter();
    rows.filter(|row| row.verdict == verdict).count()
}

/// How far a reader can trust the verdicts.
pub(crate) fn trust(comparison: &Comparison) -> String {
    if comparison.rows.is_empty() {
        return String::new();
    }
    let machine = match &comparison.groups {
        Some(groups) => &format!(
            "Each {} counts once, however often it was measured: intervals are over these.",
            groups.level.noun()
        ),
        None if comparison.in_turns => {
            "The runs took turns, launch by launch, so what the machine did meanwhile affected both alike. A ratio \
             compares neighbouring launches, so it may differ from the ratio of the two medians."
        }
        None => {
            "If the machine itself changed between the runs, the ratios include that change: --interleave measures both in turns."
        }
    };
    let exported = match comparison.is_exported {
        true => {
            "\nAn export has no launches: medians are compared by their intervals, not in core cycles, and not alone with alone."
        }
        false => "",
    };
    format!(
        "Verdicts are corrected for the number of rows: where nothing changed, one comparison in twenty raises a \
         false alarm. {machine}{exported}{}{}\n",
        at_equal_clocks(&comparison.rows),
        core_shared(comparison)
    )
}

/// How many rows were compared in core cycles although the core clock had changed, and what that means.
fn at_equal_clocks(rows: &[Compared]) -> String {
    let clocks = rows.iter().filter_map(|row| row.clocks);
    let moved = clocks.filter(|(before, after)| (after / before - 1.0).abs() > CLOCK_MOVED);
    let (before, after): (Vec<f64>, Vec<f64>) = moved.unzip();
    let Some((old, new)) = median(&before).zip(median(&after)) else {
        return String::new();
    };
    let [old, new] = [old, new].map(|hz| Unit::Hertz.display(hz));
    let rows = match before.len() {
        1 => "1 row is compared in core cycles".to_owned(),
        count => format!("{count} rows are compared in core cycles"),
    };
    format!("\n{rows}, as if the core clock had stayed: it was {old} before and {new} after.")
}

/// How many rows were compared while something else used the core, and what that means.
fn core_shared(comparison: &Comparison) -> String {
    let shared = comparison.rows.iter().filter(|row| row.core_shared);
    let count = shared.count();
    let meaning = if comparison.in_turns {
        "Both runs were disturbed alike."
    } else {
        "If such a row differs, that may be the reason, so it is not called better or worse."
    };
    match count {
        0 => String::new(),
        _ => format!(
            "\nCompared while something else used the core, since too few batches had the core to themselves in both runs: \
             {}. {meaning}",
            counted(count, "row")
        ),
    }
}

/// Why no row of a comparison without rows could be compared: the reason for the first point that both runs were to
/// measure. `None` if there is no such point.
pub fn why_nothing(comparison: &Comparison, before: &Run, after: &Run) -> Option<String> {
    let refused = comparison.refused.first();
    let refused = refused.map(|refused| refused.reason.clone());
    refused.or_else(|| {
        let planned: BTreeSet<&Point> = before.run.plan.points().collect();
        let point = after.run.plan.points().find(|point| planned.contains(point))?;
        let mut failures = [after, before].into_iter().flat_map(|run| &run.failures);
        let failed = failures.find(|row| row.point == *point && row.launch.is_none());
        let why = failed.map_or("not measured in both runs", |row| &row.reason);
        Some(format!("{}: {why}", named(point, after)))
    })
}

/// Reasons for refusal, each with its points.
pub(crate) fn refused(comparison: &Comparison, after: &Run) -> String {
    let refused = comparison.refused.iter();
    let reasons = by_reason(refused.map(|refused| (&refused.reason, named(&refused.point, after))));
    let lines = reasons
        .into_iter()
        .map(|(reason, names)| format!("Not compared, {reason}: {}.\n", names.join("; ")));
    lines.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use costof_model::testing::{golden, run_without_facts as run, sized_row};
    use costof_model::{Better, Selection, Unit};

    /// A row with this ratio, and an interval that extends this share to either side.
    pub(crate) fn row(probe: &'static str, ratio: f64, half: f64, verdict: Verdict) -> Compared {
        Compared {
            point: sized_row(probe, 64, 5.0).point,
            label: None,
            metric: "cost".into(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            before: (100.0, 10),
            after: (100.0 * ratio, 10),
            ratio,
            ci95: (ratio * (1.0 - half), ratio * (1.0 + half)),
            p: 0.001,
            verdict,
            needed: None,
            visible: 0.098,
            selection: Selection::All,
            core_shared: false,
            clocks: None,
        }
    }

    #[test]
    fn the_summary_is_first_and_inconclusive_rows_are_hidden() {
        let blind = || row("a.blind", 1.0, 0.1, Verdict::CannotTell);
        let rows = vec![blind(), blind(), row("a.worse", 1.1, 0.0, Verdict::Worse)];
        let some = Comparison { matters: 0.05, rows, ..Comparison::default() };
        let text = compared(&some, &run(), false, usize::MAX);
        assert!(!text.contains("a.blind"), "{text}");
        golden("report/compare", "some are inconclusive", &text);
        let evil = vec![row("a\u{1b}[2J", 1.1, 0.0, Verdict::Worse)];
        let evil = Comparison { rows: evil, ..some.clone() };
        assert!(compared(&evil, &run(), true, usize::MAX).contains("a\u{fffd}[2J size="));
        assert!(compared(&some, &run(), true, usize::MAX).contains("a.blind"));
    }

    #[test]
    fn the_table_fits_the_terminal_and_a_wider_one_shows_more() {
        const LONG: &str =
            "a probe with a name of many words, for which a terminal of eighty columns has no room";
        let comparison =
            Comparison { rows: vec![row(LONG, 1.1, 0.0, Verdict::Worse)], ..Comparison::default() };
        let cases: [(usize, &[&str]); 5] = [
            (60, &["ratio"]),
            (80, &["ratio"]),
            (120, &["before", "after", "ratio", "95 % interval"]),
            (160, &["before", "after", "ratio", "95 % interval", "detectable"]),
            (usize::MAX, &["before", "after", "ratio", "95 % interval", "detectable"]),
        ];
        for (width, headings) in cases {
            let text = compared(&comparison, &run(), true, width);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}: {text}");
            let heading = text.lines().find(|line| line.contains("ratio")).unwrap();
            let words = heading.split("  ").map(str::trim);
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            assert_eq!(words, headings, "{width}");
        }
    }

    #[test]
    fn what_was_compared_beside_a_neighbour_is_counted() {
        let of = |shared: &[Selection], in_turns| {
            let rows = shared.iter().map(|selection| Compared {
                selection: *selection,
                core_shared: true,
                clocks: None,
                ..row("a.shared", 1.06, 0.01, Verdict::Differs)
            });
            let alone = row("a.alone", 1.0, 0.01, Verdict::NoDifference);
            trust(&Comparison {
                in_turns,
                rows: rows.chain([alone]).collect(),
                ..Comparison::default()
            })
        };
        assert!(!of(&[], false).contains("used the core"));
        golden("report/compare", "a neighbour", &of(&[Selection::Shared], false));
        let three = of(&[Selection::Shared, Selection::All, Selection::All], true);
        golden("report/compare", "a neighbour in turns", &three);
    }
}

//! Two runs compared, as text.

use crate::grid::{Align, Grid};
use crate::names::{by_reason, points_counted, short_point};
use costof_model::comparison::{Compared, Comparison, FactDifference, Verdict};
use costof_model::metric::Selection;
use costof_model::noise::PEER;
use costof_model::point::Point;
use costof_model::run_file::Run;
use std::fmt::Write;

/// What differs between the machines, every row with what it means, what could not be compared, and
/// a line that sums it up. `after` is the later run, which names its points.
pub fn compared(comparison: &Comparison, after: &Run) -> String {
    let mut text = String::new();
    text.push_str(&facts(&comparison.facts));
    if comparison.rows.is_empty() {
        text.push_str("No metric can be compared.\n");
    } else {
        text.push_str(&table(&comparison.rows, after));
        let _ = writeln!(text, "\n{}", summary(comparison));
    }
    text.push_str(&refused(comparison, after));
    text.push_str(&only(comparison, after));
    text
}

/// What only one of the runs has a number of.
pub(crate) fn only(comparison: &Comparison, after: &Run) -> String {
    let mut text = String::new();
    for (points, which) in [
        (&comparison.only_before, "earlier"),
        (&comparison.only_after, "later"),
    ] {
        if !points.is_empty() {
            let names: Vec<String> = points.iter().map(|point| named(point, after)).collect();
            let _ = writeln!(
                text,
                "\nOnly the {which} run has a number of {}: {}.",
                points_counted(points.len()),
                names.join("; ")
            );
        }
    }
    text
}

fn facts(differences: &[FactDifference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut text = "Not the same in both runs:\n".to_owned();
    for difference in differences {
        let is_peer = difference.host == PEER;
        let end = if is_peer { " of the other end" } else { "" };
        let known = |value| Option::as_deref(value).unwrap_or("unknown");
        let (before, after) = (known(&difference.before), known(&difference.after));
        let _ = writeln!(text, "  {}{end}: {before} → {after}", difference.what);
    }
    text.push('\n');
    text
}

/// What was asked about first: what became worse, most of all first, then what became better, then
/// what did neither in the order of the plan.
pub(crate) fn in_order(rows: &[Compared]) -> Vec<&Compared> {
    let mut rows: Vec<&Compared> = rows.iter().collect();
    let change = |row: &Compared| row.ratio.ln().abs();
    rows.sort_by(|a, b| {
        let by_verdict = order(a.verdict).cmp(&order(b.verdict));
        match a.verdict {
            Verdict::NoDifference => by_verdict,
            _ => by_verdict.then(change(b).total_cmp(&change(a))),
        }
    });
    rows
}

fn order(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Worse => 0,
        Verdict::Better => 1,
        Verdict::Differs => 2,
        Verdict::NoDifference => 3,
    }
}

pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Differs => "differs",
        Verdict::NoDifference => "-",
    }
}

fn table(rows: &[Compared], after: &Run) -> String {
    let numbers = ["before", "after", "ratio", "95 % interval", "would be seen"];
    let numbers = numbers.map(|name| (name, Align::Right));
    let mut grid = Grid::new([("", Align::Left); 2].into_iter().chain(numbers));
    for row in in_order(rows) {
        grid.add([
            word(row.verdict).to_owned(),
            what(row, after),
            row.unit.display(row.before.0),
            row.unit.display(row.after.0),
            format!("{:.3}", row.ratio),
            format!("{:.3}–{:.3}", row.ci95.0, row.ci95.1),
            percent(row.visible),
        ]);
    }
    grid.text()
}

pub(crate) fn percent(share: f64) -> String {
    match share {
        share if share.is_nan() => "unknown".to_owned(),
        share if share < 0.1 => format!("{:.1} %", 100.0 * share),
        share if share < 10.0 => format!("{:.0} %", 100.0 * share),
        _ => "more than tenfold".to_owned(),
    }
}

/// What the row is about, as the latency table calls it; another metric than the one that answers
/// the probe's question is named.
pub(crate) fn what(row: &Compared, after: &Run) -> String {
    let found = after.points.iter().find(|point| point.point == row.point);
    let label = found.and_then(|point| point.label.clone());
    let name = label.unwrap_or_else(|| named(&row.point, after));
    if found.is_some_and(|point| point.primary == row.metric) {
        return name;
    }
    format!("{name}: {}", row.metric)
}

fn named(point: &Point, run: &Run) -> String {
    short_point(point, run.probe(&point.probe))
}

/// How many rows mean what, in a sentence, and how far that can be trusted.
pub(crate) fn summary(comparison: &Comparison) -> String {
    let rows = &comparison.rows;
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let mut parts: Vec<String> = [Verdict::Worse, Verdict::Better, Verdict::Differs]
        .into_iter()
        .filter_map(|verdict| {
            let count = count(verdict);
            (count > 0).then(|| format!("{count} {}", word(verdict)))
        })
        .collect();
    let alike: Vec<f64> = rows
        .iter()
        .filter(|row| row.verdict == Verdict::NoDifference)
        .map(|row| row.visible)
        .collect();
    if !alike.is_empty() {
        let least = alike.iter().copied().fold(f64::INFINITY, f64::min);
        let most = alike.iter().copied().fold(0.0, f64::max);
        parts.push(format!(
            "{} with no difference seen, where a change by {} to {} would have been, nine times in ten",
            alike.len(),
            percent(least),
            percent(most)
        ));
    }
    let plural = if rows.len() == 1 { "" } else { "s" };
    let machine = if comparison.in_turns {
        "Both took turns, launch beside launch: what the machine did meanwhile met them alike."
    } else {
        "What the machine did between the runs is in their ratios: --interleave measures both in turns."
    };
    format!(
        "{} metric{plural} compared: {}. Verdicts hold for all rows together: of twenty comparisons of \
         what is the same, one has a false alarm. {machine}{}",
        rows.len(),
        parts.join(", "),
        core_shared(comparison)
    )
}

/// How many rows say what something else on the core left of them, and what that means.
fn core_shared(comparison: &Comparison) -> String {
    let shared = comparison.rows.iter().filter(|row| row.core_shared);
    let count = shared.clone().count();
    let alike = shared
        .filter(|row| row.selection == Selection::Shared)
        .count();
    let meaning = if comparison.in_turns {
        "Both sides met the same neighbours."
    } else {
        "Where such a row differs, the neighbours may be the reason: it is not called better or worse."
    };
    match count {
        0 => String::new(),
        1 => format!(
            "\n1 row was compared while something else used the core, since it was not alone for long \
             enough in both runs ({}). {meaning}",
            if alike == 1 {
                "shared with shared"
            } else {
                "all batches with all"
            }
        ),
        _ => format!(
            "\n{count} rows were compared while something else used the core, since it was not alone \
             for long enough in both runs ({alike} shared with shared, {} all batches with all). \
             {meaning}",
            count - alike
        ),
    }
}

/// Reasons, each with the points that it holds for.
pub(crate) fn refused(comparison: &Comparison, after: &Run) -> String {
    let refused = comparison.refused.iter();
    let reasons = by_reason(refused.map(|refused| (&refused.reason, named(&refused.point, after))));
    let lines = reasons.into_iter().map(|(reason, names)| {
        let names = names.join("; ");
        format!("\nNot compared, {reason}: {names}.\n")
    });
    lines.collect()
}

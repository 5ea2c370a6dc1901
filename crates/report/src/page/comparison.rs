//! The page of two runs, without scripts: whether the later run passes, what surely changed, and, folded, the
//! rest: the other rows and the differences between the machines.

use super::{SKIP, facts, html_file};
use crate::check::Word;
use crate::compare::outcome::Outcome;
use crate::compare::{
    Side, fact_name, head, in_order, interval, known, missing, only, percent, refused, share,
    trust, what, word,
};
use crate::document::{self, Part, folded};
use crate::grid::{Align, Grid};
use crate::run::machine;
use crate::text::{SENTENCES, shortened};
use costof_model::comparison::{FactDifference, Verdict};
use costof_model::{Compared, Comparison, Run, counted};
use maud::{Markup, html};

/// A table has at most this many rows; for a huge or hostile file, it says how many more there are.
const ROWS: usize = 3000;

/// The page of `after` compared with `before`.
pub fn page(
    before: Side<'_>,
    after: Side<'_>,
    comparison: &Comparison,
    outcome: &Outcome,
) -> String {
    // No single run stands for a group.
    let is_group = comparison.groups.is_some();
    let not_compared = [refused(comparison, after.run), only(comparison)].concat();
    let mut parts = vec![Part::Drawing(html! {
        p.outcome.(outcome_class(outcome)) { (outcome.line(None)) }
        @for line in head(comparison, after.run).lines() { p.headline { (line) } }
        dl.sides {
            dt { "before" } dd { @if is_group { code { (before.name) } } @else { (side(before)) } }
            dt { "after" } dd { @if is_group { code { (after.name) } } @else { (side(after)) } }
        }
        (ratios(comparison, after.run))
    })];
    parts.extend(Part::lines(&missing(comparison, after.run)));
    parts.extend(Part::folded("refused", "What was not compared", Part::lines(&not_compared)));
    parts.push(match is_group && comparison.facts.is_empty() {
        true => Part::Paragraph("quiet", "No fact separates the two groups.".to_owned()),
        false => facts_apart(&comparison.facts),
    });
    let how = [
        Part::paragraph(trust(comparison)),
        Part::Drawing(html! { @if !is_group { @for one in [before, after] { (made(one)) } } }),
    ];
    parts.extend(Part::folded("made", "How the runs were made, and how far to trust this", how));
    let title = "What became better or worse";
    html_file(
        "",
        title,
        &html! {
            (SKIP)
            header { h1 { (title) } }
            main #main { (document::page(&parts, 1)) }
        },
    )
}

fn outcome_class(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        Word::Pass => "better",
        Word::Fail => "worse",
        Word::CannotTell => "differs",
    }
}

/// The rows that surely changed, then the others, folded by verdict.
fn ratios(comparison: &Comparison, after: &Run) -> Markup {
    let unit = comparison.groups.as_ref().map_or("launch", |groups| groups.level.noun());
    let rows = in_order(&comparison.rows);
    let shown = &rows[..rows.len().min(ROWS)];
    let of = |verdict| shown.iter().filter(move |row| row.verdict == verdict);
    let changed: Vec<&Compared> =
        shown.iter().copied().filter(|row| row.verdict.is_change()).collect();
    let unchanged: Vec<&Compared> = of(Verdict::NoDifference).copied().collect();
    let blind: Vec<&Compared> = of(Verdict::CannotTell).copied().collect();
    let within = format!("{} unchanged within {}", unchanged.len(), share(comparison.matters));
    let cannot = format!("{} inconclusive", blind.len());
    let others = [("unchanged", within, unchanged), ("blind", cannot, blind)];
    html! {
        h2 { "After ÷ before" }
        p.key {
            span { i.z {} " the ratio with its 95 % interval" }
            span { "left of 1: smaller than before; right of 1: larger" }
            span { "click a row for its details" }
        }
        @if changed.is_empty() { p { "No row surely changed." } }
        @else { (on_axis(&changed, after, unit)) }
        @for (id, title, rows) in others {
            @if !rows.is_empty() { (folded(id, &title, &on_axis(&rows, after, unit))) }
        }
        @if rows.len() > ROWS { p.quiet { "and " (rows.len() - ROWS) " more, which costof compare --all lists" } }
    }
}

/// Rows with an axis of their own.
fn on_axis(rows: &[&Compared], after: &Run, unit: &str) -> Markup {
    let ruler = Ruler::over(rows);
    html! {
        div.ratios {
            div.r.ruler aria-hidden="true" {
                span.n {} span.w {}
                span.b { @for (at, text) in ruler.ticks() { i.t style={ "left:" (at) "%" } { (text) } } }
                span.x {} span.v {}
            }
            @for row in rows { (ratio(row, after, &ruler, unit)) }
        }
    }
}

fn side(side: Side<'_>) -> Markup {
    html! {
        code { (side.name) }
        @for line in machine(side.run).lines().filter(|line| !line.is_empty()) { div.quiet { (line) } }
        div.quiet { "started " (side.run.run.started) ", precision " (side.run.run.plan.precision)
            @if side.run.end.is_none() { "; it was interrupted" } }
    }
}

/// The facts that differ.
fn facts_apart(facts: &[FactDifference]) -> Part {
    let title = match facts.len() {
        0 => {
            return Part::Paragraph(
                "quiet",
                "Nothing else differs: the machines report the same facts.".to_owned(),
            );
        }
        1 => "What else differs: 1 fact".to_owned(),
        count => format!("What else differs: {count} facts"),
    };
    let mut grid = Grid::new(["fact", "before", "after"].map(|name| (name, Align::Left)));
    for one in facts.iter().take(facts::SHOWN) {
        let value = |value| shortened(known(value), SENTENCES);
        grid.add([fact_name(one), value(&one.before), value(&one.after)]);
    }
    let mut parts = vec![Part::Table(title.clone(), grid)];
    if facts.len() > facts::SHOWN {
        let more = facts.len() - facts::SHOWN;
        parts.push(Part::Paragraph("quiet", format!("and {more} more")));
    }
    Part::Folded { id: "facts", title, parts }
}

fn ratio(row: &Compared, after: &Run, ruler: &Ruler, unit: &str) -> Markup {
    let (low, high) = row.ci95;
    html! {
        details.r {
            summary {
                span.n { (what(row, after)) }
                span.w.(class(row.verdict)) { (word(row.verdict)) }
                span.b.(class(row.verdict)) {
                    i.o style={ "left:" (ruler.place(1.0)) "%" } {}
                    i.z style={ "left:" (ruler.place(low)) "%;width:"
                        (format!("{:.2}", ruler.place(high) - ruler.place(low))) "%" } {}
                    i.p style={ "left:" (ruler.place(row.ratio)) "%" } {}
                    @if low.ln() < -ruler.most { i.a { "◂" } }
                    @if high.ln() > ruler.most { i.a.h { "▸" } }
                }
                span.x { (format!("{:.3}", row.ratio)) small { (interval((low, high))) } }
                span.v { (row.unit.display(row.before.0)) " → " (row.unit.display(row.after.0)) }
            }
            div.m {
                dl {
                    dt { "Before" } dd { (row.unit.display(row.before.0)) " in " (counted(row.before.1, unit)) }
                    dt { "After" } dd { (row.unit.display(row.after.0)) " in " (counted(row.after.1, unit)) }
                    dt { "By chance alone" } dd { "where the true change is at most 1 %, a difference this large occurs in "
                        (format!("{:.2}", 100.0 * row.p)) " % of rows" }
                    dt { "Smallest detectable change" } dd { (percent(row.visible)) ", found in nine of ten comparisons" }
                    dt { "Point" } dd { (row.point) ": " (row.metric) }
                }
            }
        }
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Differs => "differs",
        Verdict::NoDifference | Verdict::CannotTell => "alike",
    }
}

fn made(side: Side<'_>) -> Markup {
    let run = &side.run.run;
    html! {
        p {
            code { (side.name) } ": run " code { (run.id) } ", seed " (run.seed)
            @for attempt in side.run.attempts.iter().rev().take(1) {
                ", costof " (attempt.costof) ", build " code { (shortened(&attempt.build, 24)) }
            }
            @if !run.command.is_empty() { br; "The command: " code { (shortened(&run.command.join(" "), SENTENCES)) } }
        }
    }
}

/// How costof computes ratios and verdicts.
/// A logarithmic axis around 1, as wide as the intervals, in percent of the column.
struct Ruler {
    /// The logarithm at both ends.
    most: f64,
}

/// The labels of the ticks, by how far the axis reaches at least.
const TICKS: [&[f64]; 5] = [
    &[0.98, 0.99, 1.0, 1.01, 1.02],
    &[0.95, 1.0, 1.05],
    &[0.9, 0.95, 1.0, 1.05, 1.1],
    &[0.8, 0.9, 1.0, 1.1, 1.25],
    &[0.5, 0.7, 1.0, 1.4, 2.0],
];

impl Ruler {
    /// No axis goes beyond this factor: an interval that does ends at the edge with an arrow.
    const MAX: f64 = 2.2;
    const MIN: f64 = 1.025;

    fn over(rows: &[&Compared]) -> Ruler {
        let ends = rows.iter().flat_map(|row| [row.ci95.0, row.ci95.1, row.ratio]);
        let far = ends.map(|end| end.ln().abs()).filter(|far| far.is_finite());
        let most = far.fold(Self::MIN.ln(), f64::max) * 1.05;
        Ruler { most: most.min(Self::MAX.ln()) }
    }

    fn place(&self, ratio: f64) -> f64 {
        let share = (ratio.ln() / self.most).clamp(-1.0, 1.0);
        // NaN: nothing is known.
        let share = if share.is_nan() { 0.0 } else { share };
        ((0.5 + share / 2.0) * 10_000.0).round() / 100.0
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let fits = |ticks: &&&[f64]| ticks.iter().all(|tick| tick.ln().abs() <= self.most);
        let ticks = TICKS.iter().rfind(fits).unwrap_or(&TICKS[0]).iter();
        ticks.map(|tick| (self.place(*tick), tick.to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Rules;
    use crate::compare::tests::row as compared;
    use costof_model::comparison::{Groups, Level, Refused};
    use costof_model::testing::run_without_facts as run;

    fn shown(comparison: &Comparison, run: &Run) -> String {
        let side = |name| Side { name, run };
        let outcome = Outcome::new("after", comparison, run, &Rules::default());
        page(side("old.jsonl"), side("new.jsonl"), comparison, &outcome)
    }

    #[test]
    fn rows_stand_in_the_order_of_their_verdicts_with_their_ratios() {
        let comparison = Comparison {
            rows: vec![
                compared("a.alike", 1.001, 0.01, Verdict::NoDifference),
                compared("a.worse", 1.08, 0.01, Verdict::Worse),
                compared("a.better", 0.9, 0.01, Verdict::Better),
                compared("a.blind", 0.9, 0.2, Verdict::CannotTell),
            ],
            matters: 0.05,
            ..Comparison::default()
        };
        let page = shown(&comparison, &run());
        let at =
            |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing: {page}"));
        let folded = at("<details class=\"section\"");
        assert!(at("FAIL: ") < at("MIXED") && at("MIXED") < at(">a.worse"));
        assert!(at(">a.worse") < at(">a.better") && at(">a.better") < folded);
        assert!(folded < at("a.alike") && at("a.alike") < at("a.blind"));
        for text in [
            "old.jsonl",
            "new.jsonl",
            "1.080",
            "1.069–1.091",
            "100 ns → 108 ns",
            "3 of 4 rows decided: 1 worse, 1 better, 1 unchanged",
        ] {
            at(text);
        }
        assert!(!page.contains("<script") && !page.contains("http://"));
    }

    #[test]
    fn groups_without_a_fact_between_them_are_no_two_machines() {
        let groups =
            Groups { level: Level::Hosts, before: 3, after: 3, in_pairs: false, row: None };
        let of = |groups| shown(&Comparison { groups, ..Comparison::default() }, &run());
        let (alike, groups) = ("the machines report the same facts", of(Some(groups)));
        assert!(groups.contains("No fact separates the two groups.") && !groups.contains(alike));
        assert!(of(None).contains(alike));
    }

    #[test]
    fn what_a_file_says_is_text() {
        let evil = "<script>alert(1)</script>\"'&";
        let mut run = run();
        run.run.id = evil.to_owned();
        run.run.command = vec![evil.to_owned()];
        let mut rows = vec![compared("a.x", 1.0, 0.1, Verdict::Differs)];
        rows[0].point.probe = evil.into();
        rows[0].metric = evil.into();
        let difference = FactDifference {
            host: "only".into(),
            what: evil.to_owned(),
            before: Some(evil.to_owned()),
            after: None,
        };
        let comparison = Comparison {
            facts: vec![difference],
            refused: vec![Refused {
                point: rows[0].point.clone(),
                metric: evil.into(),
                reason: evil.to_owned(),
            }],
            only_before: vec![rows[0].point.clone()],
            rows,
            ..Comparison::default()
        };
        let side = Side { name: evil, run: &run };
        let page = page(
            side,
            side,
            &comparison,
            &Outcome::new("after", &comparison, &run, &Rules::default()),
        );
        assert!(!page.contains("<script") && !page.contains("alert(1)<"), "{page}");
        assert!(page.matches("&lt;script&gt;").count() >= 8);
    }

    #[test]
    fn facts_that_differ_are_listed_and_none_is_said() {
        let mut comparison = Comparison {
            rows: vec![compared("a.x", 1.0, 0.1, Verdict::NoDifference)],
            ..Comparison::default()
        };
        assert!(shown(&comparison, &run()).contains("Nothing else differs"));
        comparison.facts.push(FactDifference {
            host: "only".into(),
            what: "kernel".to_owned(),
            before: Some("6.1".to_owned()),
            after: Some("6.2".to_owned()),
        });
        assert!(shown(&comparison, &run()).contains("<td>6.2</td>"));
    }

    #[test]
    fn what_lies_beyond_the_axis_has_an_arrow_on_its_side() {
        let arrows = |ratio: f64, half: f64| {
            let comparison = Comparison {
                rows: vec![compared("a.x", ratio, half, Verdict::Worse)],
                ..Comparison::default()
            };
            let page = shown(&comparison, &run());
            ["◂", "▸"].map(|arrow| page.contains(arrow))
        };
        assert_eq!(arrows(4.0, 0.1), [false, true]);
        assert_eq!(arrows(0.2, 0.1), [true, false]);
        assert_eq!(arrows(1.2, 0.1), [false, false]);
        assert_eq!(arrows(1.3, 0.9), [true, true]);
    }

    #[test]
    fn no_ratio_breaks_the_axis() {
        for (ratio, half) in
            [(1.0, 0.0), (1e300, 0.5), (f64::NAN, 0.1), (f64::INFINITY, 0.1), (0.0, 0.1)]
        {
            let rows = [compared("a.x", ratio, half, Verdict::Worse)];
            let ruler = Ruler::over(&rows.each_ref());
            assert!(ruler.most.is_finite() && ruler.most > 0.0);
            for value in [ratio, rows[0].ci95.0, rows[0].ci95.1] {
                assert!((0.0..=100.0).contains(&ruler.place(value)), "{ratio}");
            }
            assert!(ruler.ticks().len() >= 3);
        }
        let ruler = Ruler::over(&[&compared("a.x", 1.1, 0.02, Verdict::Worse)]);
        assert_eq!(ruler.place(1.0), 50.0);
        // A ratio and its inverse are equally far from one.
        assert!((ruler.place(1.1) + ruler.place(1.0 / 1.1) - 100.0).abs() < 1e-9);
    }
}

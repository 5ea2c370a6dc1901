//! The text of `costof qualify`: the verdict first.

use crate::check::{Case, Finding, Rules, Suite};
use crate::compare::percent;
use crate::document::{self, Part, first};
use crate::fleet::signed;
use crate::text::shortened;
use costof_model::qualified::{JudgedRow, LeftOut, Qualified, Verdict};
use costof_model::{MetricOfPoint, counted, span};
use std::collections::BTreeMap;

/// At most this many rows of a kind are shown.
const ROWS: usize = 4;
/// The longest name that is shown whole.
const NAME: usize = 100;

/// The verdict about a host, and what it rests on, in lines of at most this many columns.
pub fn text(of: &Qualified, rules: &Rules, columns: usize) -> String {
    let facts = of.facts.iter().map(|(what, how)| format!("{what} {how}"));
    let facts: Vec<String> = facts.map(|fact| shortened(&fact, NAME)).collect();
    let facts = match facts.join(", ") {
        none if none.is_empty() => none,
        facts => format!(" with {facts}"),
    };
    let against = format!(
        "{:.1} s, {}, against {}{facts}",
        of.seconds,
        counted(of.launches, "launch"),
        counted(of.hosts, "host")
    );
    let rows = [(Verdict::Fail, "failed"), (Verdict::Undecided, "inconclusive")];
    let rows = rows.into_iter().flat_map(|(verdict, word)| {
        let rows = of.rows.iter().filter(move |row| row.verdict == verdict);
        let rows = rows.map(|row| format!("{word}: {}", of_row(row)));
        first(rows, ROWS, "more rows (--json has them)")
    });
    let rows = rows.map(|row| format!("  {row}"));
    let lines: Vec<String> = [reason(of, rules), against]
        .into_iter()
        .chain(rows)
        .chain(left(of))
        .chain(left_out(of))
        .collect();
    let parts = [lines.join("\n"), risks(of)].map(Part::paragraph);
    document::text(&parts, columns)
}

/// The verdict in one line.
pub fn reason(of: &Qualified, rules: &Rules) -> String {
    let change = percent(of.risks.change);
    let within = of.rows.iter().filter(|row| row.verdict == Verdict::Pass).count();
    let reason = match within {
        0 => format!("no row shows that it is not {change} worse"),
        some => format!("{some} are not {change} worse"),
    };
    check(of, rules).line(&reason)
}

/// Whether each judged row is as those of other hosts are.
pub fn check(of: &Qualified, rules: &Rules) -> Suite {
    let cases = of.rows.iter().map(|row| Case {
        name: name(&row.of),
        probe: Some(row.of.point.probe.clone()),
        finding: match row.verdict {
            Verdict::Pass => Finding::Pass,
            Verdict::Fail => Finding::Fail(how(row)),
            Verdict::Undecided => Finding::Undecided(how(row)),
        },
    });
    Suite::new("qualify", "row", cases.collect(), rules)
}

/// A row's name, however long it is.
pub fn name(of: &MetricOfPoint) -> String {
    shortened(&of.name(), NAME)
}

fn of_row(row: &JudgedRow) -> String {
    format!("{} {}", name(&row.of), how(row))
}

/// How a row is, beside the usual.
fn how(row: &JudgedRow) -> String {
    let (Some(here), Some(worse), Some((low, high))) = (row.here, row.worse, row.worse_ci95) else {
        let launches = counted(row.launches, "launch");
        return format!("has no number to conclude from, after {launches}");
    };
    let [here, usual] = [here, row.usual].map(|value| row.of.unit.display(value));
    format!(
        "is {} ({}): {here}, usually {usual}",
        signed(worse),
        span(&percent(low), " to ", &percent(high))
    )
}

/// What more time would decide.
fn left(of: &Qualified) -> Option<String> {
    let open: Vec<&JudgedRow> =
        of.rows.iter().filter(|row| row.verdict == Verdict::Undecided).collect();
    let decidable = open.iter().filter(|row| row.launches_left.is_some()).count();
    let noisy = open.iter().filter(|row| row.worse.is_none() && row.launches_left.is_none());
    (of.verdict == Verdict::Undecided && !open.is_empty()).then(|| match decidable {
        0 if noisy.count() == open.len() => {
            "Other processes or machines disturb this one: measure it when it is idle (--wait-quiet)".to_owned()
        }
        0 => "More time decides none of them, if they stay as they are: they lie between the usual and the change"
            .to_owned(),
        some => format!(
            "About {:.0} s more decide {some} of them, if they stay as they are",
            of.seconds_left.ceil()
        ),
    })
}

/// Which rows were not judged.
fn left_out(of: &Qualified) -> Vec<String> {
    let mut reasons: BTreeMap<Option<&str>, Vec<&LeftOut>> = BTreeMap::new();
    for row in &of.left_out {
        reasons.entry(row.why.as_deref()).or_default().push(row);
    }
    let lines = reasons.into_iter().map(|(why, rows)| match why {
        Some(why) => format!("not judged: {} ({}): {why}", counted(rows.len(), "row"), name(&rows[0].of)),
        None => {
            let mut changes: Vec<f64> = rows.iter().map(|row| row.change).collect();
            changes.sort_by(f64::total_cmp);
            format!(
                "not judged: {}: these hosts or their runs differ too much in them, or were too disturbed, to show {}; half of them can show {} (--change)",
                counted(rows.len(), "row"),
                percent(of.risks.change),
                percent(changes[changes.len() / 2])
            )
        }
    });
    lines.collect()
}

/// Why no row can be judged: in this one, hosts differ least.
pub fn too_different(row: &LeftOut, change: f64) -> String {
    format!(
        "no row can show that a host is {} worse: the reference's hosts or their runs differ too much, or were too disturbed. {} can show {} (--change)",
        percent(change),
        name(&row.of),
        percent(row.change)
    )
}

fn risks(of: &Qualified) -> String {
    let [change, producer, consumer] =
        [of.risks.change, of.risks.producer, of.risks.consumer].map(percent);
    format!(
        "A host like these fails with a probability of at most {producer}. One that is {change} worse in a row passes that row with at most {consumer}."
    )
}

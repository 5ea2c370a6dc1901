//! The text of `costof fleet`: one screen, odd hosts first.

use crate::compare::percent;
use crate::text::{hanging, printable_lines, wrapped};
use costof_model::fleet::{Cohort, Deviation, Fleet, Host, Verdict};
use std::collections::BTreeMap;

/// At most this many rows of a host are shown.
const ROWS: usize = 4;
/// At most this many facts of a host are shown.
const FACTS: usize = 4;

/// What is odd about a fleet, in lines of at most this many columns.
pub fn text(fleet: &Fleet, columns: usize) -> String {
    let cohorts = fleet
        .cohorts
        .iter()
        .map(|cohort| of_cohort(cohort, columns));
    let mut text = cohorts.collect::<Vec<_>>().join("\n");
    let percent = fleet.false_share * 100.0;
    let rule = format!("Of hosts called odd, at most {percent:.0} % are not, in the long run.");
    text.push_str(&format!("\n{}", wrapped(columns, &rule, "")));
    printable_lines(&text)
}

/// One line for each host that is odd: its name, and the reason as a scheduler records it.
pub fn reasons(fleet: &Fleet) -> String {
    let odd = odd(fleet);
    let lines = odd.map(|host| format!("{} costof: {}\n", host.name, reason(host)));
    printable_lines(&lines.collect::<String>())
}

/// The hosts that are odd.
pub fn odd(fleet: &Fleet) -> impl Iterator<Item = &Host> {
    let hosts = fleet.cohorts.iter().flat_map(|cohort| &cohort.hosts);
    hosts.filter(|host| host.verdict.is_odd())
}

fn of_cohort(cohort: &Cohort, columns: usize) -> String {
    let odd: Vec<&Host> = cohort
        .hosts
        .iter()
        .filter(|host| host.verdict.is_odd())
        .collect();
    let mut text = wrapped(columns, &head(cohort), "");
    for host in odd {
        text.push_str(&of_odd(host, columns));
    }
    for (verdict, why) in [
        (Verdict::Undecided, undecided(cohort)),
        (Verdict::Normal, String::new()),
    ] {
        let hosts = cohort.hosts.iter().filter(|host| host.verdict == verdict);
        let names: Vec<&str> = hosts.map(|host| host.name.as_str()).collect();
        if !names.is_empty() {
            let head = format!("\n{:9}  ", verdict.word());
            let line = format!("{} ({}){why}", folded(&names), names.len());
            text.push_str(&hanging(columns, &head, &line));
        }
    }
    if let Some(share) = cohort.detectable {
        let line = format!(
            "A typical row shows a deviation of {} or more.",
            percent(share)
        );
        text.push_str(&format!("\n{}", wrapped(columns, &line, "")));
    }
    text
}

/// How many hosts a cohort has, what they have in common, and how many are odd.
pub(crate) fn head(cohort: &Cohort) -> String {
    let odd = cohort
        .hosts
        .iter()
        .filter(|host| host.verdict.is_odd())
        .count();
    let facts = cohort
        .facts
        .iter()
        .map(|(what, value)| format!("{what} {value}"));
    let facts = facts.collect::<Vec<_>>().join(", ");
    let facts = if facts.is_empty() {
        facts
    } else {
        format!(" with {facts}")
    };
    let count = cohort.hosts.len();
    let odd_count = match odd {
        0 => "none is odd".to_owned(),
        1 => "1 is odd".to_owned(),
        more => format!("{more} are odd"),
    };
    let hosts = if count == 1 { "host" } else { "hosts" };
    format!(
        "{count} {hosts}{facts}, {} rows: {odd_count}",
        cohort.rows.len()
    )
}

/// Why hosts of a cohort are undecided.
pub(crate) fn undecided(cohort: &Cohort) -> String {
    if cohort.rows.is_empty() {
        let enough = "five hosts must have a row of grade A to C for it to be judged";
        return format!(": too few to compare; {enough}");
    }
    ": their own noise hides what the others could have shown: measure them longer (--full) or more often".to_owned()
}

fn of_odd(host: &Host, columns: usize) -> String {
    let head = format!("\n{:9}  ", host.verdict.word());
    let mut text = hanging(columns, &head, &format!("{}: {}", host.name, reason(host)));
    for row in host.deviations.iter().take(ROWS) {
        text.push_str(&wrapped(columns, &of_row(row), "           "));
    }
    if host.deviations.len() > ROWS {
        let more = format!(
            "and {} more rows (--json has them)",
            host.deviations.len() - ROWS
        );
        text.push_str(&wrapped(columns, &more, "           "));
    }
    for (what, here, usual) in host.facts.iter().take(FACTS) {
        let line = format!("{what}: {here}, where most have {usual}");
        text.push_str(&wrapped(columns, &line, "           "));
    }
    text
}

pub(crate) fn of_row(row: &Deviation) -> String {
    let [here, usual] = [row.here, row.usual].map(|value| row.of.unit.display(value));
    let name = row.of.name();
    format!("{name}: {here}, usually {usual} ({})", signed(row.worse))
}

/// What is odd about a host, in one line.
pub(crate) fn reason(host: &Host) -> String {
    let layers = host.layers.iter().map(|layer| {
        format!(
            "all {} {} rows {}",
            layer.rows,
            layer.layer,
            signed(layer.worse)
        )
    });
    let parts: Vec<String> = layers.collect();
    let outside = host.deviations.iter().filter(|row| {
        let layer = row.of.point.layer();
        host.layers.iter().all(|whole| whole.layer != layer)
    });
    let outside: Vec<&Deviation> = outside.collect();
    let rest = match &outside[..] {
        [] => None,
        [row] => Some(of_row(row)),
        rows => Some(format!(
            "{} rows, most of all {}",
            rows.len(),
            of_row(rows[0])
        )),
    };
    parts.into_iter().chain(rest).collect::<Vec<_>>().join("; ")
}

/// `12 % worse`.
pub(crate) fn signed(worse: f64) -> String {
    let word = if worse > 0.0 { "worse" } else { "better" };
    format!("{} {word}", percent(worse.abs()))
}

/// Names of hosts, those alike but for a number as one: `node[01-03,07], login`.
pub fn folded(names: &[&str]) -> String {
    let mut alike: BTreeMap<(&str, usize, &str), Vec<u64>> = BTreeMap::new();
    let mut others: Vec<String> = Vec::new();
    for name in names {
        let end = name
            .rfind(|c: char| c.is_ascii_digit())
            .map(|last| last + 1);
        let digits = end.map(|end| {
            name[..end]
                .bytes()
                .rev()
                .take_while(u8::is_ascii_digit)
                .count()
        });
        let number = end.zip(digits).and_then(|(end, digits)| {
            let number = name[end - digits..end].parse().ok()?;
            Some(((&name[..end - digits], digits, &name[end..]), number))
        });
        match number {
            Some((parts, number)) => alike.entry(parts).or_default().push(number),
            None => others.push((*name).to_owned()),
        }
    }
    let sets = alike
        .into_iter()
        .map(|((before, digits, after), mut numbers)| {
            numbers.sort_unstable();
            match &numbers[..] {
                [one] => format!("{before}{one:0digits$}{after}"),
                _ => format!("{before}[{}]{after}", ranges(&numbers, digits)),
            }
        });
    let mut all: Vec<String> = sets.chain(others).collect();
    all.sort();
    all.join(", ")
}

/// `01-03,07`, of numbers in ascending order.
fn ranges(numbers: &[u64], digits: usize) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let runs = runs.map(|run| match run {
        [one] => format!("{one:0digits$}"),
        [first, .., last] => format!("{first:0digits$}-{last:0digits$}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_folded_into_sets() {
        for (names, text) in [
            (
                &["node03", "node01", "node02", "node07"][..],
                "node[01-03,07]",
            ),
            (&["n9", "n10", "n11"], "n9, n[10-11]"),
            (&["rack1-a", "rack2-a", "login"], "login, rack[1-2]-a"),
            (&["99999999999999999999999"], "99999999999999999999999"),
            (&[], ""),
        ] {
            assert_eq!(folded(names), text);
        }
    }
}

//! The text of `costof fleet`: one screen, odd hosts first.

use crate::compare::percent;
use crate::text::{hanging, printable_lines, wrapped};
use costof_model::fleet::{Cohort, Deviation, Fleet, Host, Statistic, Verdict, own_quota};
use costof_model::node_set::folded;
use costof_model::plural::counted;

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

/// One line for each host that is odd: its name as one word, and the reason as a scheduler records it.
pub fn reasons(fleet: &Fleet) -> String {
    let odd = odd(fleet);
    let lines = odd.map(|host| format!("{} costof: {}\n", word(&host.name), reason(host)));
    printable_lines(&lines.collect::<String>())
}

/// A name that is one word to a script, and no option or pattern: a run file may come from anybody.
fn word(name: &str) -> String {
    let letters = name.chars().map(|c| match c {
        '.' | '-' | '_' => c,
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    });
    let word = letters.collect::<String>();
    match word.chars().next() {
        None | Some('.' | '-') => format!("_{word}"),
        Some(_) => word,
    }
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
    let (hosts, rows) = (counted(count, "host"), counted(cohort.rows.len(), "row"));
    format!("{hosts}{facts}, {rows}: {odd_count}")
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
    let what = in_the_mean(row.statistic);
    format!(
        "{name}: {here}{what}, usually {usual} ({})",
        signed(row.worse)
    )
}

fn in_the_mean(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Median => "",
        Statistic::Mean => " in the mean",
    }
}

/// What is odd about a host, in one line.
pub(crate) fn reason(host: &Host) -> String {
    let layers = host.layers.iter().map(|layer| {
        format!(
            "all {} {} rows {}{}",
            layer.rows,
            layer.layer,
            signed(layer.worse),
            in_the_mean(layer.statistic)
        )
    });
    let quota = own_quota(&host.facts).map(|quota| format!("a CPU quota of {quota} holds it back"));
    let parts: Vec<String> = quota.into_iter().chain(layers).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_name_is_one_plain_word_to_a_script() {
        for (name, shown) in [
            ("node-03.rack_1", "node-03.rack_1"),
            ("$(reboot)", "__reboot_"),
            ("-rf /", "_-rf__"),
            ("n[1-1000],*", "n_1-1000___"),
            ("a b\nc", "a_b_c"),
            ("..", "_.."),
            ("", "_"),
        ] {
            assert_eq!(word(name), shown, "{name:?}");
        }
    }
}

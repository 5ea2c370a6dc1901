//! What `costof fleet` shows, odd hosts first: on a terminal one screen, on a page, without scripts, a heat map of
//! hosts and rows for each cohort and what is known of each host.

use crate::check::{Case, Finding, Rules, Suite};
use crate::compare::percent;
use crate::compare::summary::{Summary, summary};
use crate::document::{self, Entry, Part, first};
use crate::page::html_file;
use crate::text::printable_lines;
use costof_model::comparison::Comparison;
use costof_model::fleet::{Cohort, Deviation, Fleet, Host, Statistic, Verdict, own_quota};
use costof_model::node_set::folded;
use costof_model::plural::counted;
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// At most this many rows of a host are shown.
const ROWS: usize = 4;
/// At most this many facts of a host are shown.
const FACTS: usize = 4;
/// At most this many hosts that are not odd have their own section on a page.
const HOSTS: usize = 2000;
/// A cell of the heat map is drawn from this deviation on, and darker from each of the others.
const STEPS: [f64; 4] = [0.02, 0.05, 0.1, 0.2];

/// What is odd about a fleet, in lines of at most this many columns.
pub fn text(fleet: &Fleet, columns: usize) -> String {
    let mut parts = parts(fleet);
    parts.push(Part::paragraph(rule(fleet)));
    document::text(&parts, columns)
}

/// The page of a fleet.
pub fn page(fleet: &Fleet) -> String {
    let title = match odd(fleet).count() {
        0 => "No host is odd".to_owned(),
        1 => "One host is odd".to_owned(),
        more => format!("{more} hosts are odd"),
    };
    let content = html! {
        main {
            h1 { (title) }
            p.quiet { (rule(fleet)) }
            (document::page(&parts(fleet), 1))
        }
    };
    html_file("", &title, &content)
}

fn rule(fleet: &Fleet) -> String {
    let percent = fleet.false_share * 100.0;
    format!("Of hosts called odd, at most {percent:.0} % are not, in the long run.")
}

/// Whether the hosts belong.
pub fn check(fleet: &Fleet, rules: &Rules) -> Suite {
    let cases = fleet.cohorts.iter().flat_map(|cohort| &cohort.hosts).map(|host| Case {
        name: host.name.clone(),
        probe: None,
        finding: match host.verdict {
            Verdict::Normal => Finding::Pass,
            Verdict::Undecided => Finding::Undecided(
                "its noise, or too few hosts, hide what others could have shown".to_owned(),
            ),
            _ => Finding::Fail(format!("{}: {}", costof_model::word(host.verdict), reason(host))),
        },
    });
    Suite::new("fleet", "host", cases.collect(), rules)
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

fn parts(fleet: &Fleet) -> Vec<Part> {
    let cohorts = fleet.cohorts.iter().enumerate().flat_map(|(at, cohort)| of_cohort(at, cohort));
    fleet.partings.iter().flat_map(of_groups).chain(cohorts).collect()
}

/// What differs between two groups of hosts, in three lines.
fn of_groups(comparison: &Comparison) -> [Part; 2] {
    let Summary { verdict, lines: [first, rows, open] } = summary_of(comparison);
    [Part::Heading(2, format!("{verdict}  {first}")), Part::List("", vec![rows, open])]
}

/// The summary of two groups of hosts, which need not differ in a fact.
pub fn summary_of(comparison: &Comparison) -> Summary {
    let row = comparison.groups.as_ref().and_then(|groups| groups.row.as_deref());
    let by = row.map(|row| format!(", found by {row}")).unwrap_or_default();
    summary(comparison, &format!("two populations, parted by no recorded fact{by}"), None)
}

fn of_cohort(at: usize, cohort: &Cohort) -> Vec<Part> {
    let typical = cohort.detectable.map(|share| {
        let share = percent(share);
        format!("A typical row shows a deviation of {share} or more.")
    });
    let typical = || typical.clone().map(Part::paragraph).into_iter().collect();
    let mut parts = vec![Part::Heading(2, head(cohort)), Part::Document(typical())];
    if !cohort.rows.is_empty() {
        parts.push(Part::Drawing(map(at, cohort)));
    }
    let in_state = |verdict: Option<Verdict>| {
        let hosts = cohort.hosts.iter().enumerate();
        let is_it = move |host: &Host| match verdict {
            Some(verdict) => host.verdict == verdict,
            None => host.verdict.is_odd(),
        };
        hosts.filter(move |(_, host)| is_it(host))
    };
    let entry = |(number, host)| Part::Entry(of_host(at, number, host));
    parts.extend(in_state(None).map(entry));
    for (verdict, why) in
        [(Verdict::Undecided, undecided(cohort)), (Verdict::Normal, String::new())]
    {
        let names: Vec<&str> =
            in_state(Some(verdict)).map(|(_, host)| host.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let (count, all) = (names.len(), folded(&names));
        parts.push(Part::Terminal(vec![Part::Entry(Entry {
            label: label(verdict),
            name: format!("{all} ({count}){why}"),
            ..Entry::default()
        })]));
        let heading = Part::Heading(3, format!("{count} {}", costof_model::word(verdict)));
        let head = [heading, Part::paragraph(all + &why)].into_iter();
        let each = in_state(Some(verdict)).take(HOSTS).map(entry);
        parts.push(Part::Document(head.chain(each).collect()));
    }
    parts.push(Part::Terminal(typical()));
    parts
}

/// The word of a verdict, in a column of such words.
fn label(verdict: Verdict) -> String {
    format!("{:12}", costof_model::word(verdict))
}

/// How many hosts a cohort has, what they have in common, and how many are odd.
fn head(cohort: &Cohort) -> String {
    let odd = cohort.hosts.iter().filter(|host| host.verdict.is_odd()).count();
    let facts = cohort.facts.iter().map(|(what, value)| format!("{what} {value}"));
    let facts = facts.collect::<Vec<_>>().join(", ");
    let facts = if facts.is_empty() { facts } else { format!(" with {facts}") };
    let count = cohort.hosts.len();
    let odd_count = match odd {
        0 => "none is odd".to_owned(),
        1 => "1 is odd".to_owned(),
        more => format!("{more} are odd"),
    };
    let (hosts, rows) = (counted(count, "host"), counted(cohort.rows.len(), "row"));
    format!("{hosts}{facts}, {rows}: {odd_count}")
}

/// Why hosts of a cohort are inconclusive.
fn undecided(cohort: &Cohort) -> String {
    if cohort.rows.is_empty() {
        let enough = "five hosts must have a row of grade A to C for it to be judged";
        return format!(": too few to compare; {enough}");
    }
    ": their own noise hides what the others could have shown: measure them longer (--full) or more often".to_owned()
}

fn of_host(at: usize, number: usize, host: &Host) -> Entry {
    let rows = || host.deviations.iter().map(of_row);
    let facts = || {
        let facts = host.facts.iter();
        facts.map(|(what, here, usual)| format!("{what}: {here}, where most have {usual}"))
    };
    let mut some = first(rows(), ROWS, "more rows (--json has them)");
    some.extend(facts().take(FACTS));
    let all = vec![Part::List("", rows().chain(facts()).collect())];
    Entry {
        id: Some(id(at, number)),
        label: label(host.verdict),
        name: host.name.clone(),
        about: if host.verdict.is_odd() { reason(host) } else { String::new() },
        is_open: host.verdict.is_odd(),
        details: vec![Part::Terminal(vec![Part::List("", some)]), Part::Document(all)],
    }
}

/// What a page refers to a host by.
fn id(cohort: usize, host: usize) -> String {
    format!("host-{cohort}-{host}")
}

fn of_row(row: &Deviation) -> String {
    let [here, usual] = [row.here, row.usual].map(|value| row.of.unit.display(value));
    let name = row.of.name();
    let what = in_the_mean(row.statistic);
    format!("{name}: {here}{what}, usually {usual} ({})", signed(row.worse))
}

fn in_the_mean(statistic: Statistic) -> &'static str {
    match statistic {
        Statistic::Median => "",
        Statistic::Mean => " in the mean",
    }
}

/// What is odd about a host, in one line.
fn reason(host: &Host) -> String {
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
        rows => Some(format!("{} rows, most of all {}", rows.len(), of_row(rows[0]))),
    };
    parts.into_iter().chain(rest).collect::<Vec<_>>().join("; ")
}

/// `12 % worse`.
pub(crate) fn signed(worse: f64) -> String {
    let word = if worse > 0.0 { "worse" } else { "better" };
    format!("{} {word}", percent(worse.abs()))
}

/// The heat map: one square a cell, in paths by their colour, and a link over each line.
fn map(at: usize, cohort: &Cohort) -> Markup {
    let mut paths = vec![String::new(); 2 * STEPS.len()];
    let (columns, lines) = (cohort.rows.len(), cohort.hosts.len());
    for (line, host) in cohort.hosts.iter().enumerate() {
        for (column, worse) in host.worse.iter().enumerate() {
            let Some(step) =
                worse.and_then(|worse| STEPS.iter().rposition(|step| worse.abs() >= *step))
            else {
                continue;
            };
            let is_better = worse.is_some_and(|worse| worse < 0.0);
            let path = &mut paths[2 * step + usize::from(is_better)];
            let _ = write!(path, "M{column} {line}h1v1h-1z");
        }
    }
    let height = (lines * 14).clamp(40, 1600);
    let mut svg = format!(
        "<svg class=heat viewBox=\"0 0 {columns} {lines}\" height={height} preserveAspectRatio=none role=group \
         aria-label=\"Deviations of {lines} hosts in {columns} rows\" shape-rendering=crispEdges>"
    );
    for (position, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let class = if position % 2 == 0 { "w" } else { "b" };
        let opacity = 0.25 * (position / 2 + 1) as f64;
        let _ = write!(svg, "<path class={class} opacity={opacity} d=\"{path}\"/>");
    }
    let links = html! {
        @for (number, host) in cohort.hosts.iter().enumerate().take(HOSTS) {
            a href={ "#" (id(at, number)) } {
                title { (host.name) ": " (costof_model::word(host.verdict)) }
                rect y=(number) width=(columns) height="1" {}
            }
        }
    };
    html! {
        (PreEscaped(format!("{svg}{}</svg>", links.into_string())))
        p.quiet {
            "A line is a host, the oddest at the top; a column is a row. Red is worse than usual, green better, from "
            (STEPS.map(percent).join(", ")) " on. A line leads to its host below."
        }
    }
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

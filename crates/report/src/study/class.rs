//! The runs of a class on one page: how each row of a study spreads over its machines and the predictions, where the
//! class was most wrong, and which machines stand out. No machine has a name, unless it is given one.

use super::file::Study;
use super::guess::{in_unit, too_far};
use super::reproduction::{ReproducedTable, Reproduction};
use super::result::Line;
use super::unit::Published;
use crate::document::{self, Part, scroll};
use crate::grid::{Align, Grid};
use crate::page::html_file;
use costof_model::rows::Guess;
use costof_model::{Run, counted};
use costof_stats::{median, quantile};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// So many rows on which the class was most wrong are named.
const WRONG: usize = 3;
/// Fewer machines do not show which of them stands out.
const MIN_MACHINES: usize = 5;
/// A machine stands out on a row that is off the median by more than this factor, and by more than this many times the
/// typical distance from it.
const FACTOR: f64 = 2.0;
const DISTANCES: f64 = 5.0;
/// A fact that at most this share of the class has may be why a machine stands out.
const RARE: f64 = 0.25;
/// The decades on either side of the median that are drawn.
const DECADES: f64 = 2.0;
/// A drawing's width and margin.
const WIDTH: f64 = 400.0;
const MARGIN: f64 = 8.0;

/// The facts by which machines are grouped.
const FACTS: [&str; 3] = ["CPU", "virtual machine", "kernel"];

/// A study, and the runs of a class.
pub struct Class<'a> {
    study: &'a Study,
    members: Vec<Member>,
    /// The runs that have no number of the study.
    empty: usize,
}

/// A run of the class.
struct Member {
    name: String,
    /// The values of [`FACTS`].
    facts: [String; 3],
    /// Says nothing about its file or its time.
    order: u64,
    tables: Vec<ReproducedTable>,
    guesses: Vec<Guess>,
}

/// A row of the study over the class.
struct Row<'c> {
    table: &'c str,
    name: &'c str,
    unit: Published,
    /// The sound number of each member.
    values: Vec<Option<f64>>,
    guesses: Vec<f64>,
    published: Option<(f64, f64)>,
    median: f64,
    why: String,
}

/// The values of a fact, each with the machines that have it.
type Groups<'c> = BTreeMap<&'c str, Vec<usize>>;

/// A number for the order of machines that are alike.
fn order(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.run.id.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Class<'a> {
    /// The class of these runs, each compared with the study, and its name if machines are to be named.
    pub fn new(study: &'a Study, runs: Vec<(Option<String>, &Run, Reproduction<'a>)>) -> Class<'a> {
        let (mut members, mut empty): (Vec<Member>, usize) = (Vec::new(), 0);
        for (name, run, reproduction) in runs {
            let Reproduction { tables, guesses, .. } = reproduction;
            let mut lines = tables.iter().flat_map(|table| &table.lines);
            if !lines.any(|line| line.has_number) {
                empty += 1;
                continue;
            }
            let name = name.unwrap_or_default();
            let order = order(run);
            members.push(Member { name, facts: facts(run), order, tables, guesses });
        }
        // By what they are: the order of the files would tell who is who.
        members.sort_by(|one, other| {
            (&one.facts, &one.name, one.order).cmp(&(&other.facts, &other.name, other.order))
        });
        for (at, member) in members.iter_mut().enumerate().filter(|(_, own)| own.name.is_empty()) {
            member.name = format!("machine {}", at + 1);
        }
        Class { study, members, empty }
    }

    /// The text for a terminal, in lines of at most this many columns.
    pub fn text(&self, columns: usize) -> String {
        document::text(&self.parts(), columns)
    }

    /// The page.
    pub fn page(&self) -> String {
        let parts = document::page(&self.parts(), 1);
        html_file("", &format!("A class: {}", self.study.title), &html! { main { (parts) } })
    }

    fn parts(&self) -> Vec<Part> {
        let rows = self.rows();
        let section = |title: &str, lines: Vec<String>, none: &str| {
            let lines = if lines.is_empty() { vec![none.to_owned()] } else { lines };
            [Part::Heading(2, title.to_owned()), Part::List("", lines)]
        };
        let predicted = self.members.iter().filter(|member| !member.guesses.is_empty()).count();
        let head = format!(
            "{}, {predicted} with predictions; a number of grade D or without a usable interval is left out",
            counted(self.members.len(), "run")
        );
        let empty =
            format!("Left out: {} without a number of this study", counted(self.empty, "run"));
        let unread = self.unread_guesses();
        let other = format!(
            "Left out: {} of rows or in units that this study does not have",
            counted(unread, "prediction")
        );
        let left_out = [(self.empty, empty), (unread, other)].into_iter();
        let left_out = left_out.filter(|(count, _)| *count > 0).map(|(_, line)| line);
        let mut parts = vec![
            Part::Heading(1, format!("A class: {}", self.study.title)),
            Part::List("", [head].into_iter().chain(left_out).collect()),
        ];
        parts.extend(section(
            "Where the class was most wrong",
            most_wrong(&rows),
            "No run has predictions of a row that has a number",
        ));
        let few =
            format!("Fewer than {MIN_MACHINES} machines do not show which of them is unusual");
        let none = if self.members.len() < MIN_MACHINES { &*few } else { "None" };
        parts.extend(section("Machines that stand out", self.outliers(&rows), none));
        parts.push(Part::Heading(2, "Each row over the class".to_owned()));
        parts.push(Part::Terminal(vec![Part::Table("Rows".to_owned(), spread(&rows))]));
        parts.push(Part::Drawing(drawn(&rows)));
        let (mut shared, mut differing) = (Vec::new(), Vec::new());
        for (at, fact) in FACTS.into_iter().enumerate() {
            let groups = self.groups(at);
            if let [(value, _)] = groups.iter().collect::<Vec<_>>()[..] {
                shared.push(format!("The same for all: {fact}: {value}"));
                continue;
            }
            differing.push(at);
            parts.push(Part::Heading(2, format!("Medians by {fact}")));
            parts.push(Part::Table(format!("Medians by {fact}"), by_fact(&rows, &groups)));
        }
        parts.push(Part::Heading(2, "The machines".to_owned()));
        parts.push(Part::List("", shared));
        parts.push(Part::Table("The machines".to_owned(), self.machines(&rows, &differing)));
        parts
    }

    /// How many predictions are of no row of the study, or in a unit that measures something else.
    fn unread_guesses(&self) -> usize {
        let guesses = self.members.iter().flat_map(|member| {
            let is_read = |guess: &&Guess| {
                let tables = member.tables.iter().filter(|table| table.title == guess.table);
                let mut lines = tables.flat_map(|table| &table.lines);
                let line = lines.find(|line| line.name == guess.row);
                let unit = line.map(|line| line.numbers.map(|numbers| numbers.unit));
                unit.is_some_and(|unit| unit.is_none_or(|unit| in_unit(guess, unit).is_ok()))
            };
            member.guesses.iter().filter(move |guess| !is_read(guess))
        });
        guesses.count()
    }

    /// The rows of which some machine has a sound number. What several publications measured is one row.
    fn rows(&self) -> Vec<Row<'_>> {
        let tables = self.members.first().map_or(&[][..], |member| &member.tables);
        let places = tables.iter().enumerate();
        let places =
            places.flat_map(|(at, table)| (0..table.lines.len()).map(move |line| (at, line)));
        let mut rows: Vec<Row<'_>> = Vec::new();
        for row in places.filter_map(|(table, line)| self.row(table, line)) {
            let is_known = |known: &Row<'_>| (&known.values, known.unit) == (&row.values, row.unit);
            if !rows.iter().any(is_known) {
                rows.push(row);
            }
        }
        rows
    }

    fn row(&self, table: usize, line: usize) -> Option<Row<'_>> {
        let lines = || self.members.iter().map(|member| &member.tables[table].lines[line]);
        let numbers: Vec<_> = lines().map(|line| line.scored().ok()).collect();
        let values: Vec<_> = numbers.iter().map(|numbers| Some((*numbers)?.here)).collect();
        let median = median(&values.iter().flatten().copied().collect::<Vec<f64>>())?;
        let first = numbers.iter().flatten().next()?;
        let (table, line): (_, &Line) = (&self.members[0].tables[table], lines().next()?);
        let is_it = |guess: &&Guess| guess.is_of(&table.title, &line.name);
        let guesses = self.members.iter().filter_map(|member| member.guesses.iter().find(is_it));
        let guesses = guesses.filter_map(|guess| in_unit(guess, first.unit).ok());
        Some(Row {
            table: &table.title,
            name: &line.name,
            unit: first.unit,
            guesses: guesses.collect(),
            published: first.published,
            why: lines().find(|line| line.why.is_some()).unwrap_or(line).reason(),
            median,
            values,
        })
    }

    /// The machines that are far from the median of a row, and what may be why.
    fn outliers(&self, rows: &[Row<'_>]) -> Vec<String> {
        let far: Vec<Vec<Option<f64>>> = rows.iter().map(Row::far).collect();
        let members = self.members.iter().enumerate().filter_map(|(at, member)| {
            let mut off: Vec<(&Row<'_>, f64)> =
                rows.iter().zip(&far).filter_map(|(row, far)| Some((row, far[at]?))).collect();
            off.sort_by(|one, other| other.1.ln().abs().total_cmp(&one.1.ln().abs()));
            let (row, by) = off.first()?;
            let rare = FACTS.iter().enumerate().filter_map(|(fact, what)| {
                let own = &member.facts[fact];
                let alike = self.members.iter().filter(|other| other.facts[fact] == *own).count();
                let is_rare = alike as f64 <= RARE * self.members.len() as f64;
                is_rare
                    .then(|| format!("{} of {} have its {what} ({own})", alike, self.members.len()))
            });
            let rare: Vec<String> = rare.collect();
            let why = if rare.is_empty() {
                "nothing that is recorded sets it apart: measure it again".to_owned()
            } else {
                format!("it may be because only {}", rare.join(", and only "))
            };
            Some(format!(
                "{}: {} times the median in `{}`, and far from it in {} in all; {why}",
                member.name,
                super::unit::digits(*by),
                row.name,
                counted(off.len(), "row"),
            ))
        });
        members.collect()
    }

    /// The machines with the same value of a fact.
    fn groups(&self, fact: usize) -> Groups<'_> {
        let mut groups = Groups::new();
        for (at, member) in self.members.iter().enumerate() {
            groups.entry(&member.facts[fact]).or_default().push(at);
        }
        groups
    }

    /// The machines, with those of the facts that differ.
    fn machines(&self, rows: &[Row<'_>], facts: &[usize]) -> Grid {
        let heads = [""].into_iter().chain(facts.iter().map(|at| FACTS[*at]));
        let heads = heads.map(|name| (name, Align::Left));
        let mut grid = Grid::new(heads.chain([("rows with a number", Align::Right)]));
        for (at, member) in self.members.iter().enumerate() {
            let sound = rows.iter().filter(|row| row.values[at].is_some()).count();
            let facts = facts.iter().map(|at| member.facts[*at].clone());
            let cells = [member.name.clone()].into_iter().chain(facts);
            grid.add(cells.chain([sound.to_string()]));
        }
        grid
    }
}

impl Row<'_> {
    /// A value of it with its unit.
    fn shown(&self, value: f64) -> String {
        let unit = self.unit.fitting(value);
        unit.display(self.unit.in_unit(unit, value))
    }

    /// For each member the ratio to the median, if that is unusual.
    fn far(&self) -> Vec<Option<f64>> {
        let ratios = || self.values.iter().map(|value| Some((*value)? / self.median));
        let distances: Vec<f64> = ratios().flatten().map(|ratio| ratio.ln().abs()).collect();
        if distances.len() < MIN_MACHINES {
            return vec![None; self.values.len()];
        }
        let limit = (DISTANCES * median(&distances).unwrap_or(0.0)).max(FACTOR.ln());
        ratios().map(|ratio| ratio.filter(|ratio| ratio.ln().abs() > limit)).collect()
    }
}

/// The median of each row over the machines of each group.
fn by_fact(rows: &[Row<'_>], groups: &Groups<'_>) -> Grid {
    let heads = groups.iter().map(|(value, members)| format!("{value} ({})", members.len()));
    let heads: Vec<String> = heads.collect();
    let mut grid = Grid::of_numbers(heads.iter().map(String::as_str));
    for row in rows {
        let cells = groups.values().map(|members| {
            let values: Vec<f64> = members.iter().filter_map(|at| row.values[*at]).collect();
            median(&values).map_or_else(String::new, |value| row.shown(value))
        });
        grid.add([row.name.to_owned()].into_iter().chain(cells));
    }
    grid
}

/// What machine a run is of: the values of [`FACTS`].
fn facts(run: &Run) -> [String; 3] {
    let unknown = || "unknown".to_owned();
    let Some(facts) = run.facts() else { return [unknown(), unknown(), unknown()] };
    let machine = &facts.virtualization;
    let is_virtual = match (&machine.hypervisor, machine.virtual_machine) {
        (Some(hypervisor), _) => hypervisor.clone(),
        (None, Some(true)) => "yes".to_owned(),
        (None, Some(false)) => "no".to_owned(),
        (None, None) => unknown(),
    };
    let cpu = facts.cpu.model_name.clone().unwrap_or_else(unknown);
    [cpu, is_virtual, facts.kernel.release.clone().unwrap_or_else(unknown)]
}

/// The rows whose typical prediction is farthest from the class's median.
fn most_wrong(rows: &[Row<'_>]) -> Vec<String> {
    let mut wrong: Vec<(&Row<'_>, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, median(&row.guesses)? / row.median)))
        .filter(|(_, off)| *off > 0.0 && off.is_finite())
        .collect();
    wrong.sort_by(|one, other| other.1.ln().abs().total_cmp(&one.1.ln().abs()));
    let lines = wrong.into_iter().take(WRONG).map(|(row, off)| {
        format!(
            "{}: the median prediction of {} was {}, {}, where the median here is {}. Why: {}",
            row.name,
            row.guesses.len(),
            row.shown(off * row.median),
            too_far(off),
            row.shown(row.median),
            row.why
        )
    });
    lines.collect()
}

/// How each row spreads, as a table.
fn spread(rows: &[Row<'_>]) -> Grid {
    let heads = ["runs", "minimum", "median", "maximum", "predictions", "median prediction"];
    let mut grid = Grid::of_numbers(heads);
    for row in rows {
        let [least, most] = row.ends();
        let middle = median(&row.guesses).map_or_else(String::new, |value| row.shown(value));
        let cells = [
            row.name.to_owned(),
            row.values.iter().flatten().count().to_string(),
            row.shown(least),
            row.shown(row.median),
            row.shown(most),
            row.guesses.len().to_string(),
            middle,
        ];
        grid.add(cells);
    }
    grid
}

/// The place of a ratio to the median on a drawing.
fn place(ratio: f64) -> String {
    let share = ((ratio.log10() + DECADES) / (2.0 * DECADES)).clamp(0.0, 1.0);
    format!("{:.1}", MARGIN + share * (WIDTH - 2.0 * MARGIN))
}

/// The rows with their machines and predictions, all on one axis: the ratio to the row's median.
fn drawn(rows: &[Row<'_>]) -> Markup {
    let mut table = "";
    html! {
        p.quiet {
            "Each row is drawn as the ratio to its median over the class. Above: a dot for each machine. Below: a ring for each \
             prediction. The line is what was published. What lies beyond the axis is drawn at its end."
        }
        (scroll("Each row over the class", &html! {
            thead { tr {
                td {} th.v { "median" } th.v.wide { "minimum to maximum" }
                td { svg.cloud viewBox={ "0 0 " (WIDTH) " 16" } aria-hidden="true" {
                    @for (ratio, label) in [(0.01, "÷100"), (0.1, "÷10"), (1.0, "median"), (10.0, "×10"), (100.0, "×100")] {
                        text x=(place(ratio)) y="12" text-anchor=(anchor(ratio)) { (label) }
                    }
                } }
            } }
            tbody { @for row in rows {
                @if std::mem::replace(&mut table, row.table) != row.table {
                    tr { td colspan="4" { b { (row.table) } } }
                }
                tr { td { (row.name) } td.v { (row.shown(row.median)) } td.v.wide { (row.ends().map(|end| row.shown(end)).join(" to ")) } td { (row.cloud()) } }
            } }
        }))
    }
}

/// A label at an end of the axis stays within the drawing.
fn anchor(ratio: f64) -> &'static str {
    match ratio {
        _ if ratio < 0.1 => "start",
        _ if ratio > 10.0 => "end",
        _ => "middle",
    }
}

impl Row<'_> {
    /// The least and the greatest of its numbers.
    fn ends(&self) -> [f64; 2] {
        let values: Vec<f64> = self.values.iter().flatten().copied().collect();
        [0.0, 1.0].map(|p| quantile(&values, p).unwrap_or(self.median))
    }

    fn cloud(&self) -> Markup {
        let at = |value: f64| place(value / self.median);
        let says = format!(
            "{}: {}, {}",
            self.name,
            counted(self.values.iter().flatten().count(), "machine"),
            counted(self.guesses.len(), "prediction")
        );
        html! { svg.cloud viewBox={ "0 0 " (WIDTH) " 26" } role="img" aria-label=(says) {
            path d={ "M" (at(self.median)) ",0V26" } class="m" {}
            @if let Some((low, high)) = self.published {
                @let (low, high) = (at(low), at(high));
                path d={ "M" (low) ",2V24M" (high) ",2V24M" (low) ",13H" (high) } class="e" {}
            }
            @for value in self.values.iter().flatten() { circle cx=(at(*value)) cy="7" r="4" {} }
            @for guess in &self.guesses { circle.guess cx=(at(*guess)) cy="19" r="4" {} }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::probe_info::ProbeInfo;
    use costof_model::testing::{probe_info, row, run};

    const STUDY: &str = "title = '<b>'\nsource = 's'\nmachine = 'm'\n[[table]]\ntitle = 'Costs'\npoint = 'a.x'\nunit = 'ns'\n\
        rows = [{name='a',measured=25,note='it crosses the kernel'},{name='b',label='none'}]\n\
        [[table]]\ntitle = 'Another list'\npoint = 'a.x'\nunit = 'ns'\nrows = [{name='a',measured=20}]";

    /// A class in which each machine takes so long for the row.
    fn class<'s>(study: &'s Study, info: &ProbeInfo, ns: &[f64]) -> Class<'s> {
        let runs: Vec<Run> = ns
            .iter()
            .map(|ns| {
                let mut run = run(&[]);
                let facts = run.attempts[0].hosts.values_mut().next().unwrap();
                facts.host_name = Some("secret".to_owned());
                facts.cpu.model_name = Some(if *ns > 1000.0 { "slow" } else { "usual" }.to_owned());
                facts.kernel.release = Some("6.1".to_owned());
                if *ns > 0.0 {
                    run.points = vec![row("a.x", Axes::default(), *ns)];
                }
                run.run.guesses = study.guesses(&[info], "f", "[Costs]\na (ns) = 500").unwrap();
                run
            })
            .collect();
        let compared = runs.iter().map(|run| {
            (None, run, study.reproduced_by(&[info], run, &|_| None, Vec::new()).unwrap())
        });
        Class::new(study, compared.collect())
    }

    #[test]
    fn a_class_sees_its_spread_its_errors_and_who_stands_out() {
        let (study, info) = (Study::read("x", "x.toml", STUDY).unwrap(), probe_info("a.x"));
        let text = class(&study, &info, &[50.0, 52.0, 48.0, 51.0, 49.0, 5000.0]).text(300);
        for part in [
            "6 runs, 6 with predictions",
            "a: the median prediction of 6 was 500 ns, 9.90 times too high, where the median here is 50.5 ns. Why: it crosses",
            "machine 1: 99.0 times the median in `a`, and far from it in 1 row in all; it may be because only 1 of 6 have its CPU (slow)",
            "slow (1)",
            "usual (5)",
            "48.0 ns",
            "5000 ns",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("machine ").count() - text.matches("virtual machine ").count(), 7);
        assert!(!text.contains("secret"));
        let few = class(&study, &info, &[50.0, 5000.0]).text(300);
        assert!(few.contains("Fewer than 5 machines"), "{few}");
    }

    #[test]
    fn a_run_without_numbers_is_no_machine_and_what_all_share_groups_nobody() {
        let (study, info) = (Study::read("x", "x.toml", STUDY).unwrap(), probe_info("a.x"));
        let mut class = class(&study, &info, &[50.0, 0.0, 60.0]);
        class.members[0].guesses[0].row = "c".to_owned();
        class.members[1].guesses[0].unit = "GB/s".to_owned();
        let text = class.text(300);
        for part in [
            "2 runs, 2 with predictions",
            "Left out: 1 run without a number of this study",
            "Left out: 2 predictions of rows or in units that this study does not have",
            "No run has predictions",
            "The same for all: CPU: usual",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("Medians by"), "{text}");
    }

    #[test]
    fn a_page_of_a_class_draws_each_machine_and_each_prediction() {
        let (study, info) = (Study::read("x", "x.toml", STUDY).unwrap(), probe_info("a.x"));
        let page = class(&study, &info, &[50.0, 100.0, 200.0]).page();
        assert!(
            page.contains("&lt;b&gt;")
                && page.contains("aria-label=\"a: 3 machines, 3 predictions\"")
        );
        assert_eq!(page.matches("<circle cx").count(), 3, "a dot for each machine");
        assert_eq!(page.matches("<circle class=\"guess\" cx").count(), 3);
        // Half of the median is drawn a thirteenth of the axis to its left.
        assert!(page.contains("cx=\"200.0\"") && page.contains("cx=\"171.1\""), "{page}");
        assert_eq!([place(0.0), place(1e9)], ["8.0", "392.0"], "at the ends");
    }
}

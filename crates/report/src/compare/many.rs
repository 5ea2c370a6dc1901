//! Three or more runs in one table, with a column for each.

use super::{Side, at_equal_clocks, fact_name, facts, known, titled};
use crate::document::{self, Part};
use crate::grid::{Align, Cell, Grid};
use crate::names::{by_probe, points_counted};
use crate::text::{COLUMNS, printable};
use costof_model::comparison::Verdict;
use costof_model::{Comparison, Point, PointRow, State, counted};
use std::collections::{BTreeMap, HashMap};

/// The values of the runs are shown where the terminal has this width for names, spread and letters, and so
/// much for each run.
const FOR_NAMES: usize = 50;
const FOR_EACH_RUN: usize = 10;

/// The comparison of two of the runs.
#[derive(Debug)]
pub struct Pair {
    /// The positions of the earlier and the later run.
    pub runs: [usize; 2],
    /// Their comparison.
    pub comparison: Comparison,
}

/// The text of a comparison of several runs: their letters, which run is the odd one, which facts differ, the
/// rows in which any two runs surely differ (with `all`, every row), the widest spread first, and the points
/// that only some runs have. The text fits a terminal of this width.
pub fn compared(sides: &[Side<'_>], pairs: &[Pair], all: bool, width: usize) -> String {
    let runs = Runs::new(sides, pairs);
    let letters = sides.iter().enumerate();
    let letters = letters.map(|(run, side)| format!("{}  {}\n", letter(run), printable(side.name)));
    let differences = runs.facts().into_iter().map(|(fact, values)| {
        let values =
            values.iter().enumerate().map(|(run, value)| format!("{} {value}", letter(run)));
        format!("{fact}: {}", values.collect::<Vec<_>>().join(", "))
    });
    let mut parts = vec![Part::paragraph(runs.odd_one())];
    parts.extend(facts(differences.collect()));
    let (differ, alike) = runs.by_difference();
    let rows = if all { runs.rows.iter().collect() } else { differ };
    if !rows.is_empty() {
        parts.push(Part::Table(String::new(), runs.fitted(&rows, width)));
    }
    if !all && !alike.is_empty() {
        let line = format!("{}: `--all` shows them.", runs.without_difference(&alike));
        parts.push(Part::paragraph(line));
    }
    let compared = pairs.iter().flat_map(|pair| &pair.comparison.rows);
    let clocks = at_equal_clocks(compared);
    parts.extend((!clocks.is_empty()).then(|| Part::paragraph(clocks.trim().to_owned())));
    parts.extend(runs.only_some().into_iter().map(Part::paragraph));
    let text = document::text(&parts, COLUMNS.min(width));
    format!("{}\n{text}", letters.collect::<String>())
}

/// A metric of a point for which all runs have a number.
pub(crate) struct Row<'a> {
    point: &'a PointRow,
    metric: &'a str,
    medians: Vec<f64>,
    /// The pairs of runs that surely differ in it.
    differ: Vec<[usize; 2]>,
    /// Whether no two runs could have shown a change that matters.
    is_blind: bool,
}

impl Row<'_> {
    /// The largest median divided by the smallest.
    fn spread(&self) -> f64 {
        let most = self.medians.iter().copied().fold(f64::NAN, f64::max);
        let least = self.medians.iter().copied().fold(f64::NAN, f64::min);
        most / least
    }

    /// Whether this run surely differs from every other.
    fn is_odd(&self, run: usize) -> bool {
        let with_it = self.differ.iter().filter(|pair| pair.contains(&run));
        with_it.count() + 1 == self.medians.len()
    }

    /// The runs that differ from all others, or else the pairs that differ: `C`, `A≠C`.
    fn who(&self) -> String {
        let odd: Vec<String> =
            (0..self.medians.len()).filter(|run| self.is_odd(*run)).map(letter).collect();
        let pairs =
            self.differ.iter().map(|[one, other]| format!("{}≠{}", letter(*one), letter(*other)));
        if odd.is_empty() { pairs.collect::<Vec<_>>().join(" ") } else { odd.join(" ") }
    }

    /// The cells next to the row's name: the value of each run, the spread, and which runs differ.
    fn cells(&self) -> impl Iterator<Item = Cell> {
        let estimate = self.point.estimate(self.metric);
        let values = self.medians.iter().enumerate().map(move |(run, median)| {
            let value =
                estimate.map_or_else(String::new, |estimate| estimate.unit.display(*median));
            Cell::classed(value, if self.is_odd(run) { "odd" } else { "" })
        });
        let spread = format!("{:.2}x", self.spread());
        values.chain([spread.into(), self.who().into()])
    }
}

/// Several runs with the comparison of each pair.
pub(crate) struct Runs<'a> {
    sides: &'a [Side<'a>],
    pairs: &'a [Pair],
    /// The points for which each run has a number.
    measured: Vec<HashMap<&'a Point, &'a PointRow>>,
    /// The rows for which all runs have a number, the widest spread first.
    rows: Vec<Row<'a>>,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(sides: &'a [Side<'a>], pairs: &'a [Pair]) -> Runs<'a> {
        let measured: Vec<_> = sides.iter().map(measured).collect();
        Runs { rows: rows(sides, &measured, pairs), sides, pairs, measured }
    }

    /// The rows in which any two runs surely differ, and the others.
    pub(crate) fn by_difference(&self) -> (Vec<&Row<'a>>, Vec<&Row<'a>>) {
        self.rows.iter().partition(|row| !row.differ.is_empty())
    }

    /// What these rows, in which no two runs differ, have in common.
    pub(crate) fn without_difference(&self, rows: &[&Row<'_>]) -> String {
        let blind = rows.iter().filter(|row| row.is_blind).count();
        format!(
            "No two runs surely differ in {} of {}; {blind} of these are inconclusive for any two runs",
            rows.len(),
            counted(self.rows.len(), "row")
        )
    }

    /// These rows as a table with a column for each run.
    pub(crate) fn table(&self, rows: &[&Row<'_>]) -> Grid {
        let letters: Vec<String> = (0..self.sides.len()).map(letter).collect();
        let letters = letters.iter().map(|letter| (&**letter, Align::Right));
        let first = [("", Align::Left)].into_iter();
        let last = [("spread", Align::Right), ("differs", Align::Left)];
        let mut grid = Grid::new(first.chain(letters).chain(last));
        for row in rows {
            let name = titled(Some(row.point), &row.point.point, row.metric, self.sides[0].run);
            grid.add([Cell::from(name)].into_iter().chain(row.cells()));
        }
        grid
    }

    /// The same for a terminal of this width.
    fn fitted(&self, rows: &[&Row<'_>], width: usize) -> Grid {
        let mut grid = self.table(rows);
        let mut from_widths = vec![FOR_NAMES + FOR_EACH_RUN * self.sides.len(); self.sides.len()];
        from_widths.insert(0, 0);
        from_widths.extend([0; 2]);
        grid.fit(width, &from_widths, 0);
        grid
    }

    /// Which run differs most often from all others.
    pub(crate) fn odd_one(&self) -> String {
        let (runs, rows) = (self.sides.len(), &self.rows);
        let odd = |run: usize| rows.iter().filter(|row| row.is_odd(run)).count();
        let counts: Vec<usize> = (0..runs).map(odd).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        let others = |odd: usize| {
            let others = (0..runs)
                .filter(|run| *run != odd)
                .map(|run| format!("{}: {}", letter(run), counts[run]));
            others.collect::<Vec<_>>().join(", ")
        };
        let mut leading = (0..runs).filter(|run| counts[*run] == most);
        match (leading.next(), leading.next()) {
            _ if rows.is_empty() => "No row is in all of the runs.".to_owned(),
            _ if rows.iter().all(|row| row.differ.is_empty()) => {
                format!("No two runs surely differ in any of {}.", counted(rows.len(), "row"))
            }
            (Some(odd), None) => format!(
                "{} is the odd one: it surely differs from every other run in {most} of {} ({})",
                letter(odd),
                counted(rows.len(), "row"),
                others(odd)
            ),
            _ => format!("No single run stands out in {}.", counted(rows.len(), "row")),
        }
    }

    /// The facts that differ between runs, with the value of each run. Every run is compared with the first.
    pub(crate) fn facts(&self) -> Vec<(String, Vec<&'a str>)> {
        let of_first = self.pairs.iter().filter(|pair| pair.runs[0] == 0);
        let mut by_fact: Vec<(String, Vec<&str>)> = Vec::new();
        for (run, fact) in of_first.flat_map(|pair| {
            let facts = pair.comparison.facts.iter();
            facts.map(|fact| (pair.runs[1], fact))
        }) {
            let name = fact_name(fact);
            let at = by_fact.iter().position(|(first, _)| *first == name).unwrap_or_else(|| {
                by_fact.push((name, vec![known(&fact.before); self.sides.len()]));
                by_fact.len() - 1
            });
            by_fact[at].1[run] = known(&fact.after);
        }
        by_fact
    }

    /// The points for which only some runs have a number, by these runs, as counts per probe.
    pub(crate) fn only_some(&self) -> Vec<String> {
        let mut by_runs: BTreeMap<Vec<usize>, Vec<&Point>> = BTreeMap::new();
        for (run, side) in self.sides.iter().enumerate() {
            for row in &side.run.points {
                let having = |other: &usize| self.measured[*other].contains_key(&row.point);
                let having: Vec<usize> = (0..self.sides.len()).filter(having).collect();
                if having.len() < self.sides.len() && having.first() == Some(&run) {
                    by_runs.entry(having).or_default().push(&row.point);
                }
            }
        }
        let lines = by_runs.into_iter().map(|(runs, points)| {
            let letters: Vec<String> = runs.into_iter().map(letter).collect();
            format!(
                "Only {}: {} ({}).",
                letters.join(", "),
                points_counted(points.len()),
                by_probe(points.iter().copied())
            )
        });
        lines.collect()
    }
}

/// The points for which a run has a number.
fn measured<'a>(side: &Side<'a>) -> HashMap<&'a Point, &'a PointRow> {
    let rows = side.run.points.iter().filter(|row| row.state == State::Ok);
    rows.map(|row| (&row.point, row)).collect()
}

/// For a metric of a point, the verdict for each pair of runs.
type Verdicts<'a> = BTreeMap<(&'a Point, &'a str), Vec<PairVerdict>>;
type PairVerdict = ([usize; 2], Verdict);

fn verdicts(pairs: &[Pair]) -> Verdicts<'_> {
    let mut verdicts = Verdicts::new();
    for pair in pairs {
        for row in &pair.comparison.rows {
            let of_row = verdicts.entry((&row.point, &row.metric)).or_default();
            of_row.push((pair.runs, row.verdict));
        }
    }
    verdicts
}

/// The rows that all runs have: the metrics that were compared, and each probe's primary metric.
fn rows<'a>(
    sides: &[Side<'a>],
    known: &[HashMap<&'a Point, &'a PointRow>],
    pairs: &[Pair],
) -> Vec<Row<'a>> {
    let verdicts = verdicts(pairs);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for point in sides.iter().take(1).flat_map(|side| &side.run.points) {
        for metric in point.metrics.iter().map(|estimate| &*estimate.name) {
            let of_row = verdicts.get(&(&point.point, metric));
            let is_shown = of_row.is_some() || metric == point.primary;
            let medians = known.iter().map(|known| known.get(&point.point)?.median(metric));
            let medians = medians.collect::<Option<Vec<f64>>>().filter(|_| is_shown);
            let of_row = of_row.map_or(&[][..], Vec::as_slice);
            rows.extend(medians.map(|medians| row(point, metric, medians, of_row)));
        }
    }
    rows.sort_by(|a, b| b.spread().total_cmp(&a.spread()));
    rows
}

fn row<'a>(
    point: &'a PointRow,
    metric: &'a str,
    medians: Vec<f64>,
    verdicts: &[PairVerdict],
) -> Row<'a> {
    let differ = verdicts.iter().filter(|(_, verdict)| verdict.is_change());
    Row {
        point,
        metric,
        medians,
        differ: differ.map(|(runs, _)| *runs).collect(),
        is_blind: verdicts.iter().all(|(_, verdict)| *verdict == Verdict::CannotTell),
    }
}

/// A run's letter in the table: A to Z, then the number.
pub(crate) fn letter(run: usize) -> String {
    let letter = u8::try_from(run).ok().filter(|run| *run < 26);
    letter.map_or_else(|| format!("#{}", run + 1), |run| char::from(b'A' + run).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::row;
    use costof_model::Run;
    use costof_model::comparison::FactDifference;
    use costof_model::testing::{golden, run_without_facts, sized_row};

    fn run(costs: &[(&'static str, f64)]) -> Run {
        let mut run = run_without_facts();
        let rows = costs.iter().map(|(probe, ns)| sized_row(*probe, 64, *ns));
        run.points.extend(rows);
        run
    }

    #[test]
    fn the_odd_run_is_named_and_what_only_some_have_is_counted() {
        let runs = [
            run(&[("a.same", 5.0), ("a.slow", 10.0), ("a.first", 1.0)]),
            run(&[("a.same", 5.1), ("a.slow", 10.0), ("a.late", 1.0)]),
            run(&[("a.same", 5.0), ("a.slow", 30.0), ("a.late", 1.0)]),
        ];
        let names = ["x.jsonl", "y.jsonl", "z.jsonl"];
        let sides: Vec<Side<'_>> =
            (names.iter().zip(&runs)).map(|(name, run)| Side { name, run }).collect();
        let pairs = [[0, 1], [0, 2], [1, 2]].map(|runs| {
            let slow = if runs[1] == 2 { Verdict::Worse } else { Verdict::NoDifference };
            let precision = FactDifference {
                host: "only".into(),
                what: "precision".to_owned(),
                before: Some("full".to_owned()),
                after: Some("quick".to_owned()),
            };
            Pair {
                runs,
                comparison: Comparison {
                    facts: vec![precision].into_iter().filter(|_| runs == [0, 2]).collect(),
                    rows: vec![
                        row("a.same", 1.0, 0.1, Verdict::CannotTell),
                        row("a.slow", 3.0, 0.1, slow),
                    ],
                    ..Comparison::default()
                },
            }
        });
        let text = compared(&sides, &pairs, false, usize::MAX);
        golden("report/compare", "many runs", &text);
        assert!(!text.contains("a.same"), "{text}");
        let narrow = compared(&sides, &pairs, false, 60);
        assert!(narrow.contains("spread  differs") && !narrow.contains("30.0 ns"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        let all = compared(&sides, &pairs, true, usize::MAX);
        assert!(all.find("a.slow").unwrap() < all.find("a.same").unwrap(), "{all}");
        assert_eq!([letter(25), letter(26)], ["Z", "#27"]);
        let page = crate::page::many::page(&sides, &pairs, &[]);
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        let folded = at("<details ");
        assert!(at("the odd one") < at(">a.slow") && at(">a.slow") < folded);
        assert!(at("class=\"v odd\">30.0 ns") < folded && folded < at(">a.same"));
        for part in ["<td>full</td><td>full</td><td>quick</td>", "Only A: 1 point"] {
            assert!(at(part) > folded);
        }
    }
}

//! A question of several ways of doing the same: a table of all of them, and which one to use up to which size.

use super::ratio::decided;
use super::shown::INCONCLUSIVE;
use super::{Answer, Answered, Question};
use costof_findings::crossover::{Crossover, crossover};
use costof_findings::interval::Interval;
use costof_findings::noise;
use costof_model::unit::parse_bytes;
use costof_model::{Grade, PointRow, Run, display_bytes};
use costof_report::grid::{Align, Grid};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The sizes that are compared are this many times apart.
const STEP: u64 = 4;
/// From this share on, a way without a copy is named as one that the kernel copied.
const COPIED: f64 = 0.5;

/// A column of the table: a metric's median, or its 99th percentile.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    heading: String,
    metric: String,
    #[serde(default)]
    p99: bool,
}

impl Column {
    fn cell(&self, rows: &[&PointRow]) -> Option<String> {
        let estimate = rows.iter().find_map(|row| row.estimate(&self.metric))?;
        if !estimate.is_usable() {
            return Some(estimate.display());
        }
        let value = if self.p99 { estimate.percentile(99.0)? } else { estimate.median };
        Some(estimate.unit.display(value))
    }
}

impl Question {
    /// What is measured of a question of ways, each with its label: each way at the size that is asked for, at the
    /// one below and at the one above; then each in the other patterns, where somebody answers.
    pub(super) fn of_each_way(&self) -> Vec<(String, String)> {
        let asked = self.size.as_deref().unwrap_or_default();
        let answers = self.link.as_deref() != Some("sink");
        let [first, others @ ..] = &self.points[..] else { return Vec::new() };
        let others = others.iter().filter(|_| answers);
        let at_sizes = self.sizes().into_iter().map(|size| (first, size));
        let all = at_sizes.chain(others.map(|point| (point, asked.to_owned())));
        let each = all.flat_map(|(point, size)| {
            self.costs.iter().map(move |(label, way)| {
                let at = Question { size: Some(size.clone()), ..self.clone() };
                (format!("{label}, {size}"), at.filled(&point.replace("{way}", way)))
            })
        });
        each.collect()
    }

    /// The sizes at which ways are compared, in ascending order.
    fn sizes(&self) -> Vec<String> {
        let asked = self.size.as_deref().unwrap_or_default();
        let Some(bytes) = parse_bytes(asked) else { return vec![asked.to_owned()] };
        let most = self.most.as_deref().and_then(parse_bytes).unwrap_or(u64::MAX);
        let sizes = [bytes / STEP, bytes, bytes.saturating_mul(STEP)];
        let fits = |size: &u64| *size == bytes || (64..=most).contains(size);
        sizes.into_iter().filter(fits).map(display_bytes).collect()
    }

    /// Which way to use up to which size, and the table of all at the size that is asked for.
    pub(super) fn ways(&self, run: &Run, costs: &[Answered]) -> Answer {
        let rows: Vec<Option<&PointRow>> = costs.iter().map(|cost| cost.row(run)).collect();
        let sizes = self.sizes();
        let groups: Vec<&[Option<&PointRow>]> = rows.chunks(self.costs.len()).collect();
        let (by_size, others) = groups.split_at(sizes.len());
        let asked = self.size.as_deref().and_then(parse_bytes).map(display_bytes);
        let at = sizes.iter().position(|size| Some(size) == asked.as_ref()).unwrap_or(0);
        let rows_of = |way: usize| {
            let groups = [by_size[at]].into_iter().chain(others.iter().copied());
            groups.filter_map(|rows| rows[way]).collect()
        };
        let column = &self.columns[0];
        let comparable: Vec<_> =
            by_size.iter().map(|rows| comparable(run, rows, &column.metric)).collect();
        // What holds for some messages only is no answer, but stands beside it.
        let (any, some): (Vec<_>, Vec<_>) = (comparable.iter())
            .map(|ways| {
                let of_any = |(way, _): &(usize, _)| !self.only.contains_key(&self.costs[*way].0);
                ways.iter().copied().partition::<Vec<_>, _>(of_any)
            })
            .unzip();
        let unbeaten: Vec<Vec<usize>> =
            any.iter().map(|ways| unbeaten(run, ways, &column.metric)).collect();
        let choice = choice(&unbeaten);
        let known = any[at].len();
        let measured = by_size[at].iter().flatten().count();
        let is_open = known == 0 || measured > 1 && unbeaten[at].len() == known;
        let sentence = match choice[at].and_then(|way| Some((way, by_size[at][way]?))) {
            Some((way, row)) if !is_open => {
                let cost = |row: &PointRow| {
                    let cost = row.estimate(&column.metric);
                    cost.map_or_else(String::new, |cost| cost.unit.display(cost.median))
                };
                let mut sentence = format!(
                    "use {}; at {} {} takes {} of {}",
                    self.which(run, by_size, &choice, &sizes),
                    sizes[at],
                    self.costs[way].0,
                    cost(row),
                    column.heading
                );
                if !row.is_sound() {
                    sentence += " (grade D: certain in turns only, so measure on a quiet machine)";
                }
                let beside = choice.iter().flatten().filter(|other| **other != way);
                for other in beside.collect::<BTreeSet<_>>() {
                    if let Some(other_row) = by_size[at][*other] {
                        let _ = write!(sentence, ", {} {}", self.costs[*other].0, cost(other_row));
                    }
                }
                for (other, other_row) in &some[at] {
                    let ratio = log_ratio(run, row, other_row, &column.metric);
                    if ratio.is_some_and(|ratio| ratio.low > 0.0) {
                        let label = &self.costs[*other].0;
                        let _ = write!(
                            sentence,
                            "; {}: {label}, {}",
                            self.only[label],
                            cost(other_row)
                        );
                    }
                }
                sentence
            }
            _ => {
                let why = noise::why(rows.iter().copied().flatten().collect::<Vec<_>>());
                let why = why.map_or_else(String::new, |why| format!(": {why}"));
                format!("at {} no way is cheaper for certain than the others{why}", sizes[at])
            }
        };
        let ways = self.costs.iter().enumerate().map(|(way, (label, _))| (&**label, rows_of(way)));
        Answer {
            verdict: is_open.then_some(INCONCLUSIVE),
            sentence,
            is_open: false,
            table: Some(self.table(&ways.collect::<Vec<_>>())),
        }
    }

    /// The chosen ways, each with its sizes.
    fn which(
        &self,
        run: &Run,
        by_size: &[&[Option<&PointRow>]],
        choice: &[Option<usize>],
        sizes: &[String],
    ) -> String {
        let known: Vec<(usize, usize)> =
            choice.iter().enumerate().filter_map(|(size, way)| Some((size, (*way)?))).collect();
        let label = |way: usize| &self.costs[way].0;
        match known.chunk_by(|one, next| one.1 == next.1).collect::<Vec<_>>()[..] {
            [same] if same.len() > 1 => {
                let (first, last) = (&sizes[same[0].0], &sizes[same[same.len() - 1].0]);
                format!("{} at every size from {first} to {last}", label(same[0].1))
            }
            [small, large] => {
                let (small, large) = (small[0].1, large[0].1);
                let ratio = |(rows, size): (&&[Option<&PointRow>], &String)| {
                    let metric = &self.columns[0].metric;
                    let ratio = log_ratio(run, rows[small]?, rows[large]?, metric)?;
                    Some((parse_bytes(size)? as f64, ratio))
                };
                let ratios: Vec<_> = by_size.iter().zip(sizes).filter_map(ratio).collect();
                let from = crossover(&ratios);
                match from.filter(|from| matches!(from, Crossover::From { .. })) {
                    Some(from) => {
                        format!("{} {}, {} below", label(large), from.text(), label(small))
                    }
                    None => self.listed(&known, sizes),
                }
            }
            _ => self.listed(&known, sizes),
        }
    }

    /// The way at each of these sizes.
    fn listed(&self, chosen: &[(usize, usize)], sizes: &[String]) -> String {
        let each =
            chosen.iter().map(|(size, way)| format!("{} at {}", self.costs[*way].0, sizes[*size]));
        each.collect::<Vec<_>>().join(", ")
    }

    fn table(&self, ways: &[(&str, Vec<&PointRow>)]) -> String {
        let shown: Vec<&Column> = (self.columns.iter())
            .filter(|column| ways.iter().any(|(_, rows)| column.cell(rows).is_some()))
            .collect();
        let headings = shown.iter().map(|column| (&*column.heading, Align::Right));
        let mut grid =
            Grid::new([("", Align::Left)].into_iter().chain(headings).chain([("", Align::Left)]));
        for (label, rows) in ways {
            let cells = shown.iter().map(|column| column.cell(rows).unwrap_or_default());
            let note = match rows.first() {
                None => "not measured here".to_owned(),
                Some(row) if row.counted("copied").is_some_and(|share| share > COPIED) => {
                    "the kernel copied anyway".to_owned()
                }
                Some(row) if row.grade > Grade::B => format!("grade {}", row.grade),
                Some(_) => String::new(),
            };
            grid.add([(*label).to_owned()].into_iter().chain(cells).chain([note]));
        }
        grid.text()
    }
}

/// The logarithm of how many times a metric of one row is of that of another, as the table shows them.
fn log_ratio(run: &Run, one: &PointRow, other: &PointRow, metric: &str) -> Option<Interval> {
    let shown = |row: &PointRow| {
        let estimate = row.estimate(metric)?;
        Some((estimate.median, estimate.usable_interval().filter(|_| row.is_sound())))
    };
    decided(Interval::log_ratio(run, one, other, metric), shown(one), shown(other))
}

/// The ways that can be compared, in their order: those that are sound, or took turns with another.
fn comparable<'r>(
    run: &Run,
    rows: &[Option<&'r PointRow>],
    metric: &str,
) -> Vec<(usize, &'r PointRow)> {
    let known = rows.iter().enumerate().filter_map(|(way, row)| Some((way, (*row)?)));
    let known: Vec<_> = known.filter(|(_, row)| row.median(metric).is_some()).collect();
    let took_turns = |way: usize, row: &PointRow| {
        let mut others = known.iter().filter(|(other, _)| *other != way);
        others.any(|(_, other)| log_ratio(run, row, other, metric).is_some())
    };
    let ways = known.iter().filter(|(way, row)| row.is_sound() || took_turns(*way, row));
    ways.copied().collect()
}

/// Those that none of the others beats for certain.
fn unbeaten(run: &Run, ways: &[(usize, &PointRow)], metric: &str) -> Vec<usize> {
    let is_beaten = |row: &PointRow| {
        ways.iter().any(|(_, other)| {
            log_ratio(run, row, other, metric).is_some_and(|ratio| ratio.low > 0.0)
        })
    };
    ways.iter().filter(|(_, row)| !is_beaten(row)).map(|(way, _)| *way).collect()
}

/// A way for each size from those that are unbeaten there, which changes as seldom as possible: the simplest, which
/// comes first, of those that stay unbeaten over the most sizes.
fn choice(unbeaten: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut chosen = vec![None; unbeaten.len()];
    let mut from = 0;
    while from < unbeaten.len() {
        let lasts =
            |way: &usize| unbeaten[from..].iter().take_while(|ways| ways.contains(way)).count();
        let most = unbeaten[from].iter().map(lasts).max().unwrap_or(1);
        let way = unbeaten[from].iter().find(|way| lasts(way) == most).copied();
        chosen[from..from + most].fill(way);
        from += most;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_changes_as_seldom_as_what_is_certain_allows() {
        let of = |unbeaten: &[&[usize]]| {
            choice(&unbeaten.iter().map(|ways| ways.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[&[0, 1], &[1, 2], &[1]]), [Some(1); 3]);
        assert_eq!(of(&[&[0, 2], &[0, 2], &[1, 2]]), [Some(2); 3]);
        assert_eq!(of(&[&[0, 1], &[0, 1], &[2, 3]]), [Some(0), Some(0), Some(2)]);
        assert_eq!(of(&[&[0], &[], &[2]]), [Some(0), None, Some(2)]);
    }
}

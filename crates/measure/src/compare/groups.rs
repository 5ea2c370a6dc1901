//! Compares two groups of runs. Pure.
//!
//! Launches of a run are alike, so are runs since one boot, and boots of one host: each has what the next level adds.
//! So the highest level of which a group has more than one counts: each host is one value, the mean of its boots, and
//! each boot the mean of its runs. One host's quirk is then one value, however often that host was measured. These
//! values are compared by Welch's t, or by Student's, pair by pair, if both groups have the same hosts. The spread of
//! the values contains that of all levels below (T. Kalibera and R. Jones, "Rigorous benchmarking in reasonable time",
//! ISMM 2013; A. Donner and N. Klar, "Design and analysis of cluster randomization trials", 2000, on an analysis by
//! clusters).
//!
//! A run's value is the logarithm of its median, so an export serves as well as a run with its launches.

use super::facts::host_facts;
use super::judge::{Found, judged};
use super::{MIN, expect_one_method, row};
use crate::fleet::{OfHosts, OfRun, of_hosts};
use crate::hosts::{Named, boots, hosts};
use costof_model::comparison::{
    FactDifference, Groups, LayerChange, Level, Missing, Refused, Verdict,
};
use costof_model::noise::MEASURED;
use costof_model::{Compared, Comparison, Point, PointRow, Run, counted};
use costof_stats::outliers::Reading;
use costof_stats::{CONFIDENCE, Difference, mean, median, trimmed_mean};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts are compared with themselves if at least this share of the smaller group is in both.
const PAIRED_SHARE: f64 = 2.0 / 3.0;
/// A layer is compared from this many rows on.
const LAYER_ROWS: usize = 2;
/// Groups differ in a fact if this share of each has one value.
const ALIKE: f64 = 0.95;

/// Compares two groups of runs in what both measured. `matters` is the smallest change that matters, as a share.
pub fn compare_groups(before: &[Run], after: &[Run], matters: f64) -> Comparison {
    compare_hosts([hosts(before), hosts(after)], matters)
}

/// Compares two groups of hosts.
pub(crate) fn compare_hosts(sides: [Vec<Named<'_>>; 2], matters: f64) -> Comparison {
    let level = sides.iter().map(|hosts| level(hosts)).max().unwrap_or(Level::Runs);
    let [first, second] = sides.map(|hosts| units(hosts, level));
    let in_both = (0..first.len()).filter_map(|at| {
        let partner = second.iter().position(|(name, _)| *name == first[at].0)?;
        Some((at, first.len() + partner))
    });
    let pairs: (Vec<usize>, Vec<usize>) = in_both.unzip();
    let common = pairs.0.len();
    let fewer = first.len().min(second.len()) as f64;
    let in_pairs = level == Level::Hosts && common > 1 && common as f64 >= PAIRED_SHARE * fewer;
    let (count, all) = (first.len(), first.len() + second.len());
    let (before, after) =
        if in_pairs { pairs } else { ((0..count).collect(), (count..all).collect()) };
    let units = Units::new([first, second].concat(), level);
    units.compare([&before, &after], in_pairs, matters)
}

/// The highest level of which there are several, or runs.
fn level(hosts: &[Named<'_>]) -> Level {
    match hosts {
        [(_, runs)] if boots(runs).len() > 1 => Level::Boots,
        [] | [_] => Level::Runs,
        _ => Level::Hosts,
    }
}

/// The hosts, or the boots or runs of one, each with the host's name.
fn units(hosts: Vec<Named<'_>>, level: Level) -> Vec<Named<'_>> {
    let units = hosts.into_iter().flat_map(|(name, runs)| {
        let parts: Vec<Vec<&Run>> = match level {
            Level::Hosts => vec![runs],
            Level::Boots => boots(&runs).into_values().collect(),
            Level::Runs => runs.into_iter().map(|run| vec![run]).collect(),
        };
        parts.into_iter().map(move |runs| (name.clone(), runs))
    });
    units.collect()
}

/// Hosts, boots or runs of which any two groups can be compared.
pub(crate) struct Units<'r> {
    units: Vec<Named<'r>>,
    level: Level,
    rows: Vec<Row<'r>>,
    /// The points of which no unit has a number to conclude from, and the units that measured them.
    unknown: BTreeMap<&'r Point, (&'r PointRow, BTreeSet<usize>)>,
}

/// A row, and the logarithm of what each unit that has a number has for it.
struct Row<'r> {
    of: OfHosts<'r>,
    values: BTreeMap<usize, Reading>,
}

impl Row<'_> {
    /// How many of these units have a number.
    fn count(&self, units: &[usize]) -> usize {
        units.iter().filter(|unit| self.values.contains_key(unit)).count()
    }
}

impl<'r> Units<'r> {
    pub(crate) fn new(units: Vec<Named<'r>>, level: Level) -> Units<'r> {
        let rows = of_hosts(&units).map(|of| {
            let values = of.runs.iter().filter_map(|(unit, runs)| Some((*unit, value(runs)?)));
            Row { values: values.collect(), of }
        });
        let rows: Vec<Row<'_>> = rows.collect();
        let known: BTreeSet<&Point> = rows.iter().map(|row| &row.of.row.point).collect();
        let mut unknown = BTreeMap::new();
        for (unit, (_, runs)) in units.iter().enumerate() {
            let points = runs.iter().flat_map(|run| &run.points);
            for row in points.filter(|row| !known.contains(&row.point)) {
                let (_, of) = unknown.entry(&row.point).or_insert((row, BTreeSet::new()));
                of.insert(unit);
            }
        }
        Units { rows, unknown, units, level }
    }

    /// Compares the units at the second positions with those at the first ones; `in_pairs`, each with its partner at
    /// the same place.
    pub(crate) fn compare(&self, sides: [&[usize]; 2], in_pairs: bool, matters: f64) -> Comparison {
        let [before, after] = sides.map(<[usize]>::len);
        let mut comparison = Comparison {
            groups: Some(Groups { level: self.level, before, after, in_pairs, row: None }),
            matters,
            facts: self.facts(sides),
            ..Comparison::default()
        };
        let (mut rows, mut layers) = (Vec::new(), BTreeMap::<&str, Vec<&Row<'_>>>::new());
        for row in &self.rows {
            let values = values(sides, in_pairs, |unit| row.values.get(&unit).copied());
            match row.compared(&values, sides, in_pairs, self.level) {
                Ok(compared) => {
                    rows.push(compared);
                    layers.entry(row.of.row.point.layer()).or_default().push(row);
                }
                Err(why) => self.not_compared(&mut comparison, row, why, sides),
            }
        }
        let has =
            |units: &BTreeSet<usize>, side: &[usize]| side.iter().any(|unit| units.contains(unit));
        let unknown = self.unknown.values();
        let unknown = unknown.filter(|(_, units)| sides.iter().all(|side| has(units, side)));
        comparison.refused.extend(unknown.map(|(row, _)| Refused {
            point: row.point.clone(),
            metric: row.primary.clone(),
            reason: format!("no {} has a number of grade A to C for it", self.level.noun()),
        }));
        let layers = layers.into_iter();
        let layers = layers.filter_map(|(layer, rows)| changed(layer, &rows, sides, in_pairs));
        let found = Found { rows, layers: layers.collect() };
        (comparison.rows, comparison.layers) = judged(found, false, matters);
        comparison
    }

    /// Notes a row that only one group has, or too few of a group.
    fn not_compared(
        &self,
        comparison: &mut Comparison,
        row: &Row<'_>,
        reason: String,
        sides: [&[usize]; 2],
    ) {
        let point = row.of.row.point.clone();
        let refused = |point: Point, reason: String| {
            let metric = row.of.estimate.name.clone();
            Refused { point, metric, reason }
        };
        let has = |row: &Row<'_>| sides.map(|side| row.count(side) > 0);
        let others = self.rows.iter();
        let mut others = others.filter(|other| other.of.row.point == point);
        let is_planned = || {
            let mut later = sides[1].iter().flat_map(|unit| &self.units[*unit].1);
            later.any(|run| run.run.plan.points().any(|of| *of == point))
        };
        match has(row) {
            [true, true] => comparison.refused.push(refused(point, reason)),
            // By another method the later group has it.
            [true, false] => match others.find(|other| has(other)[1]) {
                Some(other) if has(other)[0] => {}
                Some(other) => {
                    let methods = expect_one_method([row.of.row, other.of.row]);
                    comparison.refused.extend(methods.err().map(|why| refused(point, why)));
                }
                None if is_planned() => {
                    comparison.missing.push(Missing { point, reason, is_noise: false });
                }
                None => comparison.only_before.push(point),
            },
            [false, true] if others.any(|other| has(other)[0]) => {}
            [false, true] => comparison.only_after.push(point),
            [false, false] => {}
        }
    }

    /// The facts in which nearly all of one group have one value, and nearly all of the other another.
    fn facts(&self, sides: [&[usize]; 2]) -> Vec<FactDifference> {
        let of_unit = |unit: &usize| {
            let attempt = self.units[*unit].1.last().and_then(|run| run.attempts.last());
            attempt.map(|attempt| host_facts(attempt, MEASURED)).unwrap_or_default()
        };
        let sides = sides.map(|side| side.iter().map(of_unit).collect::<Vec<_>>());
        let usual = |side: &[Vec<(String, Option<String>)>], what: &str| {
            let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
            for facts in side {
                let value = facts.iter().find(|(name, _)| name == what);
                *counts.entry(value.and_then(|(_, value)| value.clone())).or_default() += 1;
            }
            let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
            (count as f64 >= ALIKE * side.len() as f64).then_some(value)
        };
        // Which boot it was is no fact that several runs share.
        let names = sides.iter().flatten().take(1).flatten().map(|(what, _)| what);
        let differences = names.filter(|what| *what != "boot").filter_map(|what| {
            let (before, after) = (usual(&sides[0], what)?, usual(&sides[1], what)?);
            let host = MEASURED.into();
            (before != after).then(|| FactDifference { host, what: what.clone(), before, after })
        });
        differences.collect()
    }
}

/// The mean of the boots' means over their runs.
fn value(runs: &[OfRun<'_>]) -> Option<Reading> {
    let mut boots: BTreeMap<_, Vec<Reading>> = BTreeMap::new();
    for run in runs {
        boots.entry(run.boot).or_default().push(run.reading);
    }
    of_all(&boots.values().filter_map(|boot| of_all(boot)).collect::<Vec<_>>())
}

/// The mean, with the error that those of the readings leave.
fn of_all(readings: &[Reading]) -> Option<Reading> {
    Some(Reading { value: mean(&of_each(readings))?, error: error(readings) })
}

/// The error that those of the readings leave in their mean.
fn error(readings: &[Reading]) -> f64 {
    let squares: f64 = readings.iter().map(|reading| reading.error.powi(2)).sum();
    squares.sqrt() / readings.len().max(1) as f64
}

fn of_each(readings: &[Reading]) -> Vec<f64> {
    readings.iter().map(|reading| reading.value).collect()
}

/// What a layer changed: of each unit the median of by how much its rows are worse than those of all.
fn changed(
    layer: &str,
    rows: &[&Row<'_>],
    sides: [&[usize]; 2],
    in_pairs: bool,
) -> Option<(LayerChange, Difference)> {
    let worse = rows.iter().map(|row| {
        let all = sides.iter().copied().flatten().filter_map(|unit| row.values.get(unit));
        let all: Vec<Reading> = all.copied().collect();
        let centre = median(&of_each(&all)).unwrap_or(0.0);
        move |unit: usize| {
            let Reading { value, error } = *row.values.get(&unit)?;
            Some(Reading { value: row.of.estimate.better.worse(value - centre), error })
        }
    });
    let worse: Vec<_> = worse.collect();
    let [first, second] = values(sides, in_pairs, |unit| {
        let worse: Vec<Reading> = worse.iter().filter_map(|worse| worse(unit)).collect();
        let errors: Vec<f64> = worse.iter().map(|worse| worse.error).collect();
        let value = median(&of_each(&worse)).filter(|_| worse.len() >= LAYER_ROWS)?;
        Some(Reading { value, error: median(&errors)? })
    });
    let found = difference(&first, &second, in_pairs)?;
    let half = found.half_width(CONFIDENCE)?;
    let change = LayerChange {
        layer: layer.to_owned(),
        rows: rows.len(),
        worse: found.of_means.exp_m1(),
        ci95: ((found.of_means - half).exp_m1(), (found.of_means + half).exp_m1()),
        p: found.p(MIN.ln()),
        verdict: Verdict::CannotTell,
    };
    Some((change, found))
}

/// What the units of both sides have; in pairs, of those of which both have it.
fn values(
    [first, second]: [&[usize]; 2],
    in_pairs: bool,
    of: impl Fn(usize) -> Option<Reading>,
) -> [Vec<Reading>; 2] {
    if in_pairs {
        let pairs = first.iter().zip(second);
        let (first, second) = pairs.filter_map(|(one, other)| of(*one).zip(of(*other))).unzip();
        return [first, second];
    }
    [first, second].map(|side| side.iter().filter_map(|unit| of(*unit)).collect())
}

/// The difference, with an error of at least what those of the readings leave: two equal values are no proof.
fn difference(first: &[Reading], second: &[Reading], in_pairs: bool) -> Option<Difference> {
    let least = error(first).hypot(error(second));
    let [first, second] = [first, second].map(of_each);
    let found = match first.len().min(second.len()) {
        _ if in_pairs => Difference::paired(&first, &second),
        1 => Difference::pooled(&first, &second),
        _ => Difference::welch(&first, &second),
    }?;
    Some(Difference { error: found.error.max(least), ..found })
}

impl Row<'_> {
    /// Compares what both sides have, before all rows are judged together.
    ///
    /// # Errors
    /// Too few units have it, or they differ too much.
    fn compared(
        &self,
        [first, second]: &[Vec<Reading>; 2],
        sides: [&[usize]; 2],
        in_pairs: bool,
        level: Level,
    ) -> Result<(Compared, Difference), String> {
        let noun = level.noun();
        let found = difference(first, second, in_pairs).ok_or_else(|| {
            let [before, after] = sides.map(|side| self.count(side));
            let in_both = match in_pairs && before > 0 && after > 0 {
                true => format!(", and only {} both", first.len()),
                false => String::new(),
            };
            format!(
                "only {} before and {after} after have a number of grade A to C for it{in_both}",
                counted(before, noun)
            )
        })?;
        let side = |values: &Vec<Reading>| {
            let mean = trimmed_mean(&of_each(values));
            (mean.map_or(f64::NAN, f64::exp), values.len() as u32)
        };
        let estimate = self.of.estimate;
        let of = (estimate.name.clone(), estimate.unit, estimate.better);
        let row = row(self.of.row, of, [first, second].map(side), &found);
        let row = row.ok_or_else(|| {
            let [before, after] = sides.map(|side| self.count(side));
            format!("too few {noun}s ({before} against {after}) for how far they lie apart")
        })?;
        Ok((row, found))
    }
}

#[cfg(test)]
mod tests;

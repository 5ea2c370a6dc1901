//! From the launches of two runs to what they say of each other. Pure.
//!
//! A launch is one value of each metric, its median. The ratio is that of the geometric means of
//! the two runs' launches without the least and the greatest eighth, its interval Welch's t on their
//! logarithms, as costs are skewed. Where the launches of both took turns, those of one number are
//! neighbours in time and share what the machine did then: the interval is Student's t on the logarithms
//! of their ratios. Looking at many rows finds differences by chance: verdicts hold for all rows together,
//! by Holm's procedure (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
//! Journal of Statistics 6, 1979), so that of twenty comparisons of what is the same, one has a false
//! alarm.
//!
//! Of each launch counts what had the core to itself, as long as both runs have enough of it. Else what
//! shared the core is compared with what shared it, and says so; alone is never compared with shared. What
//! took turns met the same neighbours, so there all is compared with all.
//!
//! What changes between runs and not between the launches of one (other load of the host, the core
//! clock, where a kernel's memory lies since boot) is in no launch's spread: two runs far apart in time
//! may differ for such reasons.

mod comparable;
mod facts;
mod judge;
mod missing;

use crate::estimate::{HALF_BUCKET, launch_medians};
use crate::launches::{Counting, launches_with};
use crate::schedule::LEAST_LAUNCHES;
use comparable::{boot, common, cpu, moved, never_alone};
use costof_model::comparison::{Compared, Comparison, Refused, Verdict};
use costof_model::metric::{Data, MetricInfo, Selection, is_too_wide};
use costof_model::point::Point;
use costof_model::rows::{LaunchPoint, PointRow, State};
use costof_model::run_file::Run;
use costof_stats::{CONFIDENCE, Difference, trimmed_mean};
use judge::judged;
use std::collections::BTreeMap;

/// Which metrics are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// The one that answers each probe's question.
    Primary,
    /// All of which both runs have launches.
    All,
}

/// The smallest change that matters where nobody says another, as a share.
pub const MATTERS: f64 = 0.05;
/// A ratio nearer to one than this is none: the core's clock alone drifts by as much within minutes.
const LEAST: f64 = 1.01;
/// Launches that took turns are compared in pairs where this share of the launches of either side has
/// the other beside it; else what pairs leave out says more than what they share.
const PAIRED_SHARE: f64 = 2.0 / 3.0;

/// What `after` says of what `before` measured too, where the smallest change that matters is this share.
pub fn compare(before: &Run, after: &Run, metrics: Metrics, matters: f64) -> Comparison {
    let (old, new) = (Side::new(before), Side::new(after));
    let in_turns = took_turns(before, after);
    let is_same_boot = boot(before).is_some() && boot(before) == boot(after);
    let is_same_cpu = cpu(before).is_some() && cpu(before) == cpu(after);
    let mut comparison = Comparison {
        in_turns,
        matters,
        missing: missing::missing(&old, &new, after),
        facts: facts::differences(before, after, in_turns),
        only_before: old.without(&new),
        only_after: new.without(&old),
        ..Comparison::default()
    };
    let mut found = Vec::new();
    for point in after.run.plan.points() {
        let (Some(first), Some(second)) = (old.rows.get(point), new.rows.get(point)) else {
            continue;
        };
        let Some(info) = after.probe(&point.probe) else {
            continue;
        };
        let of_interest = info
            .metrics
            .iter()
            .filter(|metric| metrics == Metrics::All || metric.name == info.primary().name);
        let all = [before, after].map(|run| Launches::new(run, point));
        let floors = all.each_ref().map(|launches| launches.floor);
        let distances = all.each_ref().map(|launches| launches.distance_ns);
        let all = all.map(|launches| launches.given);
        let neighbours = in_turns.then(|| neighbours(&all));
        let all = all.map(|launches| launches.into_values().collect::<Vec<_>>());
        for metric in of_interest {
            let row = never_alone(floors, is_same_cpu)
                .and_then(|()| moved(distances, is_same_boot, in_turns))
                .and_then(|()| given(&all, neighbours.as_ref(), &metric.name))
                .and_then(|given| {
                    let grain = grain(&all, &given.medians, [old.step_ns, new.step_ns], metric);
                    compared([first, second], metric, &given, grain)
                });
            match row {
                Ok(row) => found.extend(row),
                Err(reason) => comparison.refused.push(Refused {
                    point: point.clone(),
                    metric: metric.name.clone(),
                    reason,
                }),
            }
        }
    }
    comparison.rows = judged(found, in_turns, matters);
    comparison
}

/// A run by its points.
struct Side<'a> {
    rows: BTreeMap<&'a Point, &'a PointRow>,
    /// The step of the clock.
    step_ns: f64,
}

impl<'a> Side<'a> {
    fn new(run: &'a Run) -> Side<'a> {
        let attempt = run.attempts.last();
        Side {
            rows: run.points.iter().map(|row| (&row.point, row)).collect(),
            step_ns: attempt.map_or(0.0, |attempt| attempt.clock.resolution_ns),
        }
    }

    /// The points of which the other side has no number, in the order of their names.
    fn without(&self, other: &Side<'_>) -> Vec<Point> {
        let points = self.rows.keys();
        points
            .filter(|point| !other.rows.contains_key(*point))
            .map(|point| (*point).clone())
            .collect()
    }
}

/// Whether the launches of these runs took turns, all of them: what was resumed did so no more.
fn took_turns(before: &Run, after: &Run) -> bool {
    let is_beside = |one: &Run, other: &Run| {
        one.run.beside.as_ref() == Some(&other.run.id) && one.attempts.len() < 2
    };
    is_beside(before, after) && is_beside(after, before)
}

/// The launches of a point that count.
struct Launches<'a> {
    /// What they gave, by their block and number.
    given: BTreeMap<(usize, u32), &'a LaunchPoint>,
    /// The lowest floor of their gauge.
    floor: Option<f64>,
    /// How far their CPUs lay apart, in nanoseconds.
    distance_ns: Option<f64>,
}

impl<'a> Launches<'a> {
    fn new(run: &'a Run, point: &Point) -> Launches<'a> {
        let counting = Counting::new(launches_with(run.launches_of(point), point));
        let (floor, distance_ns) = (counting.floor(), counting.distance_ns());
        let given = counting.given.into_iter();
        let given = given.map(|(launch, given)| ((launch.block, launch.launch), given));
        Launches {
            given: given.collect(),
            floor,
            distance_ns,
        }
    }
}

/// What those launches gave that both runs have, in the same order.
fn neighbours<'a>(
    [old, new]: &[BTreeMap<(usize, u32), &'a LaunchPoint>; 2],
) -> [Vec<&'a LaunchPoint>; 2] {
    let both = old
        .iter()
        .filter_map(|(number, first)| Some((*first, *new.get(number)?)));
    let (old, new) = both.unzip();
    [old, new]
}

/// What the launches of both sides give of a metric: those that have the other side's beside them, where
/// `neighbours` are enough of them.
///
/// # Errors
/// Those of [`common`].
fn given(
    launches: &[Vec<&LaunchPoint>; 2],
    neighbours: Option<&[Vec<&LaunchPoint>; 2]>,
    metric: &str,
) -> Result<Given, String> {
    let (selection, core_shared) = common(launches, metric, neighbours.is_some())?;
    let of_all = launches
        .each_ref()
        .map(|side| launch_medians(side, metric, selection));
    let counts = of_all.each_ref().map(Vec::len);
    let pairs = neighbours.map(|neighbours| in_pairs(neighbours, metric, selection));
    let pairs = pairs.filter(|[pairs, _]| {
        let fewer = counts[0].min(counts[1]) as f64;
        pairs.len() >= LEAST_LAUNCHES as usize && pairs.len() as f64 >= PAIRED_SHARE * fewer
    });
    Ok(Given {
        launches: counts,
        in_pairs: pairs.is_some(),
        medians: pairs.unwrap_or(of_all),
        selection,
        core_shared,
    })
}

/// The medians of a metric in those launches where both sides gave it.
fn in_pairs(
    launches: &[Vec<&LaunchPoint>; 2],
    metric: &str,
    selection: Selection,
) -> [Vec<f64>; 2] {
    let [old, new] = launches;
    let median = |launch: &&LaunchPoint| {
        let medians = launch_medians(&[launch], metric, selection);
        medians.first().copied()
    };
    let both = old.iter().zip(new);
    let both = both.filter_map(|(first, second)| Some((median(first)?, median(second)?)));
    let (old, new) = both.unzip();
    [old, new]
}

/// The launches' medians of a metric, of both sides.
struct Given {
    medians: [Vec<f64>; 2],
    /// Whether they are of neighbours: as many of both, in the same order.
    in_pairs: bool,
    /// How many launches of each side gave it, with a neighbour or without.
    launches: [usize; 2],
    /// Of which samples the medians are.
    selection: Selection,
    /// Whether something else used the core meanwhile.
    core_shared: bool,
}

impl Given {
    /// How far the logarithms of the second side's are from those of the first.
    fn difference(&self) -> Option<Difference> {
        let logs = |values: &Vec<f64>| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let [first, second] = self.medians.each_ref().map(logs);
        if self.in_pairs {
            Difference::paired(&first, &second)
        } else {
            Difference::welch(&first, &second)
        }
    }

    /// Whether there are enough for an interval.
    ///
    /// # Errors
    /// What is missing, and of which run.
    fn suffices(&self) -> Result<(), String> {
        let sides = || ["before", "after"].into_iter().zip(self.launches);
        if let Some((which, _)) = sides().find(|(_, count)| *count == 0) {
            return Err(format!(
                "the run {which} has no launches of it: an export has none (compare the run itself)"
            ));
        }
        match sides().find(|(_, count)| *count < LEAST_LAUNCHES as usize) {
            Some((which, count)) => Err(format!(
                "the run {which} has {count} of the {LEAST_LAUNCHES} launches that an interval needs: its failures say why the others are missing, and --full makes more"
            )),
            None => Ok(()),
        }
    }
}

/// One metric of one point, not yet judged among others; `None` where neither run has it. What is
/// distinguished at all is `grain` or more of it, as a share.
fn compared(
    rows: [&PointRow; 2],
    metric: &MetricInfo,
    given: &Given,
    grain: f64,
) -> Result<Option<(Compared, Difference)>, String> {
    let medians = &given.medians;
    let [before, after] = medians;
    let is_absent = given.launches == [0, 0];
    if is_absent && rows.iter().all(|row| row.state != State::Ok) {
        return Err("below resolution in both".to_owned());
    }
    if is_absent && metric.name != rows[1].primary {
        return Ok(None);
    }
    let [old, new] = rows.map(|row| row.method);
    if old != new {
        return Err(format!(
            "measured by method {old} before and by method {new} after, which do not measure the same thing: measure both with one costof"
        ));
    }
    given.suffices()?;
    let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
    if !medians.iter().flatten().all(is_positive) {
        return Err("not above zero in each launch, so there is no ratio".to_owned());
    }
    let too_few = || "too few launches".to_owned();
    let found = given.difference().ok_or_else(too_few)?;
    // Launches that agree to the last digit do so because nothing finer can be distinguished.
    let found = Difference {
        error: found.error.max(grain),
        ..found
    };
    let half = found.half_width(CONFIDENCE).ok_or_else(too_few)?;
    let ci95 = ((found.of_means - half).exp(), (found.of_means + half).exp());
    if is_too_wide(ci95) {
        let reason = "their launches disagree by more than a factor of ten: measure more often \
                      (--launches) or longer (--full)";
        return Err(reason.to_owned());
    }
    let centre = |values: &[f64]| {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        trimmed_mean(&logs).map_or(f64::NAN, f64::exp)
    };
    // The number that the run itself shows of this point.
    let shown =
        |row: &PointRow, values: &[f64]| row.median(&metric.name).unwrap_or_else(|| centre(values));
    let row = Compared {
        point: rows[1].point.clone(),
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        before: (shown(rows[0], before), before.len() as u32),
        after: (shown(rows[1], after), after.len() as u32),
        ratio: found.of_means.exp(),
        ci95,
        p: found.p(LEAST.ln()),
        verdict: Verdict::CannotTell,
        cause: None,
        visible: f64::NAN,
        selection: given.selection,
        core_shared: given.core_shared,
    };
    Ok(Some((row, found)))
}

/// The standard error that is left where all launches agree: single operations are counted in
/// buckets, and timed by a clock that has steps.
fn grain(
    launches: &[Vec<&LaunchPoint>; 2],
    medians: &[Vec<f64>; 2],
    step_ns: [f64; 2],
    metric: &MetricInfo,
) -> f64 {
    let of_side = [0, 1].map(|side| {
        let given = launches[side].iter().flat_map(|launch| &launch.metrics);
        let is_single = given
            .filter(|given| given.name == metric.name)
            .any(|given| matches!(given.data, Data::Histogram(_)));
        let least = medians[side].iter().copied().fold(f64::INFINITY, f64::min);
        if !is_single || least <= 0.0 {
            return 0.0;
        }
        // Evenly spread over a step.
        (step_ns[side] / least + 2.0 * HALF_BUCKET) / 12.0_f64.sqrt()
    });
    of_side[0].hypot(of_side[1])
}

#[cfg(test)]
mod tests;

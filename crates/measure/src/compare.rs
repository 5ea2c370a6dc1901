//! Compares the launches of two runs. Pure.
//!
//! A launch gives one value of each metric, its median. The ratio compares the geometric means of
//! the two runs' launches, each without its least and its greatest eighth. Its interval is Welch's
//! t on the logarithms, since costs are skewed. If the launches of both runs took turns, launches
//! of the same number are neighbours in time and met the same conditions on the machine. The
//! interval is then Student's t on the logarithms of their ratios. Who looks at many rows finds
//! differences by chance. So verdicts hold for all rows together, by Holm's procedure (S. Holm, "A
//! simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
//! 1979): of twenty comparisons in which nothing changed, one raises a false alarm.
//!
//! Only samples that had the core to themselves count, if both runs have enough of them. Otherwise
//! samples that shared the core are compared with samples that shared it, and the result says so.
//! Alone is never compared with shared. Launches that took turns met the same neighbours, so all
//! their samples are compared.
//!
//! Work of one core takes a number of core cycles, whatever the clock is. Where each launch of both runs
//! read the clock around its batches, cycles are compared instead of times, and the result has both clocks.
//!
//! Some things change between runs but not between the launches of one run: the load of the host,
//! the core clock, where the kernel's memory lies since boot. The spread of the launches does not
//! show them, so two runs that are far apart in time may differ for such reasons.
//!
//! An export has no launches. Then the medians of two runs are compared by their intervals.

mod comparable;
mod exported;
mod facts;
pub(crate) mod groups;
pub(crate) use comparable::boot;
pub(crate) use facts::machine_facts;
pub use groups::compare_groups;
mod judge;
mod missing;

use crate::estimate::{half_bucket, launch_cycles, launch_medians};
use crate::launches::{Counting, with_a_number};
use crate::schedule::MIN_LAUNCHES;
use comparable::{common, cpu, moved, never_alone};
use costof_model::comparison::{Refused, Verdict};
use costof_model::metric::is_too_wide;
use costof_model::{
    Better, Compared, Comparison, Data, LaunchPoint, MetricInfo, Point, PointRow, Run, Selection,
    State, Text, Unit,
};
use costof_stats::{CONFIDENCE, Difference, trimmed_mean};
use judge::{Found, judged};
use std::collections::BTreeMap;

/// Which metrics are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// The primary metric of each probe.
    Primary,
    /// All metrics of which both runs have launches.
    All,
}

/// The smallest change that matters unless the user chooses another, as a share.
pub const MATTERS: f64 = 0.05;
/// A ratio closer to one than this counts as no change: the core clock alone drifts as much within
/// minutes.
const MIN: f64 = 1.01;
/// Launches that took turns are compared in pairs if at least this share of each side's launches
/// has a partner. Otherwise the unpaired launches would outweigh the pairs.
const PAIRED_SHARE: f64 = 2.0 / 3.0;

/// Compares `after` with `before` in what both measured. `matters` is the smallest change that
/// matters, as a share.
pub fn compare(before: &Run, after: &Run, metrics: Metrics, matters: f64) -> Comparison {
    let (old, new) = (Side::new(before), Side::new(after));
    let is_same_boot = boot(before).is_some() && boot(before) == boot(after);
    let is_same_cpu = cpu(before).is_some() && cpu(before) == cpu(after);
    let has_no_launch = |run: &Run| run.launches.is_empty() && !run.points.is_empty();
    let is_exported = [before, after].into_iter().any(has_no_launch);
    let in_turns = took_turns(before, after) && !is_exported;
    let mut comparison = Comparison {
        in_turns,
        is_exported,
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
            let of_launches = || {
                never_alone(floors, is_same_cpu)
                    .and_then(|()| moved(distances, is_same_boot, in_turns))
                    .and_then(|()| given(&all, neighbours.as_ref(), &metric.name))
                    .and_then(|given| {
                        let grain = grain(&all, &given.medians, [old.step_ns, new.step_ns], metric);
                        compared([first, second], metric, &given, grain)
                    })
            };
            let row = match is_exported {
                true => exported::compared([first, second], metric),
                false => of_launches(),
            };
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
    let found = Found { rows: found, layers: Vec::new() };
    (comparison.rows, _) = judged(found, in_turns, matters);
    comparison
}

/// A run, indexed by point.
struct Side<'a> {
    rows: BTreeMap<&'a Point, &'a PointRow>,
    /// The resolution of the clock.
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

    /// The points for which the other side has no number, in the order of their names.
    fn without(&self, other: &Side<'_>) -> Vec<Point> {
        let points = self.rows.keys();
        points
            .filter(|point| !other.rows.contains_key(*point))
            .map(|point| (*point).clone())
            .collect()
    }
}

/// Whether all launches of these runs took turns; not if a run was resumed.
fn took_turns(before: &Run, after: &Run) -> bool {
    let is_beside = |one: &Run, other: &Run| {
        one.run.beside.as_ref() == Some(&other.run.id) && one.attempts.len() < 2
    };
    is_beside(before, after) && is_beside(after, before)
}

/// The launches of a point that count.
struct Launches<'a> {
    /// The results, by block and launch number.
    given: BTreeMap<(usize, u32), &'a LaunchPoint>,
    /// The lowest floor of their gauge.
    floor: Option<f64>,
    /// The distance between their CPUs, in nanoseconds.
    distance_ns: Option<f64>,
}

impl<'a> Launches<'a> {
    fn new(run: &'a Run, point: &Point) -> Launches<'a> {
        let counting = Counting::new(with_a_number(run.given_to(point), point));
        let (floor, distance_ns) = (counting.floor(), counting.distance_ns());
        let given = counting.given.into_iter();
        let given = given.map(|(launch, given)| ((launch.block, launch.launch), given));
        Launches { given: given.collect(), floor, distance_ns }
    }
}

/// The results of the launches that both runs have, in the same order.
fn neighbours<'a>(
    [old, new]: &[BTreeMap<(usize, u32), &'a LaunchPoint>; 2],
) -> [Vec<&'a LaunchPoint>; 2] {
    let both = old.iter().filter_map(|(number, first)| Some((*first, *new.get(number)?)));
    let (old, new) = both.unzip();
    [old, new]
}

/// The values of a metric on both sides. If enough launches have a partner in `neighbours`, only
/// those count.
///
/// # Errors
/// The errors of [`common`].
fn given(
    launches: &[Vec<&LaunchPoint>; 2],
    neighbours: Option<&[Vec<&LaunchPoint>; 2]>,
    metric: &str,
) -> Result<Given, String> {
    let (selection, core_shared) = common(launches, metric, neighbours.is_some())?;
    let clocks = at_equal_clocks(launches, metric, selection);
    let medians = |side: &[&LaunchPoint]| match clocks.and(launch_cycles(side, metric, selection)) {
        Some((cycles, _)) => cycles,
        None => launch_medians(side, metric, selection),
    };
    let of_all = launches.each_ref().map(|side| medians(side));
    let counts = of_all.each_ref().map(Vec::len);
    let pairs = neighbours.map(|neighbours| in_pairs(neighbours, medians));
    let pairs = pairs.filter(|[pairs, _]| {
        let fewer = counts[0].min(counts[1]) as f64;
        pairs.len() >= MIN_LAUNCHES as usize && pairs.len() as f64 >= PAIRED_SHARE * fewer
    });
    Ok(Given {
        launches: counts,
        in_pairs: pairs.is_some(),
        medians: pairs.unwrap_or(of_all),
        selection,
        core_shared,
        clocks,
    })
}

/// The core clocks of both sides in hertz, if each launch knows its own: then both are compared in core cycles, as if
/// their clocks were equal.
fn at_equal_clocks(
    launches: &[Vec<&LaunchPoint>; 2],
    metric: &str,
    selection: Selection,
) -> Option<(f64, f64)> {
    let [old, new] =
        launches.each_ref().map(|side| launch_cycles(side, metric, selection).map(|(_, hz)| hz));
    old.zip(new)
}

/// The medians of both sides, from those launches in which both have one.
fn in_pairs(
    launches: &[Vec<&LaunchPoint>; 2],
    medians: impl Fn(&[&LaunchPoint]) -> Vec<f64>,
) -> [Vec<f64>; 2] {
    let [old, new] = launches;
    let median = |launch: &&LaunchPoint| medians(&[launch]).first().copied();
    let both =
        old.iter().zip(new).filter_map(|(first, second)| Some((median(first)?, median(second)?)));
    let (old, new) = both.unzip();
    [old, new]
}

/// The launch medians of a metric on both sides.
struct Given {
    medians: [Vec<f64>; 2],
    /// Whether they are in pairs: equally many on both sides, in the same order.
    in_pairs: bool,
    /// How many launches of each side gave a median, paired or not.
    launches: [usize; 2],
    /// Which samples the medians were computed from.
    selection: Selection,
    /// Whether something else used the core during these samples.
    core_shared: bool,
    /// The core clocks of both sides in hertz, if the medians are in core cycles.
    clocks: Option<(f64, f64)>,
}

impl Given {
    /// The difference between the logarithms of the second side's medians and the first side's.
    fn difference(&self) -> Option<Difference> {
        let logs = |values: &Vec<f64>| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
        let [first, second] = self.medians.each_ref().map(logs);
        if self.in_pairs {
            Difference::paired(&first, &second)
        } else {
            Difference::welch(&first, &second)
        }
    }

    /// Checks that there are enough values for an interval.
    ///
    /// # Errors
    /// What is missing, and in which run.
    fn suffices(&self) -> Result<(), String> {
        let sides = || ["before", "after"].into_iter().zip(self.launches);
        if let Some((which, _)) = sides().find(|(_, count)| *count == 0) {
            return Err(format!("the run {which} has no launches of it"));
        }
        match sides().find(|(_, count)| *count < MIN_LAUNCHES as usize) {
            Some((which, count)) => Err(format!(
                "the run {which} has {count} of the {MIN_LAUNCHES} launches that an interval needs: its failures say why the others are missing, and --full makes more"
            )),
            None => Ok(()),
        }
    }
}

/// Compares one metric of one point, before all rows are judged together; `None` if neither run has
/// it. Changes below `grain`, as a share, cannot be distinguished.
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
    expect_one_method(rows)?;
    given.suffices()?;
    let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
    if !medians.iter().flatten().all(is_positive) {
        return Err("not above zero in each launch, so there is no ratio".to_owned());
    }
    let found = given.difference().ok_or("too few launches")?;
    // Launches agree to the last digit because the clock cannot distinguish anything finer.
    let found = Difference { error: found.error.max(grain), ..found };
    let centre = |values: &[f64], hz: Option<f64>| {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        trimmed_mean(&logs).map_or(f64::NAN, f64::exp) / hz.map_or(1.0, |hz| hz / 1e9)
    };
    let clocks = given.clocks;
    // The number that the run itself shows for this point.
    let shown = |row: &PointRow, values: &[f64], hz: Option<f64>| {
        row.median(&metric.name).unwrap_or_else(|| centre(values, hz))
    };
    let sides = [
        (shown(rows[0], before, clocks.map(|clocks| clocks.0)), before.len() as u32),
        (shown(rows[1], after, clocks.map(|clocks| clocks.1)), after.len() as u32),
    ];
    let of = (metric.name.clone(), metric.unit, metric.better);
    let row = row(rows[1], of, sides, &found).ok_or(
        "their launches disagree by more than a factor of ten: measure more often (--launches) or longer (--full)",
    )?;
    let Given { selection, core_shared, .. } = *given;
    Ok(Some((Compared { selection, core_shared, clocks, ..row }, found)))
}

/// A row before all rows are judged together; `None` if its interval is too wide to say anything.
fn row(
    of: &PointRow,
    (metric, unit, better): (Text, Unit, Better),
    [before, after]: [(f64, u32); 2],
    found: &Difference,
) -> Option<Compared> {
    let half = found.half_width(CONFIDENCE)?;
    let ci95 = ((found.of_means - half).exp(), (found.of_means + half).exp());
    (!is_too_wide(ci95)).then(|| Compared {
        point: of.point.clone(),
        label: of.label.clone().filter(|_| metric == of.primary),
        metric,
        unit,
        better,
        before,
        after,
        ratio: found.of_means.exp(),
        ci95,
        p: found.p(MIN.ln()),
        verdict: Verdict::CannotTell,
        needed: None,
        visible: f64::NAN,
        selection: Selection::All,
        core_shared: false,
        clocks: None,
    })
}

/// # Errors
/// The rows were measured by different methods.
fn expect_one_method(rows: [&PointRow; 2]) -> Result<(), String> {
    let [old, new] = rows.map(|row| row.method);
    if old == new {
        return Ok(());
    }
    Err(format!(
        "measured by method {old} before and by method {new} after, which do not measure the same thing: measure both with one costof"
    ))
}

/// The standard error that remains if all launches agree: latencies are counted in buckets, and the
/// clock advances in steps.
fn grain(
    launches: &[Vec<&LaunchPoint>; 2],
    medians: &[Vec<f64>; 2],
    step_ns: [f64; 2],
    metric: &MetricInfo,
) -> f64 {
    let of_side = [0, 1].map(|side| {
        let given = launches[side].iter().flat_map(|launch| &launch.metrics);
        let mut singles = given
            .filter(|given| given.name == metric.name)
            .filter(|given| matches!(given.data, Data::Histogram(_)))
            .peekable();
        let is_single = singles.peek().is_some();
        let half = singles.map(half_bucket).fold(0.0, f64::max);
        let least = medians[side].iter().copied().fold(f64::INFINITY, f64::min);
        if !is_single || least <= 0.0 {
            return 0.0;
        }
        // The error is spread evenly over a step.
        (step_ns[side] / least + 2.0 * half) / 12.0_f64.sqrt()
    });
    of_side[0].hypot(of_side[1])
}

#[cfg(test)]
mod tests;

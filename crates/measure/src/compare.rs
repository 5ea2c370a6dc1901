//! From the launches of two runs to what they say of each other. Pure.
//!
//! A launch is one value of each metric, its median. The ratio is that of the geometric means of
//! the two runs' launches, its interval Welch's t on their logarithms, as costs are skewed. Looking at
//! many rows finds differences by chance: verdicts hold for all rows together, by Holm's procedure
//! (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
//! Statistics 6, 1979), so that of twenty comparisons of what is the same, one has a false alarm.
//!
//! What changes between runs and not between the launches of one (neighbours, the core clock, where
//! a kernel's memory lies since boot) is in no launch's spread: two runs far apart in time may differ
//! for such reasons.

mod facts;

use crate::estimate::{HALF_BUCKET, launch_medians};
use crate::schedule::LEAST_LAUNCHES;
use crate::statistics::interval::CONFIDENCE;
use crate::statistics::quantile::mean;
use crate::statistics::welch::{Difference, difference};
use costof_model::comparison::{Compared, Comparison, Refused, Verdict};
use costof_model::metric::{Data, MetricInfo};
use costof_model::point::Point;
use costof_model::rows::{LaunchPoint, PointRow, State};
use costof_model::run_file::Run;
use costof_model::unit::Better;
use std::collections::BTreeMap;

/// Which metrics are held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metrics {
    /// The one that answers each probe's question.
    Primary,
    /// All of which both runs have launches.
    All,
}

/// A ratio nearer to one than this is none: the core's clock alone drifts by as much within minutes.
const LEAST: f64 = 1.01;
/// What [`Compared::visible`] is seen with.
const OFTEN: f64 = 0.9;

/// What `after` says of what `before` measured too.
pub fn compare(before: &Run, after: &Run, metrics: Metrics) -> Comparison {
    let (old, new) = (Side::of(before), Side::of(after));
    let mut comparison = Comparison {
        facts: facts::differences(before, after),
        only_before: old.without(&new),
        only_after: new.without(&old),
        ..Comparison::default()
    };
    let mut found = Vec::new();
    for point in after.run.plan.blocks.iter().flat_map(|block| &block.points) {
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
        for metric in of_interest {
            let medians = [&old, &new].map(|side| side.medians(point, metric));
            match compared(
                [first, second],
                metric,
                &medians,
                grain([&old, &new], point, metric),
            ) {
                Ok(row) => found.extend(row),
                Err(reason) => comparison.refused.push(Refused {
                    point: point.clone(),
                    metric: metric.name.clone(),
                    reason,
                }),
            }
        }
    }
    comparison.rows = judged(found);
    comparison
}

/// A run by its points.
struct Side<'a> {
    rows: BTreeMap<&'a Point, &'a PointRow>,
    launches: BTreeMap<&'a Point, Vec<&'a LaunchPoint>>,
    /// The step of the clock.
    step_ns: f64,
}

impl<'a> Side<'a> {
    fn of(run: &'a Run) -> Side<'a> {
        let mut launches: BTreeMap<&Point, Vec<&LaunchPoint>> = BTreeMap::new();
        for given in run.launches.iter().flat_map(|launch| &launch.points) {
            if given.state == State::Ok {
                launches.entry(&given.point).or_default().push(given);
            }
        }
        let rows = run.points.iter().map(|row| (&row.point, row)).collect();
        let step_ns = run
            .attempts
            .last()
            .map_or(0.0, |attempt| attempt.clock.resolution_ns);
        Side {
            rows,
            launches,
            step_ns,
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

    /// The median of each launch.
    fn medians(&self, point: &Point, metric: &MetricInfo) -> Vec<f64> {
        let launches = self.launches.get(point).map_or(&[][..], Vec::as_slice);
        launch_medians(launches, &metric.name)
    }
}

/// One metric of one point, not yet judged among others; `None` where neither run has it. What is
/// told apart at all is `grain` or more of it, as a share.
fn compared(
    rows: [&PointRow; 2],
    metric: &MetricInfo,
    medians: &[Vec<f64>; 2],
    grain: f64,
) -> Result<Option<(Compared, Difference)>, String> {
    let [before, after] = medians;
    if before.is_empty() && after.is_empty() && rows.iter().all(|row| row.state != State::Ok) {
        return Err("below resolution in both".to_owned());
    }
    if before.is_empty() && after.is_empty() && metric.name != rows[1].primary {
        return Ok(None);
    }
    let [old, new] = rows.map(|row| row.method);
    if old != new {
        return Err(format!(
            "measured by method {old} before and by method {new} after, which are not the same \
             thing: measure both with one costof"
        ));
    }
    let sides = [("before", before), ("after", after)];
    if let Some((which, few)) = sides
        .iter()
        .find(|(_, values)| values.len() < LEAST_LAUNCHES as usize)
    {
        return Err(match few.len() {
            0 => format!(
                "the run {which} holds no launch of it: an export has none (compare the run itself)"
            ),
            count => format!(
                "the run {which} has {count} of the {LEAST_LAUNCHES} launches that an interval needs: \
                 its failures say what became of the others, and --full makes more"
            ),
        });
    }
    let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
    if !medians.iter().flatten().all(is_positive) {
        return Err("not above zero in each launch, so there is no ratio".to_owned());
    }
    let logs = [before, after].map(|values| values.iter().map(|value| value.ln()).collect());
    let [first, second]: [Vec<f64>; 2] = logs;
    let too_few = || "too few launches".to_owned();
    let found = difference(&first, &second).ok_or_else(too_few)?;
    // Launches that agree to the last digit do so because nothing finer can be told.
    let found = Difference {
        error: found.error.max(grain),
        ..found
    };
    let half = found.half_width(CONFIDENCE).ok_or_else(too_few)?;
    let centre = |logs: &[f64]| mean(logs).map_or(f64::NAN, f64::exp);
    let row = Compared {
        point: rows[1].point.clone(),
        metric: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        before: (centre(&first), first.len() as u32),
        after: (centre(&second), second.len() as u32),
        ratio: found.of_means.exp(),
        ci95: ((found.of_means - half).exp(), (found.of_means + half).exp()),
        p: found.p(LEAST.ln()),
        verdict: Verdict::NoDifference,
        visible: f64::NAN,
    };
    Ok(Some((row, found)))
}

/// The standard error that is left where all launches agree: single operations are counted in
/// buckets, and timed by a clock that has steps.
fn grain(sides: [&Side<'_>; 2], point: &Point, metric: &MetricInfo) -> f64 {
    let of_side = sides.map(|side| {
        let launches = side.launches.get(point).map_or(&[][..], Vec::as_slice);
        let is_single = launches
            .iter()
            .flat_map(|launch| &launch.metrics)
            .any(|given| given.name == metric.name && matches!(given.data, Data::Histogram(_)));
        let least = side
            .medians(point, metric)
            .into_iter()
            .fold(f64::INFINITY, f64::min);
        match is_single && least > 0.0 {
            // Evenly spread over a step.
            true => (side.step_ns / least + 2.0 * HALF_BUCKET) / 12.0_f64.sqrt(),
            false => 0.0,
        }
    });
    of_side[0].hypot(of_side[1])
}

/// Says what each row means among all of them.
fn judged(mut found: Vec<(Compared, Difference)>) -> Vec<Compared> {
    let count = found.len();
    // Holm: the least of m rows must have p below 5 % ÷ m, the next below 5 % ÷ (m - 1) …
    let mut by_p: Vec<usize> = (0..count).collect();
    by_p.sort_by(|a, b| found[*a].0.p.total_cmp(&found[*b].0.p));
    for (rank, at) in by_p.into_iter().enumerate() {
        let row = &mut found[at].0;
        let is_rare = row.p < (1.0 - CONFIDENCE) / (count - rank) as f64;
        if !is_rare {
            break;
        }
        row.verdict = match (row.better, row.ratio > 1.0) {
            (Better::Neither, _) => Verdict::Differs,
            (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
        };
    }
    // Of what is still alike, the first would have to stand against all of them.
    let corrected = 1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64;
    let rows = found.into_iter().map(|(row, difference)| Compared {
        visible: difference
            .visible(corrected, OFTEN)
            .map_or(f64::NAN, |visible| (visible + LEAST.ln()).exp_m1()),
        ..row
    });
    rows.collect()
}

#[cfg(test)]
mod tests;

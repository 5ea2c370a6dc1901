//! Which launches of a point count, by what was recorded of them and never by their times: those whose
//! cores could be alone, also that of the other end, and whose CPUs lay at the distance that most had.

use crate::distance::is_alike;
use crate::gauge::ALONE;
use crate::schedule::LEAST_LAUNCHES;
use costof_model::point::Point;
use costof_model::rows::{LaunchPoint, LaunchRow, State};
use costof_stats::median;

/// Launches, each with what it gave of a point.
pub(crate) type Given<'a> = Vec<(&'a LaunchRow, &'a LaunchPoint)>;

/// The launches of a point that count.
pub(crate) struct Counting<'a> {
    /// These.
    pub(crate) given: Given<'a>,
    /// How many of them had a core that was never alone: too few others were left.
    pub(crate) never_alone: usize,
    /// How many are left out, or stay since too few others were left, in which something else used the
    /// core of the other end.
    pub(crate) other_end_shared: (usize, usize),
    /// How many are left out as their CPUs lay at another distance.
    pub(crate) elsewhere: usize,
}

impl<'a> Counting<'a> {
    /// Those of these launches.
    pub(crate) fn new(mut given: Given<'a>) -> Counting<'a> {
        let never_alone = leave_out_never_alone(&mut given);
        let other_end_shared = leave_out_other_end_shared(&mut given);
        let elsewhere = leave_out_other_distances(&mut given);
        Counting {
            given,
            never_alone,
            other_end_shared,
            elsewhere,
        }
    }

    /// The lowest floor of the core's gauge that any of them took; `None` where none was read.
    pub(crate) fn floor(&self) -> Option<f64> {
        least_floor(&self.given)
    }

    /// How far their CPUs lay apart, in nanoseconds; `None` where one was measured.
    pub(crate) fn distance_ns(&self) -> Option<f64> {
        let distances = self
            .given
            .iter()
            .filter_map(|(launch, _)| distance_ns(launch));
        median(&distances.collect::<Vec<f64>>())
    }
}

/// The launches that gave a number of a point, each with what it gave.
pub(crate) fn launches_with<'a>(
    launches: impl Iterator<Item = &'a LaunchRow>,
    point: &Point,
) -> Given<'a> {
    let given = launches.flat_map(|launch| launch.points.iter().map(move |given| (launch, given)));
    given
        .filter(|(_, given)| given.point == *point && given.state == State::Ok)
        .collect()
}

/// Leaves out launches that took a higher floor for that of the core than others did: it was never
/// alone in them, and what they call alone is not. Where too few others are left, all stay. How many
/// such stay is returned.
fn leave_out_never_alone(given: &mut Given<'_>) -> usize {
    let Some(least) = least_floor(given) else {
        return 0;
    };
    let was_alone = |launch: &LaunchRow| floor(launch).is_none_or(|own| own <= least * ALONE);
    let left = given.iter().filter(|(launch, _)| was_alone(launch)).count();
    if left >= LEAST_LAUNCHES as usize {
        given.retain(|(launch, _)| was_alone(launch));
    }
    given.len() - left
}

fn least_floor(given: &Given<'_>) -> Option<f64> {
    let floors = given.iter().filter_map(|(launch, _)| floor(launch));
    floors.reduce(f64::min)
}

fn floor(launch: &LaunchRow) -> Option<f64> {
    launch.noise.core.map(|core| core.floor)
}

/// Leaves out launches during most of which something else used the core of the other end. Where too few
/// others are left, all stay. How many were left out, and how many such stay, is returned.
fn leave_out_other_end_shared(given: &mut Given<'_>) -> (usize, usize) {
    let was_alone = |launch: &LaunchRow| {
        let alone = launch.noise.other_core.and_then(|core| core.alone());
        alone.is_none_or(|share| share >= 0.5)
    };
    let left = given.iter().filter(|(launch, _)| was_alone(launch)).count();
    let shared = given.len() - left;
    if left < LEAST_LAUNCHES as usize {
        return (0, shared);
    }
    given.retain(|(launch, _)| was_alone(launch));
    (shared, 0)
}

/// Leaves out launches whose CPUs lay at another distance than those of most, or moved meanwhile: a
/// hypervisor places two CPUs on one core, on two that share a cache, or on two that share none, and
/// what they exchange has another cost each time. Where no distance has enough launches, all stay. How
/// many are left out is returned.
fn leave_out_other_distances(given: &mut Given<'_>) -> usize {
    let all = given.len();
    let distances = given.iter().filter_map(|(launch, _)| distance_ns(launch));
    let distances: Vec<f64> = distances.collect();
    let at = |ns: f64| {
        let alike = distances.iter().filter(|other| is_alike(ns, **other));
        alike.count()
    };
    // Of equally many the nearest.
    let most = distances.iter().copied().min_by(|one, other| {
        let count = at(*other).cmp(&at(*one));
        count.then(one.total_cmp(other))
    });
    if let Some(ns) = most.filter(|ns| at(*ns) >= LEAST_LAUNCHES as usize) {
        given.retain(|(launch, _)| {
            let is_there = || distance_ns(launch).is_some_and(|other| is_alike(ns, other));
            launch.noise.distance_ns.is_none() || is_there()
        });
    }
    all - given.len()
}

/// How far a launch's CPUs lay apart, in nanoseconds; `None` where they moved meanwhile, or one was
/// measured.
fn distance_ns(launch: &LaunchRow) -> Option<f64> {
    let (before, after) = launch.noise.distance_ns?;
    is_alike(before, after).then(|| f64::midpoint(before, after))
}

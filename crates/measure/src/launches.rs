//! Chooses which launches of a point count, by what was recorded of them and never by their times.
//! A launch counts if its core, and that of the other end, could be alone, and if its CPUs were at
//! the distance that most launches had.

use crate::distance::is_alike;
use crate::gauge::ALONE;
use crate::schedule::MIN_LAUNCHES;
use costof_model::{LaunchPoint, LaunchRow, Point, State};
use costof_stats::median;

/// Launches, each with its result for a point.
pub(crate) type Given<'a> = Vec<(&'a LaunchRow, &'a LaunchPoint)>;

/// The launches of a point that count.
pub(crate) struct Counting<'a> {
    /// The launches and their results.
    pub(crate) given: Given<'a>,
    /// In how many of them the core was never alone; they stay because too few others were left.
    pub(crate) never_alone: usize,
    /// In how many launches something else used the core of the other end: those left out, or those
    /// that stay because too few others were left.
    pub(crate) other_end_shared: (usize, usize),
    /// How many were left out because their CPUs were at another distance.
    pub(crate) elsewhere: usize,
}

impl<'a> Counting<'a> {
    /// Selects from these launches.
    pub(crate) fn new(mut given: Given<'a>) -> Counting<'a> {
        let never_alone = leave_out_never_alone(&mut given);
        let other_end_shared = leave_out_other_end_shared(&mut given);
        let elsewhere = leave_out_other_distances(&mut given);
        Counting { given, never_alone, other_end_shared, elsewhere }
    }

    /// The lowest floor of the core's gauge in any of them; `None` if no gauge was read.
    pub(crate) fn floor(&self) -> Option<f64> {
        least_floor(&self.given)
    }

    /// The distance between their CPUs, in nanoseconds; `None` if it was not measured.
    pub(crate) fn distance_ns(&self) -> Option<f64> {
        let distances = self.given.iter().filter_map(|(launch, _)| distance_ns(launch));
        median(&distances.collect::<Vec<f64>>())
    }
}

/// The launches that have a number for a point, each with its result.
pub(crate) fn launches_with<'a>(
    launches: impl Iterator<Item = &'a LaunchRow>,
    point: &Point,
) -> Given<'a> {
    let given = launches.flat_map(|launch| launch.points.iter().map(move |given| (launch, given)));
    with_a_number(given, point)
}

/// Those of these results that have a number for the point.
pub(crate) fn with_a_number<'a>(
    given: impl Iterator<Item = (&'a LaunchRow, &'a LaunchPoint)>,
    point: &Point,
) -> Given<'a> {
    given.filter(|(_, given)| given.point == *point && given.state == State::Ok).collect()
}

/// Leaves out launches whose floor for the core is higher than that of other launches: the core was
/// never alone in them, and what they call alone is not. If too few others are left, all stay.
/// Returns how many such launches stay.
fn leave_out_never_alone(given: &mut Given<'_>) -> usize {
    let Some(least) = least_floor(given) else {
        return 0;
    };
    let was_alone = |launch: &LaunchRow| floor(launch).is_none_or(|own| own <= least * ALONE);
    let left = given.iter().filter(|(launch, _)| was_alone(launch)).count();
    if left >= MIN_LAUNCHES as usize {
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

/// Leaves out launches during most of which something else used the core of the other end. If too
/// few others are left, all stay. Returns how many were left out, and how many such launches stay.
fn leave_out_other_end_shared(given: &mut Given<'_>) -> (usize, usize) {
    let was_alone = |launch: &LaunchRow| {
        let alone = launch.noise.other_core.and_then(|core| core.alone());
        alone.is_none_or(|share| share >= 0.5)
    };
    let left = given.iter().filter(|(launch, _)| was_alone(launch)).count();
    let shared = given.len() - left;
    if left < MIN_LAUNCHES as usize {
        return (0, shared);
    }
    given.retain(|(launch, _)| was_alone(launch));
    (shared, 0)
}

/// Leaves out launches whose CPUs moved, or were at another distance than those of most launches. A
/// hypervisor may place two CPUs on one core, on two cores that share a cache, or on two that share
/// none; what they exchange costs differently each time. If no distance has enough launches, all
/// stay. Returns how many were left out.
// METHOD 10
fn leave_out_other_distances(given: &mut Given<'_>) -> usize {
    let all = given.len();
    let distances: Vec<f64> = given.iter().filter_map(|(launch, _)| distance_ns(launch)).collect();
    let at = |ns: f64| {
        let alike = distances.iter().filter(|other| is_alike(ns, **other));
        alike.count()
    };
    // Of equally frequent distances, the nearest.
    let most = distances.iter().copied().min_by(|one, other| {
        let count = at(*other).cmp(&at(*one));
        count.then(one.total_cmp(other))
    });
    if let Some(ns) = most.filter(|ns| at(*ns) >= MIN_LAUNCHES as usize) {
        given.retain(|(launch, _)| {
            let is_there = || distance_ns(launch).is_some_and(|other| is_alike(ns, other));
            launch.noise.distance_ns.is_none() || is_there()
        });
    }
    all - given.len()
}

/// The distance between a launch's CPUs, in nanoseconds; `None` if they moved during the launch, or
/// if no distance was measured.
fn distance_ns(launch: &LaunchRow) -> Option<f64> {
    let (before, after) = launch.noise.distance_ns?;
    is_alike(before, after).then(|| f64::midpoint(before, after))
}

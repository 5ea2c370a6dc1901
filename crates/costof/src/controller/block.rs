//! The part of a block of the plan that a run file already holds.

use crate::record::Record;
use costof_model::{Block, Failure, FailureKind, FailureRow, LaunchRow, Point, State};
use std::collections::BTreeSet;
use std::time::Duration;

/// A point that crashed in this many launches is left out of later ones.
const CRASHES_MAX: usize = 2;

/// A block of a run, by its position in the plan.
#[derive(Clone, Copy)]
pub(super) struct BlockState<'a> {
    pub(super) record: &'a Record,
    pub(super) block: usize,
}

impl<'a> BlockState<'a> {
    pub(super) fn planned(self) -> &'a Block {
        &self.record.run.run.plan.blocks[self.block]
    }

    pub(super) fn launches(self) -> impl Iterator<Item = &'a LaunchRow> {
        self.record.launches_of(self.block)
    }

    /// The launches with a result.
    pub(super) fn useful(self) -> impl Iterator<Item = &'a LaunchRow> {
        self.launches().filter(|launch| gave_something(launch))
    }

    /// Whether something else on its core disturbs it: always, unless it waits for others by design, as its launches
    /// so far show. The ledger of such a launch records no waiting, and not because that is unknown.
    pub(super) fn is_sensitive(self) -> bool {
        const WAITING: &str = "run_queue_wait";
        let waits = |launch: &LaunchRow| {
            let noise = &launch.noise;
            noise.run_queue_wait_ns.is_none() && !noise.unknown.contains_key(WAITING)
        };
        !self.useful().any(waits)
    }

    fn failures(self, point: &Point) -> impl Iterator<Item = &'a FailureRow> {
        let failures = self.record.run.failures.iter();
        failures.filter(move |row| row.block == self.block && row.point == *point)
    }

    /// The first reason why a point has no number; none if a launch gave it one.
    pub(super) fn first_failure(self, point: &Point) -> Option<Failure> {
        let gave = |launch: &LaunchRow| {
            let mut points = launch.points.iter();
            points.any(|given| given.point == *point && given.state != State::Failed)
        };
        if self.launches().any(gave) {
            return None;
        }
        self.failures(point).next().map(FailureRow::failure)
    }

    /// Whether the file has the cost of a point, or the reason why it has none.
    pub(super) fn is_known(self, point: &Point) -> bool {
        self.record.run.points.iter().any(|row| row.point == *point)
            || self.failures(point).any(|row| row.launch.is_none())
    }

    /// The points that need more launches: not those that this machine cannot measure, and not those that
    /// crash again and again.
    pub(super) fn points_left(self) -> Vec<Point> {
        let is_hopeless = |point: &Point| {
            let crashes = self.failures(point).filter(|row| is_crash(row.kind));
            let crashed: BTreeSet<Option<u32>> = crashes.map(|row| row.launch).collect();
            let mut failures = self.failures(point);
            failures.any(|row| row.kind == FailureKind::Unsupported) || crashed.len() >= CRASHES_MAX
        };
        let mut left = self.planned().points.clone();
        left.retain(|point| !is_hopeless(point));
        left
    }

    /// How many launches gave nothing because a point crashed.
    pub(super) fn lost(self) -> u32 {
        let crashed = |launch: &LaunchRow| {
            self.record.run.failures.iter().any(|row| {
                row.block == self.block && row.launch == Some(launch.launch) && is_crash(row.kind)
            })
        };
        let launches = self.launches();
        launches.filter(|launch| !gave_something(launch) && crashed(launch)).count() as u32
    }

    /// How many launches were decided for the block; known if the file says so or has all of its points.
    pub(super) fn decided(self) -> Option<u32> {
        let mut points = self.planned().points.iter();
        if points.all(|point| self.is_known(point)) {
            return self.launches().map(|launch| launch.launch + 1).max();
        }
        self.launches().map(|launch| launch.of).find(|count| *count > 0)
    }
}

fn is_crash(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Crashed | FailureKind::TimedOut)
}

fn gave_something(launch: &LaunchRow) -> bool {
    let mut points = launch.points.iter();
    points.any(|given| given.state != State::Failed)
}

/// The time of the launches that gave a result; `None` if there are none. A worker that hung until its time
/// limit says nothing about how long measuring takes.
pub(super) fn time_spent<'a>(launches: impl Iterator<Item = &'a LaunchRow>) -> Option<Duration> {
    let useful = launches.filter(|launch| gave_something(launch));
    useful.map(|launch| Duration::from_nanos(launch.wall_ns as u64)).reduce(|sum, time| sum + time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::{Axes, LaunchPoint, Noise, Placement};

    #[test]
    fn launches_that_gave_nothing_are_no_time_spent() {
        let launch = |states: &[State], seconds: f64| LaunchRow {
            block: 0,
            launch: 0,
            of: 0,
            wall_ns: seconds * 1e9,
            points: states
                .iter()
                .map(|state| LaunchPoint {
                    point: Point {
                        probe: "test.some".into(),
                        axes: Axes::default(),
                        link: "none".into(),
                    },
                    state: *state,
                    metrics: Vec::new(),
                    allocations: 0,
                })
                .collect(),
            noise: Noise::default(),
            placement: Placement::default(),
            link: None,
        };
        let hung = launch(&[State::Failed, State::Failed], 60.0);
        let partly = launch(&[State::Failed, State::Ok], 2.0);
        let empty = launch(&[State::BelowResolution], 1.0);
        assert_eq!(time_spent([&hung].into_iter()), None);
        assert_eq!(time_spent([&hung, &partly, &empty].into_iter()), Some(Duration::from_secs(3)));
    }
}

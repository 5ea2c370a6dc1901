//! Carries out a plan: predictions, launches, points, level by level, each
//! written down as soon as it is known. What a run file already holds is not
//! measured again.

use crate::error::Error;
use crate::planning;
use crate::progress::Progress;
use crate::record::Record;
use costof_lab::host::{Host, WorkerCommand};
use costof_lab::launch::{self, Lost, Setting};
use costof_measure::estimate;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Precision};
use costof_model::facts::Facts;
use costof_model::failure::{Failure, FailureKind};
use costof_model::noise::{CONTROLLER, Noise, Placement};
use costof_model::point::Point;
use costof_model::prediction::Known;
use costof_model::protocol::{ClockInfo, Launch};
use costof_model::rows::{Block, FailureRow, LaunchPoint, LaunchRow, PredictionRow, Row, State};
use costof_model::run_file::Run;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A point at which this many launches crashed is left out of later ones.
const CRASHES_MAX: usize = 2;

/// Carries out what is missing of a run.
pub(crate) struct Controller<'a> {
    pub(crate) table: &'a [&'static Probe],
    pub(crate) command: &'a WorkerCommand,
    pub(crate) facts: &'a Facts,
    pub(crate) clock: &'a ClockInfo,
    pub(crate) precision: Precision,
    pub(crate) limit: Duration,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) progress: &'a Progress,
    pub(crate) record: &'a mut Record,
    /// What was asked and is known so far: what the file holds, and no more.
    pub(crate) run: &'a mut Run,
}

impl Controller<'_> {
    /// Measures what is missing. Returns early where it was interrupted.
    pub(crate) fn carry_out(&mut self) -> Result<(), Error> {
        let levels = self.blocks().iter().map(|block| block.level).max();
        for level in 0..=levels.unwrap_or(0) {
            self.level(level)?;
            if self.interrupted() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn level(&mut self, level: u32) -> Result<(), Error> {
        let blocks: Vec<usize> = (0..self.blocks().len())
            .filter(|block| self.blocks()[*block].level == level)
            .collect();
        for block in &blocks {
            self.predict(*block)?;
        }
        let seed = self.run.run.seed ^ u64::from(level);
        for position in schedule::pilot_order(seed, blocks.len()) {
            self.launch(blocks[position], 0, 0)?;
        }
        if self.interrupted() {
            return Ok(());
        }
        let counts = self.launch_counts(&blocks, level);
        self.progress
            .expect(self.launches_expected(&blocks, &counts, level));
        for (position, launch) in schedule::order(seed, &counts) {
            self.launch(blocks[position], launch, counts[position])?;
            if self.interrupted() {
                return Ok(());
            }
            if launch + 1 == counts[position] {
                self.complete(blocks[position])?;
            }
        }
        Ok(())
    }

    /// Writes down what is expected of a block, before it is measured.
    fn predict(&mut self, block: usize) -> Result<(), Error> {
        for point in self.blocks()[block].points.clone() {
            if self.run.prediction(&point).is_some() {
                continue;
            }
            let probe = self.probe(&point);
            let known = Known(&self.run.points);
            if let Some(prediction) = (probe.predict)(&point, self.facts, &known) {
                self.write(Row::Prediction(PredictionRow { point, prediction }))?;
            }
        }
        Ok(())
    }

    /// How many launches each block of a level gets: as the file says where it
    /// was decided before, else from the pilots and this level's part of what
    /// is left of the budget.
    fn launch_counts(&self, blocks: &[usize], level: u32) -> Vec<u32> {
        let pilots: Vec<Duration> = blocks
            .iter()
            .map(|block| {
                let pilot = self.launches_of(*block).find(|launch| launch.launch == 0);
                pilot.map_or(Duration::ZERO, |launch| {
                    Duration::from_nanos(launch.wall_ns as u64)
                })
            })
            .collect();
        let spent_ns: f64 = self.run.launches.iter().map(|launch| launch.wall_ns).sum();
        let left = self
            .precision
            .budget()
            .saturating_sub(Duration::from_nanos(spent_ns as u64));
        let time_of = |levels: &dyn Fn(u32) -> bool| -> f64 {
            self.blocks()
                .iter()
                .filter(|block| levels(block.level))
                .map(|block| planning::launch_time(self.table, block, self.precision).as_secs_f64())
                .sum()
        };
        let here = time_of(&|other| other == level);
        let here_and_later = time_of(&|other| other >= level);
        let part = left.mul_f64((here / here_and_later.max(1e-9)).min(1.0));
        let fresh = schedule::launch_counts(&pilots, part, self.precision);
        blocks
            .iter()
            .zip(fresh)
            .map(|(block, fresh)| {
                self.launches_of(*block)
                    .map(|launch| launch.of)
                    .find(|of| *of > 0)
                    .unwrap_or(fresh)
            })
            .collect()
    }

    fn launches_expected(&self, blocks: &[usize], counts: &[u32], level: u32) -> u64 {
        let other_levels = self.blocks().iter().filter(|block| block.level != level);
        let counted: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        debug_assert_eq!(blocks.len(), counts.len());
        counted + other_levels.count() as u64 * u64::from(self.precision.launches())
    }

    /// Runs one launch of a block, unless the file has it.
    fn launch(&mut self, block: usize, launch: u32, of: u32) -> Result<(), Error> {
        if self.launches_of(block).any(|done| done.launch == launch) {
            self.progress.launched();
            return Ok(());
        }
        let left = self.points_left(block);
        let Some(first) = left.first() else {
            self.progress.launched();
            return Ok(());
        };
        if self.interrupted() {
            return Ok(());
        }
        let probe = self.probe(first);
        self.progress.begin(&probe.info.id);
        let hosts = vec![Host::Local; probe.info.roles.len()];
        let setting = Setting {
            command: self.command,
            limit: self.limit,
            interrupted: self.interrupted,
        };
        let began = Instant::now();
        let outcome = launch::run(&hosts, self.told(probe, &left, block, launch), &setting);
        let wall_ns = began.elapsed().as_nanos() as f64;
        let (points, noise) = match outcome {
            Err(Lost::Interrupted) => return Ok(()),
            Err(Lost::Failed(position, failure)) => {
                let concerned = position.map_or(&left[..], |at| &left[at..=at]);
                for point in concerned {
                    self.fail(point, block, Some(launch), failure.clone())?;
                }
                (
                    left.iter().map(without_a_number).collect(),
                    Noise::default(),
                )
            }
            Ok(outcome) => {
                for (position, failure) in outcome.failures {
                    self.fail(&left[position], block, Some(launch), failure)?;
                }
                let points = left
                    .iter()
                    .zip(outcome.reports)
                    .map(|(point, reports)| {
                        let report = (probe.derive)(point, reports);
                        LaunchPoint {
                            point: point.clone(),
                            state: report.state,
                            metrics: report.metrics,
                        }
                    })
                    .collect();
                (points, outcome.noise)
            }
        };
        self.write(Row::Launch(LaunchRow {
            block,
            launch,
            of,
            wall_ns,
            points,
            noise,
            placement: self.placement(probe, &left),
        }))?;
        self.progress.launched();
        Ok(())
    }

    /// What the workers of a launch are told, by role.
    fn told(&self, probe: &Probe, points: &[Point], block: usize, launch: u32) -> Vec<Launch> {
        let plan = &self.run.run.plan;
        let placement = self.placement(probe, points);
        let time = self.precision.batch_time_per_point();
        // Another draw for each launch, the same one for each attempt.
        let seed = self.run.run.seed ^ ((block as u64) << 32) ^ (u64::from(launch) << 1);
        probe
            .info
            .roles
            .iter()
            .map(|role| Launch {
                role: role.clone(),
                points: points.to_vec(),
                cpus: placement.0.get(role).cloned().unwrap_or_default(),
                seed,
                point_time_ns: time.as_nanos() as u64,
                rounds: plan.blocks[block].rounds,
                clock: self.clock.clone(),
            })
            .collect()
    }

    /// The processors that a launch of these points uses: of each role's as many
    /// as the points ask for. A role that no placement names runs where the
    /// kernel puts it.
    fn placement(&self, probe: &Probe, points: &[Point]) -> Placement {
        let wanted = points.iter().map(probe.processors).max().unwrap_or(1);
        let mut placement = self.run.run.plan.placement.clone();
        for (role, cpus) in &mut placement.0 {
            if role != CONTROLLER {
                cpus.truncate(wanted);
            }
        }
        placement
    }

    /// The points of a block that are still worth a launch: not those that are
    /// not to be had here, and not those that crash again and again.
    fn points_left(&self, block: usize) -> Vec<Point> {
        let hopeless = |point: &Point| {
            let failures = || {
                self.run
                    .failures
                    .iter()
                    .filter(move |row| row.block == block && row.point == *point)
            };
            let crashed: BTreeSet<Option<u32>> = failures()
                .filter(|row| matches!(row.kind, FailureKind::Crashed | FailureKind::TimedOut))
                .map(|row| row.launch)
                .collect();
            failures().any(|row| row.kind == FailureKind::Unsupported)
                || crashed.len() >= CRASHES_MAX
        };
        self.blocks()[block]
            .points
            .iter()
            .filter(|point| !hopeless(point))
            .cloned()
            .collect()
    }

    /// Writes down what the launches of a complete block say.
    fn complete(&mut self, block: usize) -> Result<(), Error> {
        let planned = self.blocks()[block].clone();
        for (position, point) in planned.points.iter().enumerate() {
            let is_known =
                self.run.points.iter().any(|row| row.point == *point)
                    || self.run.failures.iter().any(|row| {
                        row.block == block && row.launch.is_none() && row.point == *point
                    });
            if is_known {
                continue;
            }
            let probe = self.probe(point);
            let launches: Vec<&LaunchRow> = self.launches_of(block).collect();
            let derived = estimate::point(
                &probe.info,
                point,
                planned.label(position),
                &launches,
                self.run.prediction(point),
                self.clock,
            );
            match derived {
                Ok(row) => self.write(Row::Point(Box::new(row)))?,
                Err(failure) => {
                    let why = self.first_failure(block, point).unwrap_or(failure);
                    self.fail(point, block, None, why)?;
                }
            }
        }
        Ok(())
    }

    fn first_failure(&self, block: usize, point: &Point) -> Option<Failure> {
        self.run
            .failures
            .iter()
            .find(|row| row.block == block && row.point == *point)
            .map(FailureRow::failure)
    }

    fn fail(
        &mut self,
        point: &Point,
        block: usize,
        launch: Option<u32>,
        failure: Failure,
    ) -> Result<(), Error> {
        let row = FailureRow {
            point: point.clone(),
            block,
            launch,
            kind: failure.kind,
            reason: failure.reason,
        };
        // A launch whose controller was killed before it was written down is
        // done again, and may fail again.
        if self.run.failures.contains(&row) {
            return Ok(());
        }
        self.write(Row::Failure(row))
    }

    /// Writes a row down, and knows it from then on.
    fn write(&mut self, row: Row) -> Result<(), Error> {
        self.record.append(&row)?;
        self.run.add(row);
        Ok(())
    }

    fn blocks(&self) -> &[Block] {
        &self.run.run.plan.blocks
    }

    fn launches_of(&self, block: usize) -> impl Iterator<Item = &LaunchRow> {
        self.run
            .launches
            .iter()
            .filter(move |launch| launch.block == block)
    }

    fn probe(&self, point: &Point) -> &'static Probe {
        probe::find(self.table, &point.probe).expect("the plan was checked against the table")
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn without_a_number(point: &Point) -> LaunchPoint {
    LaunchPoint {
        point: point.clone(),
        state: State::Failed,
        metrics: Vec::new(),
    }
}

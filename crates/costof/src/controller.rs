//! Executes a plan level by level: makes predictions, runs launches, computes points, and writes each to the
//! run file as soon as it is known. It does not measure again what the file already holds.

mod block;
mod hop;
pub(crate) mod interleave;
mod launch;
pub(crate) mod qualify;
mod revisit;

use crate::error::Result;
use crate::machine::Machines;
use crate::placement;
use crate::plan::cost;
use crate::prediction::{can_fail, predict};
use crate::progress::Progress;
use crate::record::{Record, Table};
use block::{BlockState, time_spent};
use costof_lab::host::WorkerCommand;
use costof_lab::launch::Setting;
use costof_lab::link::Made;
use costof_measure::estimate;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Counted, MIN_LAUNCHES, Precision};
use costof_model::protocol::CpuLook;
use costof_model::rows::{PredictionRow, Row};
use costof_model::{Block, Facts, Failure, FailureRow, Plan, Point, PointRow, Run, Text};
use hop::Distances;
use revisit::Revisited;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A launch takes long if it takes this share of the time budget: without it, a first look is shorter.
const LONG_LAUNCH_SHARE: f64 = 0.05;

/// Executes the missing part of a run.
pub(crate) struct Controller<'a> {
    table: Table,
    /// How to start workers and wait for them.
    setting: Setting<'a>,
    /// Starts the process that keeps a link.
    holder: &'a WorkerCommand,
    /// The links that were requested so far, by name.
    pub(crate) links: BTreeMap<Text, Result<Made, Failure>>,
    /// The facts of the measured machine, with the CPUs of the run.
    facts: Facts,
    machines: &'a mut Machines,
    /// The CPUs of the other side's launch, if the next launch has to use the same.
    counterpart: Option<Vec<usize>>,
    /// The points that the next launch measures; if empty, all of its block.
    only: Vec<Point>,
    /// What was seen of the CPUs for the next launch.
    looks: Option<Vec<CpuLook>>,
    distances: Distances,
    precision: Precision,
    progress: &'a Progress<'a>,
    /// The blocks that get no more launches, because the time of a first look is over.
    cut: Vec<usize>,
    /// Whether this is the first look at all that matters, which has to end in time.
    pub(crate) is_first_look: bool,
    /// The rows of earlier runs on this machine, once a row was measured on a shared core.
    earlier: OnceCell<Vec<PointRow>>,
    /// The plan and the results so far: what the file holds, and nothing else.
    record: &'a mut Record,
}

impl<'a> Controller<'a> {
    /// A controller for the run of a record, on connected machines.
    pub(crate) fn new(
        table: Table,
        setting: Setting<'a>,
        holder: &'a WorkerCommand,
        machines: &'a mut Machines,
        progress: &'a Progress<'a>,
        record: &'a mut Record,
    ) -> Result<Controller<'a>> {
        let plan = &record.run.run.plan;
        let facts = &machines.measured.description.facts;
        Ok(Controller {
            table,
            setting,
            holder,
            links: BTreeMap::new(),
            facts: placement::facts_of_the_run(&plan.placement, facts),
            machines,
            counterpart: None,
            only: Vec::new(),
            looks: None,
            distances: Distances::default(),
            precision: cost::precision(plan)?,
            progress,
            cut: Vec::new(),
            is_first_look: false,
            earlier: OnceCell::new(),
            record,
        })
    }

    /// Measures what is missing. Returns early if the user interrupts.
    ///
    /// Each block first gets only as many launches as an interval needs, level by level, since predictions
    /// use the measurements of earlier levels. The remaining time is then divided among all blocks, in
    /// launches that are spread over the rest of the run, since other processes use the core only at times.
    pub(crate) fn execute(&mut self) -> Result<()> {
        let least = MIN_LAUNCHES.min(self.launches_wanted());
        for level in 0..=self.last_level() {
            let blocks = self.begin(level)?;
            let seed = self.run().run.seed ^ u64::from(level);
            for launch in 0..least {
                let order = schedule::round_order(seed, launch, blocks.len()).into_iter();
                let mut queue = order.map(|position| (blocks[position], launch)).collect();
                while let Some((block, launch)) = self.next(&mut queue)? {
                    if self.is_over(block) || launch > 0 && self.has_no_time(block, least) {
                        continue;
                    }
                    self.launch(block, launch, 0)?;
                    pulse(std::slice::from_ref(self), None);
                }
            }
            if self.interrupted() {
                return Ok(());
            }
        }
        let mut counts = self.launch_counts();
        if self.plan().launches.is_none() {
            // The time of blocks whose core was shared is kept for when a look sees it alone.
            for (block, count) in counts.iter_mut().enumerate() {
                if self.waits_for_alone(block) {
                    *count = least.min(*count);
                }
            }
        }
        self.progress.expect(&counts);
        self.progress.correct(self.time_left(&counts));
        let mut open = Revisited::new(&counts);
        let mut queue = schedule::order(self.run().run.seed, &counts, least).into();
        while let Some((block, launch)) = self.next(&mut queue)? {
            if launch >= least && !self.is_over(block) {
                self.launch(block, launch, counts[block])?;
                pulse(std::slice::from_ref(self), Some(&counts));
            }
            if self.interrupted() {
                return Ok(());
            }
            if launch + 1 == counts[block] {
                open.complete_or_keep(std::slice::from_mut(self), block)?;
            }
        }
        open.revisit(std::slice::from_mut(self), |sides, block, launch, of| {
            sides[0].launch(block, launch, of)
        })
    }

    /// Whether a block gets no more of the least launches: in a first look that would take much longer than
    /// announced, if its launches take longest. Without them it has no interval.
    fn has_no_time(&mut self, block: usize, least: u32) -> bool {
        if !self.is_first_look {
            return false;
        }
        let wanted = |at| if self.cut.contains(&at) { 0 } else { least };
        let counts: Vec<u32> = (0..self.plan().blocks.len()).map(wanted).collect();
        let counted: Vec<Counted> = (0..counts.len()).map(|at| self.counted(at)).collect();
        if longest_open(&counted, &counts, self.budget()) == Some(block)
            && self.progress.is_overrun(self.time_left(&counts))
        {
            self.cut.push(block);
            let planned = self.block(block).planned();
            let name = planned.label(0).unwrap_or(&planned.points[0].probe);
            self.progress.say(&format!(
                "no interval for {name}: one launch takes {:.1} s here",
                counted[block].launch.as_secs_f64()
            ));
        }
        self.cut.contains(&block)
    }

    /// Whether the next launch of a block would end after the time that the user has set. The first launch of a
    /// run never does.
    fn is_over(&mut self, block: usize) -> bool {
        let Some(budget_ns) = self.plan().budget_ns else {
            return false;
        };
        if !self.cut.contains(&block) {
            let spent: f64 = self.run().launches.iter().map(|launch| launch.wall_ns).sum();
            let next = self.counted(block).launch.as_nanos() as f64;
            if spent == 0.0 || spent + next <= budget_ns as f64 {
                return false;
            }
            self.cut.push(block);
        }
        true
    }

    fn last_level(&self) -> u32 {
        let levels = self.plan().blocks.iter().map(|block| block.level);
        levels.max().unwrap_or(0)
    }

    /// The blocks of a level, after their predictions have been written to the file.
    fn begin(&mut self, level: u32) -> Result<Vec<usize>> {
        let is_in_level = |(_, block): &(usize, &Block)| block.level == level;
        let blocks = self.plan().blocks.iter().enumerate().filter(is_in_level);
        let blocks: Vec<usize> = blocks.map(|(position, _)| position).collect();
        let measured = self.measured_so_far();
        for block in &blocks {
            self.predict(*block, &measured)?;
        }
        Ok(blocks)
    }

    /// Writes the predictions for a block, before it is measured.
    fn predict(&mut self, block: usize, measured: &[PointRow]) -> Result<()> {
        for point in self.block(block).planned().points.clone() {
            if self.run().prediction(&point).is_some() {
                continue;
            }
            let earlier = &self.plan().earlier;
            let prediction = predict(self.table, &point, &self.facts, measured, earlier);
            let info = &self.probe(&point).info;
            if let Some(prediction) = prediction.filter(|range| can_fail(info, range)) {
                self.record.write(Row::Prediction(PredictionRow { point, prediction }))?;
            }
        }
        Ok(())
    }

    /// The results so far, in the order of the plan, then those of earlier runs. The order matters because a
    /// prediction uses the first of several points: it must not depend on the order of measurement.
    fn measured_so_far(&self) -> Vec<PointRow> {
        let so_far = estimate::so_far(self.run());
        let measured = |point: &Point| {
            let mut rows = self.run().points.iter().chain(&so_far);
            rows.find(|row| row.point == *point).cloned()
        };
        let earlier = self.plan().earlier.iter();
        let own = self.plan().points().filter_map(measured);
        own.chain(earlier.map(|earlier| earlier.row.clone())).collect()
    }

    /// How many launches each block gets: the number in the file if it was decided before, else what there is
    /// time for.
    fn launch_counts(&self) -> Vec<u32> {
        let blocks = 0..self.plan().blocks.len();
        let counted: Vec<Counted> = blocks.clone().map(|block| self.counted(block)).collect();
        let spent = time_spent(self.run().launches.iter()).unwrap_or_default();
        let left = self.budget().saturating_sub(spent);
        let fresh = match self.plan().launches {
            Some(asked) => vec![asked; counted.len()],
            None => schedule::launch_counts(&counted, left, self.precision),
        };
        let count = |(block, fresh)| match self.block(block).decided() {
            Some(count) => count,
            None if self.cut.contains(&block) => counted[block].done.max(1),
            None => fresh,
        };
        blocks.zip(fresh).map(count).collect()
    }

    fn counted(&self, block: usize) -> Counted {
        let block = self.block(block);
        let done = block.useful().count() as u32;
        let launch = match time_spent(block.launches()) {
            _ if block.points_left().is_empty() => Duration::ZERO,
            Some(spent) => spent / done.max(1),
            // Launches without a result say nothing about the time of later ones.
            None => cost::launch_time(self.table, block.planned(), self.precision),
        };
        Counted { launch, points: block.planned().points.len(), done }
    }

    /// The time that the remaining launches take, for these counts.
    fn time_left(&self, counts: &[u32]) -> Duration {
        let blocks = 0..self.plan().blocks.len();
        let mut counted: Vec<Counted> = blocks.map(|block| self.counted(block)).collect();
        let slowdown = self.slowdown(&counted);
        for block in counted.iter_mut().filter(|block| block.done == 0) {
            block.launch = block.launch.mul_f64(slowdown);
        }
        schedule::to_come(&counted, counts)
    }

    /// How many times as long as planned the launches took, for instance on a busy machine.
    fn slowdown(&self, counted: &[Counted]) -> f64 {
        let blocks = self.plan().blocks.iter().zip(counted);
        let times = blocks.filter(|(_, counted)| counted.done > 0).map(|(block, counted)| {
            let planned = cost::launch_time(self.table, block, self.precision);
            [counted.launch, planned].map(|time| time.as_secs_f64())
        });
        let [taken, planned] =
            times.fold([0.0, 0.0], |sum, time| [sum[0] + time[0], sum[1] + time[1]]);
        if planned > 0.0 { taken / planned } else { 1.0 }
    }

    /// How many launches a block gets if there is time.
    fn launches_wanted(&self) -> u32 {
        cost::launches(self.plan(), self.precision)
    }

    fn budget(&self) -> Duration {
        cost::budget(self.table, self.plan(), self.precision)
    }

    /// Writes the results of a block after its last launch.
    fn complete(&mut self, block: usize) -> Result<()> {
        let points = self.block(block).planned().points.clone();
        for (position, point) in points.iter().enumerate() {
            if self.block(block).is_known(point) {
                continue;
            }
            match estimate::planned_point(self.run(), block, position) {
                Ok(mut row) => {
                    self.add_alone(&mut row);
                    self.record.write(Row::Point(Box::new(row)))?;
                }
                Err(failure) => {
                    let first = self.block(block).first_failure(point);
                    let was_cut = self.block(block).launches().next().is_none()
                        && self.plan().budget_ns.is_some();
                    let over = "the time of --budget was over before it was measured";
                    let over = was_cut.then(|| Failure::error(over));
                    self.fail(point, block, None, first.or(over).unwrap_or(failure))?;
                }
            }
        }
        self.record.sync()
    }

    fn fail(
        &mut self,
        point: &Point,
        block: usize,
        launch: Option<u32>,
        failure: Failure,
    ) -> Result<()> {
        let Failure { kind, reason } = failure;
        let row = FailureRow { point: point.clone(), block, launch, kind, reason };
        // If the controller was killed before it wrote a launch, the launch runs again, and may fail again.
        if self.run().failures.contains(&row) {
            return Ok(());
        }
        self.record.write(Row::Failure(row))
    }

    fn run(&self) -> &Run {
        &self.record.run
    }

    fn plan(&self) -> &Plan {
        &self.run().run.plan
    }

    fn block(&self, block: usize) -> BlockState<'_> {
        BlockState { record: self.record, block }
    }

    fn probe(&self, point: &Point) -> &'static Probe {
        probe::find(self.table, &point.probe).expect("the plan was checked against the table")
    }

    fn interrupted(&self) -> bool {
        self.setting.interrupted.load(Ordering::Relaxed)
    }
}

/// The block whose launches take longest of those that have some of theirs and not all, if they take long for
/// a first look with this budget.
fn longest_open(counted: &[Counted], counts: &[u32], budget: Duration) -> Option<usize> {
    let open = (0..counts.len()).filter(|at| (1..counts[*at]).contains(&counted[*at].done));
    let longest = open.max_by_key(|at| counted[*at].launch)?;
    (counted[longest].launch > budget.mul_f64(LONG_LAUNCH_SHARE)).then_some(longest)
}

/// Reports the progress of the run, or of runs that take turns, if it is time for that. Uses these counts of
/// launches; if they are not decided yet, those that there is time for.
///
/// Adding up the launches takes longer the more there are, so this does not happen after each launch.
fn pulse(sides: &[Controller<'_>], counts: Option<&[u32]>) {
    let progress = sides[0].progress;
    if !progress.is_due() {
        return;
    }
    let (mut left, mut launches) = (Duration::ZERO, [0, 0]);
    for side in sides {
        let counts = counts.map_or_else(|| side.launch_counts(), <[u32]>::to_vec);
        left += side.time_left(&counts);
        launches[0] += side.progress.launches();
        launches[1] += counts.iter().copied().map(u64::from).sum::<u64>();
    }
    // Blocks whose launches disagree get more of them than planned.
    launches[1] = launches[1].max(launches[0]);
    // A few launches allow no estimate. The single correction waits until each block may have had a launch.
    if launches[0] >= sides[0].plan().blocks.len() as u64 {
        progress.correct(left);
    }
    progress.heartbeat(launches, sides[0].plan().points().count(), left);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_look_gives_up_the_block_that_takes_longest_if_that_is_long() {
        // Of each block the milliseconds of a launch, how many it had, and how many it gets.
        for (blocks, longest) in [
            (&[(900, 1, 3), (950, 1, 3), (10, 1, 3)][..], Some(1)),
            (&[(900, 1, 3), (950, 0, 3)], Some(0)),
            (&[(900, 1, 3), (950, 3, 3)], Some(0)),
            (&[(900, 1, 3), (950, 1, 0)], Some(0)),
            (&[(800, 1, 3), (10, 1, 3)], None),
            (&[(900, 0, 3)], None),
            (&[], None),
        ] {
            let counted = blocks.iter().map(|(ms, done, _)| Counted {
                launch: Duration::from_millis(*ms),
                points: 1,
                done: *done,
            });
            let counted: Vec<Counted> = counted.collect();
            let counts: Vec<u32> = blocks.iter().map(|(.., count)| *count).collect();
            let found = longest_open(&counted, &counts, Duration::from_secs(16));
            assert_eq!(found, longest, "{blocks:?}");
        }
    }
}

//! What follows the planned launches: blocks that lack something get more launches, as long as there is time. Those
//! lost to crashes are repeated; launches that disagree, or too few of which had the core to themselves, get others.

use super::Controller;
use super::block::time_spent;
use crate::error::Error;
use crate::history;
use crate::plan::cost::Cost;
use costof_measure::schedule::{self, Precision};
use costof_measure::{estimate, shared_ratio};
use costof_model::point::Point;
use costof_model::rows::{LaunchRow, PointRow};
use std::cmp::Reverse;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A block whose launches disagree gets at most this many additional ones.
const DISAGREE_MAX: u32 = 3;
/// A block whose launches lack batches alone gets at most this many, unless the user gives time for them.
const ALONE_MAX: u32 = 20;
/// Additional launches take what is left of the announced time, or this share of it if that is more,
const TIME_SHARE: f64 = 0.1;
/// and at least this long.
const TIME_LEAST: Duration = Duration::from_secs(1);
/// After a launch in vain, nothing is measured for this part of the time that is left: the neighbour of a core stays
/// for seconds.
const WAIT_PART: u32 = 16;
/// It waits no longer and no shorter than this.
const WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// How soon a wait ends after Ctrl-C.
const NAP: Duration = Duration::from_millis(20);

/// Measures a block once more on all sides: the launch of this number, of so many that were planned.
pub(super) type Visit = fn(&mut [Controller<'_>], usize, u32, u32) -> Result<(), Error>;

/// What a block lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lack {
    /// Whether a launch was lost to a crash and not repeated yet.
    lost: bool,
    /// Whether its launches disagree.
    disagree: bool,
    /// How many of its points lack launches with enough batches alone,
    rows: usize,
    /// and how many such launches they lack together.
    launches: u32,
    /// How many additional launches it had.
    visits: u32,
    /// Whether the user gives time for those alone.
    until_alone: bool,
    /// How long a launch takes.
    launch: Duration,
}

impl Lack {
    /// What either of two sides lacks. Both are measured.
    fn and(self, other: Lack) -> Lack {
        Lack {
            lost: self.lost || other.lost,
            disagree: self.disagree || other.disagree,
            rows: self.rows.max(other.rows),
            launches: self.launches.max(other.launches),
            visits: self.visits.max(other.visits),
            until_alone: self.until_alone,
            launch: self.launch + other.launch,
        }
    }

    /// Whether its launches disagree, and others may change that.
    fn disagree(&self) -> bool {
        self.disagree && self.visits < DISAGREE_MAX
    }

    /// How many of its points wait for a core that is alone.
    fn waiting(&self) -> usize {
        match self.until_alone || self.visits < ALONE_MAX {
            true => self.rows,
            false => 0,
        }
    }
}

/// Which block is measured next, if so much time is left: first what was lost to a crash, then in rounds, and in each
/// what lacks most launches alone, soonest what takes least. `None` if nothing is lacking, or nothing fits the time.
fn next(lacks: &[Lack], left: Duration) -> Option<usize> {
    let fits = |lack: &Lack| lack.launch <= left && (lack.disagree() || lack.waiting() > 0);
    let open = (0..lacks.len()).filter(|at| lacks[*at].lost || fits(&lacks[*at]));
    open.min_by_key(|at| {
        let lack = &lacks[*at];
        (!lack.lost, lack.visits, Reverse(lack.launches), lack.launch)
    })
}

/// How long to wait after a launch that found the core shared, so that the launches are spread over the time that is
/// left.
fn wait(left: Duration) -> Duration {
    (left / WAIT_PART).clamp(WAITS[0], WAITS[1]).min(left)
}

/// If a side has given up on the block, it lacks nothing on any.
fn lack(sides: &mut [Controller<'_>], block: usize) -> Lack {
    let gave_up = |side: &Controller<'_>| side.block(block).points_left().is_empty();
    if sides.iter().any(gave_up) {
        return Lack::default();
    }
    let lacks = sides.iter_mut().map(|side| side.lack(block));
    lacks.reduce(Lack::and).unwrap_or_default()
}

/// The blocks of one or two sides that lack something after their planned launches.
pub(super) struct Revisited<'a> {
    /// How many launches of each block were planned.
    counts: &'a [u32],
    blocks: Vec<usize>,
    /// What each of them lacks.
    lacks: Vec<Lack>,
}

impl<'a> Revisited<'a> {
    /// None so far, with these counts of planned launches.
    pub(super) fn new(counts: &'a [u32]) -> Revisited<'a> {
        Revisited { counts, blocks: Vec::new(), lacks: Vec::new() }
    }

    /// After its last planned launch, completes a block that lacks nothing, and keeps another one.
    pub(super) fn complete_or_keep(
        &mut self,
        sides: &mut [Controller<'_>],
        block: usize,
    ) -> Result<(), Error> {
        let lack = lack(sides, block);
        if lack.lost || lack.disagree() || lack.rows > 0 {
            self.blocks.push(block);
            self.lacks.push(lack);
            return Ok(());
        }
        sides.iter_mut().try_for_each(|side| side.complete(block))
    }

    /// Measures what the blocks lack as long as there is time, then completes them. Returns early if the user
    /// interrupts.
    pub(super) fn revisit(
        mut self,
        sides: &mut [Controller<'_>],
        visit: Visit,
    ) -> Result<(), Error> {
        let time: Duration = sides.iter().map(Controller::time_for_more).sum();
        let began = Instant::now();
        sides[0].progress.wait_for_alone(self.waiting(), time);
        loop {
            let left = time.saturating_sub(began.elapsed());
            let Some(at) = next(&self.lacks, left).filter(|_| !sides[0].interrupted()) else {
                break;
            };
            sides[0].progress.one_more();
            if self.is_in_vain(sides, at, visit)? {
                let left = time.saturating_sub(began.elapsed());
                sides[0].progress.waits_for_alone(self.waiting(), left);
                let until = Instant::now() + wait(left);
                while Instant::now() < until && !sides[0].interrupted() {
                    sleep(NAP);
                }
            }
        }
        for block in self.blocks {
            if sides[0].interrupted() {
                break;
            }
            sides.iter_mut().try_for_each(|side| side.complete(block))?;
        }
        Ok(())
    }

    /// Measures one of the blocks, and returns whether it waits for a core that was not alone.
    fn is_in_vain(
        &mut self,
        sides: &mut [Controller<'_>],
        at: usize,
        visit: Visit,
    ) -> Result<bool, Error> {
        let block = self.blocks[at];
        let launches = sides.iter().map(|side| side.next_launch(block));
        let launch = launches.fold(self.counts[block], u32::max);
        visit(sides, block, launch, self.counts[block])?;
        let before = std::mem::replace(&mut self.lacks[at], lack(sides, block));
        let after = &mut self.lacks[at];
        // A launch that was not recorded counts all the same.
        after.visits = after.visits.max(before.visits + 1);
        let is_waiting = before.waiting() > 0 && !before.lost && !before.disagree();
        Ok(is_waiting && after.launches >= before.launches)
    }

    /// How many points wait for a core that is alone.
    fn waiting(&self) -> usize {
        self.lacks.iter().map(Lack::waiting).sum()
    }
}

impl Controller<'_> {
    /// Adds to a row that was measured on a shared core what it would be alone, if earlier runs of this machine and build
    /// know the ratio.
    pub(super) fn add_alone(&self, row: &mut PointRow) {
        let machine = &self.machines.measured;
        let (Some(boot), true) = (machine.boot(), self.plan().hosts.is_here()) else {
            return;
        };
        if row.primary().is_some_and(shared_ratio::is_shared) {
            let points: Vec<Point> = self.plan().points().cloned().collect();
            let build = &machine.description.build;
            let rows = || history::rows_of_boot(boot, build, &points);
            shared_ratio::add_alone(row, self.earlier.get_or_init(rows));
        }
    }

    /// How long additional launches may take from now on: what is left of the announced time or of the user's, or a
    /// little more, and what the user adds for them.
    fn time_for_more(&self) -> Duration {
        let plan = self.plan();
        let (more, planned): (Vec<_>, Vec<_>) = (self.run().launches.iter()).partition(is_more);
        let [more, planned] = [more, planned].map(|of| time_spent(of.into_iter()));
        let left = |time: Duration| time.saturating_sub(planned.unwrap_or_default());
        let time = match (plan.budget_ns, plan.launches) {
            (Some(budget_ns), _) => left(Duration::from_nanos(budget_ns)),
            (None, Some(_)) => Duration::ZERO,
            (None, None) => {
                let announced = Cost::new(self.table, plan, self.precision).time;
                left(announced).max(announced.mul_f64(TIME_SHARE).max(TIME_LEAST))
            }
        };
        let until_alone = Duration::from_nanos(plan.until_alone_ns.unwrap_or(0));
        (time + until_alone).saturating_sub(more.unwrap_or_default())
    }

    fn next_launch(&self, block: usize) -> u32 {
        let launches = self.block(block).launches();
        launches.map(|launch| launch.launch + 1).max().unwrap_or_default()
    }

    /// What a block lacks after its planned launches. If the user set their number, or a first look is enough, it does
    /// not matter that they disagree.
    fn lack(&mut self, block: usize) -> Lack {
        let is_over = self.is_over(block);
        let launch = self.counted(block).launch;
        let plan = self.plan();
        let state = self.block(block);
        let launches: Vec<&LaunchRow> = state.launches().collect();
        let left = state.points_left();
        let is_given_up = self.is_first_look && self.cut.contains(&block);
        if launches.is_empty() || is_given_up {
            return Lack::default();
        }
        let visits = launches.iter().filter(|launch| is_more(launch)).count() as u32;
        let may_disagree = plan.launches.is_none() && self.precision != Precision::Quick;
        let disagree = |point: &Point| {
            let medians = estimate::medians(&self.probe(point).info, point, &launches);
            // A point that failed in each launch will fail again.
            !medians.is_empty() && schedule::needs_more(&medians)
        };
        let alone = left
            .iter()
            .map(|point| estimate::lacking_alone(&self.probe(point).info, point, &launches));
        let alone: Vec<u32> = alone.filter(|lacking| *lacking > 0).collect();
        Lack {
            lost: visits < state.lost() && !is_over,
            disagree: may_disagree && left.iter().any(disagree),
            rows: alone.len(),
            launches: alone.iter().sum(),
            visits,
            until_alone: plan.until_alone_ns.is_some(),
            launch,
        }
    }
}

/// Whether a launch came after the planned ones of its block.
fn is_more(launch: &&LaunchRow) -> bool {
    launch.of > 0 && launch.launch >= launch.of
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A block of one point that lacks so many launches alone.
    fn lacking(launches: u32) -> Lack {
        Lack { rows: usize::from(launches > 0), launches, launch: ms(30), ..Lack::default() }
    }

    #[test]
    fn what_lacks_most_is_next_and_all_have_their_turn() {
        let mut lacks = [lacking(0), lacking(1), lacking(3), lacking(2)];
        let mut order = Vec::new();
        for _ in 0..6 {
            let block = next(&lacks, ms(1000)).unwrap();
            lacks[block].visits += 1;
            order.push(block);
        }
        assert_eq!(order, [2, 3, 1, 2, 3, 1]);
        // Of equals, the one that takes least.
        lacks = [lacking(3); 4];
        lacks[2].launch = ms(20);
        assert_eq!(next(&lacks, ms(1000)), Some(2));
    }

    #[test]
    fn it_ends_when_nothing_is_lacking_or_nothing_fits_the_time() {
        let mut lacks = [lacking(3), lacking(0)];
        assert_eq!(next(&lacks, ms(30)), Some(0));
        assert_eq!(next(&lacks, ms(29)), None);
        assert_eq!(next(&[lacking(0)], ms(1000)), None);
        // One whose number of launches is used up waits no more, unless the user gives time.
        lacks[0].visits = ALONE_MAX;
        assert_eq!(next(&lacks, ms(1000)), None);
        lacks[0].until_alone = true;
        assert_eq!(next(&lacks, ms(1000)), Some(0));
    }

    #[test]
    fn what_a_crash_took_is_repeated_first_and_whatever_the_time() {
        let mut lacks = [lacking(3), lacking(0)];
        (lacks[1].lost, lacks[1].visits) = (true, 2);
        assert_eq!(next(&lacks, ms(1000)), Some(1));
        assert_eq!(next(&lacks, Duration::ZERO), Some(1));
    }

    #[test]
    fn launches_that_disagree_get_others_without_lacking_any_alone() {
        let mut lacks = [lacking(0)];
        lacks[0].disagree = true;
        assert_eq!(next(&lacks, ms(1000)), Some(0));
        assert_eq!(next(&lacks, ms(10)), None);
        lacks[0].visits = DISAGREE_MAX;
        assert_eq!(next(&lacks, ms(1000)), None);
    }

    /// What becomes of blocks in a time of so many milliseconds, on a core that is alone only in a part of it: when each
    /// launch was, and what the blocks still lack.
    fn played(mut lacks: Vec<Lack>, time: u64, alone: std::ops::Range<u64>) -> (Vec<u64>, u32) {
        let (mut now, mut launches) = (0, Vec::new());
        while let Some(block) = next(&lacks, ms(time.saturating_sub(now))) {
            let lack = &mut lacks[block];
            launches.push(now);
            let is_alone = alone.contains(&now);
            now += lack.launch.as_millis() as u64;
            lack.visits += 1;
            lack.launches -= u32::from(is_alone);
            lack.rows = usize::from(lack.launches > 0);
            if !is_alone {
                now += wait(ms(time.saturating_sub(now))).as_millis() as u64;
            }
        }
        (launches, lacks.iter().map(|lack| lack.launches).sum())
    }

    #[test]
    fn launches_are_spread_over_the_time_until_the_core_is_alone_and_follow_each_other_then() {
        let blocks = vec![lacking(3); 12];
        // Never alone: few launches, and none after the time.
        let (launches, lack) = played(blocks.clone(), 5000, 0..0);
        assert_eq!(lack, 36);
        assert!((20..60).contains(&launches.len()), "{launches:?}");
        assert!(launches.last() < Some(&5000));
        let late = launches.iter().filter(|at| **at > 2500).count();
        assert!(late > launches.len() / 4, "{launches:?}");
        // A little more than a second alone, late.
        let (launches, lack) = played(blocks.clone(), 5000, 3000..4300);
        assert_eq!(lack, 0, "{launches:?}");
        // Always alone: at once, and done.
        let (launches, lack) = played(blocks, 5000, 0..9999);
        assert_eq!((launches.len(), lack, launches[35]), (36, 0, 35 * 30));
    }

    #[test]
    fn a_wait_is_a_part_of_the_time_that_is_left_within_bounds() {
        let waits = [0, 20, 500, 8_000, 120_000].map(|left| wait(ms(left)).as_millis());
        assert_eq!(waits, [0, 20, 50, 500, 2000]);
    }
}

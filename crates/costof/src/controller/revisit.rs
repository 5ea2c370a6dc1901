//! What follows the planned launches: blocks that lack something get more launches, as long as there is time. Those
//! lost to crashes are repeated; launches that disagree, or too few of which had the core to themselves, get others.

use super::Controller;
use crate::error::Result;
use crate::history;
use crate::plan::cost::Cost;
use costof_measure::schedule::{self, MIN_LAUNCHES, Precision};
use costof_measure::{estimate, shared_ratio};
use costof_model::noise::CONTROLLER;
use costof_model::{CpuSet, LaunchRow, Point, PointRow, Text};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A block whose launches disagree gets at most this many additional ones.
const DISAGREE_MAX: u32 = 3;
/// A block whose launches lack batches alone gets at most this many, unless the user gives time for them.
const ALONE_MAX: u32 = 100;
/// Additional launches take what is left of the announced time, or this share of it if that is more,
const TIME_SHARE: f64 = 0.1;
/// and at least this long.
const TIME_MIN: Duration = Duration::from_secs(1);
/// After a launch in vain, nothing is measured for this part of the time that is left: the neighbour of a core stays
/// for seconds.
const WAIT_PART: u32 = 16;
/// It waits no longer and no shorter than this.
const WAITS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];
/// How soon a wait ends after Ctrl-C, and how often a look may end it.
const NAP: Duration = Duration::from_millis(20);

/// Measures a block once more on all sides: the launch of this number, of so many that were planned.
pub(super) type Visit = fn(&mut [Controller<'_>], usize, u32, u32) -> Result<()>;

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

/// How long additional launches may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Time {
    /// All of them,
    all: Duration,
    /// and those of launches that disagree: without what the user adds for rows alone.
    announced: Duration,
}

impl Time {
    /// What is left for additional launches of a run that began `elapsed` ago. Of the announced time, launches that
    /// gave nothing used their part too, as did links and looks; `least` of it remains all the same.
    fn left(
        launches: &[LaunchRow],
        elapsed: Duration,
        (announced, least): (Duration, Duration),
        until_alone: Duration,
    ) -> Time {
        let (more, planned): (Vec<_>, Vec<_>) = launches.iter().partition(is_more);
        let spent = |launches: Vec<&LaunchRow>| {
            let ns: f64 = launches.iter().map(|launch| launch.wall_ns).sum();
            Duration::from_nanos(ns as u64)
        };
        let [more, planned] = [more, planned].map(spent);
        let announced = announced.saturating_sub(planned.max(elapsed)).max(least);
        Time { all: announced + until_alone, announced }.after(more)
    }

    fn after(self, spent: Duration) -> Time {
        Time {
            all: self.all.saturating_sub(spent),
            announced: self.announced.saturating_sub(spent),
        }
    }

    fn and(self, other: Time) -> Time {
        Time { all: self.all + other.all, announced: self.announced + other.announced }
    }
}

/// Which block is measured next, if so much time is left: first what was lost to a crash, then so that blocks get equal
/// time for each point that lacks launches alone, and of equals what lacks most. So short launches come often: most of
/// a run's time goes into a few long ones. `None` if nothing is lacking, or nothing fits the time. While no core is
/// alone, those that only lack launches alone are left out.
fn next(lacks: &[Lack], left: Time, has_core: bool) -> Option<usize> {
    let fits = |lack: &Lack| {
        lack.disagree() && lack.launch <= left.announced
            || has_core && lack.waiting() > 0 && lack.launch <= left.all
    };
    let open = (0..lacks.len()).filter(|at| lacks[*at].lost || fits(&lacks[*at]));
    open.min_by_key(|at| {
        let lack = &lacks[*at];
        let time = lack.launch * (lack.visits + 1) / lack.rows.max(1) as u32;
        (!lack.lost, time, Reverse(lack.launches))
    })
}

/// How long to wait after a launch that found the core shared, so that the launches are spread over the time that is
/// left.
fn wait(left: Duration) -> Duration {
    (left / WAIT_PART).clamp(WAITS[0], WAITS[1]).min(left)
}

#[derive(Debug, PartialEq)]
enum Step {
    /// Measures this block.
    Visit(usize),
    /// Waits for a core that is alone.
    Wait,
    End,
}

/// Decides when blocks are measured. All times are since the first decision.
struct Pace {
    /// How long all may take.
    time: Time,
    /// Until when no core is likely to be alone.
    shared_until: Duration,
    /// Whether the last wait ended early because a look saw the core alone.
    was_seen_alone: bool,
    /// Whether a look may end the next wait.
    trusts_looks: bool,
}

impl Pace {
    fn new(time: Time) -> Pace {
        let shared_until = Duration::ZERO;
        Pace { time, shared_until, was_seen_alone: false, trusts_looks: true }
    }

    /// What to do now. During a wait, `is_alone` looks whether the core is alone for a launch of the block, and what
    /// needs no core is measured.
    fn step<E>(
        &mut self,
        lacks: &[Lack],
        now: Duration,
        is_alone: impl FnOnce(usize) -> Result<bool, E>,
    ) -> Result<Step, E> {
        let left = self.time.after(now);
        let Some(at) = next(lacks, left, true) else {
            return Ok(Step::End);
        };
        if now >= self.shared_until {
            return Ok(Step::Visit(at));
        }
        if let Some(other) = next(lacks, left, false) {
            return Ok(Step::Visit(other));
        }
        if self.trusts_looks && is_alone(at)? {
            (self.shared_until, self.was_seen_alone) = (now, true);
            return Ok(Step::Visit(at));
        }
        Ok(Step::Wait)
    }

    /// After a launch that waited for a core and found it shared: begins to wait. If a look had seen that core alone,
    /// no look ends this wait.
    fn was_shared(&mut self, now: Duration) {
        self.shared_until = now + wait(self.time.after(now).all);
        self.trusts_looks = !std::mem::take(&mut self.was_seen_alone);
    }

    /// After any other launch.
    fn was_of_use(&mut self) {
        self.was_seen_alone = false;
    }
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

/// Whether a look on each side sees a core alone for a launch of the block.
fn is_alone(sides: &mut [Controller<'_>], block: usize) -> Result<bool> {
    for at in 0..sides.len() {
        if !sides[at].sees_alone(block)? {
            // Another launch would take them for its own.
            sides.iter_mut().for_each(|side| side.looks = None);
            return Ok(false);
        }
    }
    Ok(true)
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
    ) -> Result<()> {
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
    pub(super) fn revisit(mut self, sides: &mut [Controller<'_>], visit: Visit) -> Result<()> {
        let elapsed = sides[0].progress.elapsed() / sides.len() as u32;
        let times = sides.iter().map(|side| side.time_for_more(elapsed));
        let time = times.fold(Time::default(), Time::and);
        let (began, mut pace) = (Instant::now(), Pace::new(time));
        sides[0].progress.wait_for_alone(self.waiting(), time.all);
        while !sides[0].interrupted() {
            let is_alone = |at: usize| is_alone(sides, self.blocks[at]);
            match pace.step(&self.lacks, began.elapsed(), is_alone)? {
                Step::End => break,
                Step::Wait => sleep(NAP),
                Step::Visit(at) => {
                    sides[0].progress.one_more();
                    if self.is_in_vain(sides, at, visit)? {
                        let now = began.elapsed();
                        pace.was_shared(now);
                        sides[0].progress.waits_for_alone(self.waiting(), time.after(now).all);
                    } else {
                        pace.was_of_use();
                    }
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
    ) -> Result<bool> {
        let block = self.blocks[at];
        let launches = sides.iter().map(|side| side.next_launch(block));
        let launch = launches.fold(self.counts[block], u32::max);
        let before = self.lacks[at];
        let is_waiting = before.waiting() > 0 && !before.lost && !before.disagree();
        if is_waiting {
            // What it does not lack would only make the launch longer, and the core is alone for a short time.
            let lacking: Vec<Point> =
                sides.iter().flat_map(|side| side.points_lacking(block)).collect();
            sides.iter_mut().for_each(|side| side.only.clone_from(&lacking));
        }
        let visited = visit(sides, block, launch, self.counts[block]);
        sides.iter_mut().for_each(|side| side.only.clear());
        visited?;
        self.lacks[at] = lack(sides, block);
        let after = &mut self.lacks[at];
        // A launch that was not recorded counts all the same.
        after.visits = after.visits.max(before.visits + 1);
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
            let rows = || history::rows_of_boot(self.table, boot, build, &points);
            shared_ratio::add_alone(row, self.earlier.get_or_init(rows));
        }
    }

    /// How long additional launches may take from now on: what is left of the announced time or of the user's, or a
    /// little more, and what the user adds for them.
    fn time_for_more(&self, elapsed: Duration) -> Time {
        let plan = self.plan();
        let announced = match (plan.budget_ns, plan.launches) {
            (Some(budget_ns), _) => (Duration::from_nanos(budget_ns), Duration::ZERO),
            (None, Some(_)) => Default::default(),
            (None, None) => {
                let announced = Cost::new(self.table, plan, self.precision).time;
                (announced, announced.mul_f64(TIME_SHARE).max(TIME_MIN))
            }
        };
        let until_alone = Duration::from_nanos(plan.until_alone_ns.unwrap_or(0));
        Time::left(&self.run().launches, elapsed, announced, until_alone)
    }

    /// Whether a look sees a core alone for the next launch of a block, which then uses it; not where nobody can look.
    fn sees_alone(&mut self, block: usize) -> Result<bool> {
        let launch = self.next_launch(block);
        let Some(done) = launch.checked_sub(1) else {
            return Ok(false);
        };
        // While no core is alone, a launch that is done, and so needs none, is taken first.
        let mut queue = [(block, launch), (block, done)].into();
        let is_first = self.next(&mut queue)? == Some((block, launch));
        Ok(is_first && self.looks.as_ref().is_some_and(|looks| !looks.is_empty()))
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
        let alone = self.lacking_alone(block, &launches);
        Lack {
            lost: visits < state.lost() && !is_over,
            disagree: may_disagree && left.iter().any(disagree),
            rows: alone.len(),
            launches: alone.iter().map(|(_, lacking)| lacking).sum(),
            visits,
            until_alone: plan.until_alone_ns.is_some(),
            launch,
        }
    }

    /// The points of a block that lack launches with enough batches alone, after these launches, and how many.
    fn lacking_alone(&self, block: usize, launches: &[&LaunchRow]) -> Vec<(Point, u32)> {
        let state = self.block(block);
        let (cores, are_two) = (&self.facts.cpu.cores, self.machines.are_two());
        let leading =
            |role: &Text| self.probe(&state.planned().points[0]).info.roles.last() == Some(role);
        let share_a_core = launches
            .iter()
            .all(|launch| shares_a_core(launch, cores, |role| !are_two || leading(role)));
        // The threads of such a launch are each other's neighbours: if none was alone so far, none will be.
        let is_open = |lacking: u32| lacking > 0 && !(share_a_core && lacking >= MIN_LAUNCHES);
        let lacking = state.points_left().into_iter().map(|point| {
            let lacking = estimate::lacking_alone(&self.probe(&point).info, &point, launches);
            (point, lacking)
        });
        lacking.filter(|(_, lacking)| is_open(*lacking)).collect()
    }

    fn points_lacking(&self, block: usize) -> Vec<Point> {
        let launches: Vec<&LaunchRow> = self.block(block).launches().collect();
        self.lacking_alone(block, &launches).into_iter().map(|(point, _)| point).collect()
    }

    /// Whether the first launches of a block found too little of a core that is alone, for most of its points.
    pub(super) fn waits_for_alone(&mut self, block: usize) -> bool {
        2 * self.lack(block).waiting() > self.block(block).planned().points.len()
    }
}

/// Whether a launch gave these roles, of one machine, two CPUs of one core.
fn shares_a_core(launch: &LaunchRow, cores: &[CpuSet], is_here: impl Fn(&Text) -> bool) -> bool {
    let roles = launch.placement.0.iter().filter(|(role, _)| *role != CONTROLLER && is_here(role));
    let cpus: BTreeSet<usize> = roles.flat_map(|(_, cpus)| cpus).copied().collect();
    cores.iter().any(|core| cpus.iter().filter(|cpu| core.contains(**cpu as u32)).count() > 1)
}

/// Whether a launch came after the planned ones of its block.
fn is_more(launch: &&LaunchRow) -> bool {
    launch.of > 0 && launch.launch >= launch.of
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::{Noise, Placement};
    use std::convert::Infallible;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A block of one point that lacks so many launches alone.
    fn lacking(launches: u32) -> Lack {
        Lack { rows: usize::from(launches > 0), launches, launch: ms(30), ..Lack::default() }
    }

    /// So much time is left, and a core is alone.
    fn chosen(lacks: &[Lack], left: Duration) -> Option<usize> {
        next(lacks, Time { all: left, announced: left }, true)
    }

    #[test]
    fn what_lacks_most_is_next_and_all_have_their_turn() {
        let mut lacks = [lacking(0), lacking(1), lacking(3), lacking(2)];
        let mut order = Vec::new();
        for _ in 0..6 {
            let block = chosen(&lacks, ms(1000)).unwrap();
            lacks[block].visits += 1;
            order.push(block);
        }
        assert_eq!(order, [2, 3, 1, 2, 3, 1]);
        // One that takes a third of the time comes three times as often.
        lacks = [lacking(3), lacking(0), lacking(0), lacking(3)];
        lacks[3].launch = ms(11);
        let mut order = Vec::new();
        for _ in 0..5 {
            let block = chosen(&lacks, ms(1000)).unwrap();
            lacks[block].visits += 1;
            order.push(block);
        }
        assert_eq!(order, [3, 3, 0, 3, 3]);
    }

    #[test]
    fn it_ends_when_nothing_is_lacking_or_nothing_fits_the_time() {
        let mut lacks = [lacking(3), lacking(0)];
        assert_eq!(chosen(&lacks, ms(30)), Some(0));
        assert_eq!(chosen(&lacks, ms(29)), None);
        assert_eq!(chosen(&[lacking(0)], ms(1000)), None);
        // One whose number of launches is used up waits no more, unless the user gives time.
        lacks[0].visits = ALONE_MAX;
        assert_eq!(chosen(&lacks, ms(1000)), None);
        lacks[0].until_alone = true;
        assert_eq!(chosen(&lacks, ms(1000)), Some(0));
    }

    #[test]
    fn what_a_crash_took_is_repeated_first_and_whatever_the_time() {
        let mut lacks = [lacking(3), lacking(0)];
        (lacks[1].lost, lacks[1].visits) = (true, 2);
        assert_eq!(chosen(&lacks, ms(1000)), Some(1));
        assert_eq!(chosen(&lacks, Duration::ZERO), Some(1));
    }

    #[test]
    fn launches_that_disagree_get_others_without_lacking_any_alone() {
        let mut lacks = [lacking(0)];
        lacks[0].disagree = true;
        assert_eq!(chosen(&lacks, ms(1000)), Some(0));
        assert_eq!(chosen(&lacks, ms(10)), None);
        lacks[0].visits = DISAGREE_MAX;
        assert_eq!(chosen(&lacks, ms(1000)), None);
    }

    #[test]
    fn the_time_that_the_user_adds_is_for_rows_alone() {
        let mut lacks = [lacking(0), lacking(3)];
        lacks[0].disagree = true;
        lacks[1].visits = 1;
        let left = |announced| Time { all: ms(120_000), announced: ms(announced) };
        assert_eq!(next(&lacks, left(30), true), Some(0));
        assert_eq!(next(&lacks, left(29), true), Some(1));
        assert_eq!(next(&lacks, left(29), false), None);
    }

    /// A launch of so many milliseconds, without a result.
    fn took(launch: u32, of: u32, ms: f64) -> LaunchRow {
        let placement = Placement::default();
        let (points, noise, link) = (Vec::new(), Noise::default(), None);
        LaunchRow { block: 0, launch, of, wall_ns: ms * 1e6, points, noise, placement, link }
    }

    #[test]
    fn every_launch_and_all_that_took_time_leaves_less_of_it() {
        let time = |launches: &[LaunchRow], elapsed| {
            let time = Time::left(launches, ms(elapsed), (ms(10_000), ms(1000)), ms(5000));
            [time.announced, time.all].map(|time| time.as_millis())
        };
        assert_eq!(time(&[took(0, 3, 2000.0)], 0), [8000, 13_000]);
        assert_eq!(time(&[took(0, 3, 2000.0)], 4000), [6000, 11_000], "links and looks");
        let hung = [took(0, 3, 60_000.0), took(3, 3, 700.0)];
        assert_eq!(time(&hung, 0), [300, 5300], "the least, without the one that is additional");
    }

    #[test]
    fn a_launch_of_two_cpus_of_one_core_shares_it_by_design() {
        let cores = ["0,4", "1,5"].map(|core| CpuSet::parse(core).unwrap());
        let shares = |roles: &[(&'static str, &[usize])], here: &str| {
            let placement = roles.iter().map(|(role, cpus)| ((*role).into(), cpus.to_vec()));
            let launch = LaunchRow { placement: Placement(placement.collect()), ..took(0, 3, 1.0) };
            shares_a_core(&launch, &cores, |role| here.is_empty() || role == here)
        };
        assert!(shares(&[("only", &[0, 4])], ""));
        assert!(shares(&[("one", &[1]), ("other", &[5])], ""));
        assert!(!shares(&[("one", &[1]), ("other", &[5])], "other"), "on two machines");
        assert!(!shares(&[("only", &[0, 1]), (CONTROLLER, &[4])], ""));
    }

    /// What becomes of blocks in a time of so many milliseconds, on a core that is alone only in a part of it, as looks
    /// see: when each launch was, and what the blocks still lack.
    fn played(
        mut lacks: Vec<Lack>,
        time: u64,
        alone: impl Fn(u64) -> bool,
        seen: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, u32) {
        let (mut now, mut launches) = (0, Vec::new());
        let mut pace = Pace::new(Time { all: ms(time), announced: ms(time) });
        loop {
            let Ok(step) = pace.step(&lacks, ms(now), |_| Ok::<_, Infallible>(seen(now)));
            let block = match step {
                Step::End => break,
                Step::Wait => {
                    now += NAP.as_millis() as u64;
                    continue;
                }
                Step::Visit(block) => block,
            };
            let lack = &mut lacks[block];
            launches.push(now);
            let (is_alone, needs_core) = (alone(now), lack.launches > 0);
            now += lack.launch.as_millis() as u64;
            lack.visits += 1;
            lack.launches -= u32::from(is_alone && needs_core);
            lack.rows = usize::from(lack.launches > 0);
            match needs_core && !is_alone {
                true => pace.was_shared(ms(now)),
                false => pace.was_of_use(),
            }
        }
        (launches, lacks.iter().map(|lack| lack.launches).sum())
    }

    #[test]
    fn a_look_ends_a_wait_but_not_twice_in_vain() {
        let blocks = vec![lacking(1); 3];
        // Three moments of 60 ms, each long after the other: without looks, launches meet none.
        let alone = |now| [1000, 2500, 4000].iter().any(|at| (*at..at + 60).contains(&now));
        let (launches, lack) = played(blocks.clone(), 5000, alone, alone);
        assert_eq!(lack, 0, "{launches:?}");
        // What a look sees is never true: at most each other launch is due to one.
        let (without, _) = played(blocks.clone(), 5000, |_| false, |_| false);
        let (with, _) = played(blocks, 5000, |_| false, |_| true);
        assert!(with.len() <= 2 * without.len() + 1, "{} {}", with.len(), without.len());
    }

    #[test]
    fn what_needs_no_core_is_measured_during_a_wait() {
        let mut disagree = lacking(0);
        (disagree.disagree, disagree.visits) = (true, 1);
        let mut pace = Pace::new(Time { all: ms(5000), announced: ms(5000) });
        pace.was_shared(ms(30));
        let mut step = |lacks: &[Lack]| {
            let Ok(step) = pace.step(lacks, ms(30), |_| Ok::<_, Infallible>(false));
            step
        };
        assert_eq!(step(&[lacking(3), disagree]), Step::Visit(1));
        assert_eq!(step(&[lacking(3), lacking(0)]), Step::Wait);
        assert_eq!(step(&[lacking(0)]), Step::End);
    }

    #[test]
    fn launches_are_spread_over_the_time_until_the_core_is_alone_and_follow_each_other_then() {
        let blocks = vec![lacking(3); 12];
        // Never alone: few launches, and none after the time.
        let (launches, lack) = played(blocks.clone(), 5000, |_| false, |_| false);
        assert_eq!(lack, 36);
        assert!((20..60).contains(&launches.len()), "{launches:?}");
        assert!(launches.last() < Some(&5000));
        let late = launches.iter().filter(|at| **at > 2500).count();
        assert!(late > launches.len() / 4, "{launches:?}");
        // A little more than a second alone, late.
        let alone = |now| (3000..4300).contains(&now);
        let (launches, lack) = played(blocks.clone(), 5000, alone, |_| false);
        assert_eq!(lack, 0, "{launches:?}");
        // Always alone: at once, and done.
        let (launches, lack) = played(blocks, 5000, |_| true, |_| true);
        assert_eq!((launches.len(), lack, launches[35]), (36, 0, 35 * 30));
    }

    #[test]
    fn a_wait_is_a_part_of_the_time_that_is_left_within_bounds() {
        let waits = [0, 20, 500, 8_000, 120_000].map(|left| wait(ms(left)).as_millis());
        assert_eq!(waits, [0, 20, 50, 500, 2000]);
    }
}

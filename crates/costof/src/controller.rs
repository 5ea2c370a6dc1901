//! Carries out a plan: predictions, launches, points, level by level, each
//! written down as soon as it is known. What a run file already holds is not
//! measured again.

pub(crate) mod in_turns;

use crate::error::Error;
use crate::machine::{Asking, Machine};
use crate::placement::one_machine;
use crate::planning;
use crate::progress::Progress;
use crate::record::Record;
use costof_lab::host::WorkerCommand;
use costof_lab::launch::{self, Lost, Outcome, Place, Setting};
use costof_lab::link::Made;
use costof_measure::estimate;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Counted, LEAST_LAUNCHES, Precision};
use costof_model::facts::Facts;
use costof_model::failure::{Failure, FailureKind};
use costof_model::link::Link;
use costof_model::link_report::LinkReport;
use costof_model::noise::{CONTROLLER, MEASURED, Noise, PEER, Placement};
use costof_model::point::Point;
use costof_model::prediction::Known;
use costof_model::protocol::{Launch, Meeting};
use costof_model::rows::{
    Block, FailureRow, LaunchPoint, LaunchRow, PointRow, PredictionRow, Row, State,
};
use costof_model::run_file::Run;
use costof_model::{Few, Text};
use costof_os::random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A point at which this many launches crashed is left out of later ones.
const CRASHES_MAX: usize = 2;
/// So many launches may follow those of a block that disagree, or of which too few had their core to
/// themselves.
const MORE_LAUNCHES_MAX: u32 = 3;
/// All of those of a run take at most this share of its budget.
const MORE_LAUNCHES_SHARE: f64 = 0.1;

/// Carries out what is missing of a run.
pub(crate) struct Controller<'a> {
    pub(crate) table: &'a [&'static Probe],
    /// How workers are asked.
    pub(crate) asking: Asking<'a>,
    /// Starts the process that holds a link.
    pub(crate) holder: &'a WorkerCommand,
    /// The links that were asked for so far, by name.
    pub(crate) links: BTreeMap<Text, Result<Made, Failure>>,
    /// Of the leading host, with the processors of the run.
    pub(crate) facts: Facts,
    /// Where the leading roles run, and those of probes with one.
    pub(crate) near: &'a Machine,
    /// Where the others run, where that is another host.
    pub(crate) far: Option<&'a Machine>,
    pub(crate) precision: Precision,
    pub(crate) progress: &'a Progress<'a>,
    pub(crate) record: &'a mut Record,
    /// What was asked and is known so far: what the file holds, and no more.
    pub(crate) run: &'a mut Run,
}

impl Controller<'_> {
    /// Measures what is missing. Returns early where it was interrupted.
    ///
    /// At first each block has as few launches as make an interval, level by level, since predictions
    /// take what was measured before them. What then is left of the time goes to all blocks alike, in
    /// launches that are spread over the rest of the run: who shares the core comes and goes.
    pub(crate) fn carry_out(&mut self) -> Result<(), Error> {
        let least = LEAST_LAUNCHES.min(self.launches_wanted());
        for level in 0..=self.last_level() {
            let blocks = self.begin(level)?;
            let seed = self.run.run.seed ^ u64::from(level);
            for launch in 0..least {
                for position in schedule::round_order(seed, launch, blocks.len()) {
                    self.launch(blocks[position], launch, 0)?;
                }
            }
            if self.interrupted() {
                return Ok(());
            }
        }
        let counts = self.launch_counts();
        self.progress
            .expect(counts.iter().map(|count| u64::from(*count)).sum());
        for (block, launch) in schedule::order(self.run.run.seed, &counts, least) {
            if launch >= least {
                self.launch(block, launch, counts[block])?;
            }
            if !self.interrupted() && launch + 1 == counts[block] {
                self.make_up(block, counts[block])?;
            }
            if self.interrupted() {
                return Ok(());
            }
            if launch + 1 == counts[block] {
                self.complete(block)?;
            }
        }
        Ok(())
    }

    fn last_level(&self) -> u32 {
        let levels = self.blocks().iter().map(|block| block.level);
        levels.max().unwrap_or(0)
    }

    /// The blocks of a level, of which is written down what is expected.
    fn begin(&mut self, level: u32) -> Result<Vec<usize>, Error> {
        let blocks: Vec<usize> = (0..self.blocks().len())
            .filter(|block| self.blocks()[*block].level == level)
            .collect();
        let known = self.known_so_far();
        for block in &blocks {
            self.predict(*block, &known)?;
        }
        Ok(blocks)
    }

    /// One more launch of a block for each that a crash took from all of its
    /// points, so that what does not crash keeps its launches. A point that
    /// crashes is soon left out, which bounds them. And a few more where launches
    /// disagree, while there is time.
    fn make_up(&mut self, block: usize, count: u32) -> Result<(), Error> {
        let mut launch = count;
        while launch < count + self.lost(block) + self.more(block) && !self.interrupted() {
            self.launch(block, launch, count)?;
            launch += 1;
        }
        Ok(())
    }

    /// How many launches more a block may get: none where its launches agree, their number was asked
    /// for, a first look is enough, or the time for such launches is over.
    fn more(&self, block: usize) -> u32 {
        let plan = &self.run.run.plan;
        let launches = self.run.launches.iter();
        let more = launches.filter(|launch| launch.of > 0 && launch.launch >= launch.of);
        let budget = planning::budget(self.table, plan, self.precision);
        let is_over =
            time_spent(more).is_some_and(|spent| spent >= budget.mul_f64(MORE_LAUNCHES_SHARE));
        if plan.launches.is_some() || is_over || self.precision == Precision::Quick {
            return 0;
        }
        let launches: Vec<&LaunchRow> = self.launches_of(block).collect();
        let disagree = |point: &Point| {
            let medians = estimate::medians(&self.probe(point).info, point, &launches);
            // What failed each time will fail again.
            !medians.is_empty() && schedule::needs_more(&medians)
        };
        match self.points_left(block).iter().any(disagree) {
            true => MORE_LAUNCHES_MAX,
            false => 0,
        }
    }

    /// How many launches of a block gave nothing because a point crashed.
    fn lost(&self, block: usize) -> u32 {
        let crashed = |launch: &LaunchRow| {
            self.run.failures.iter().any(|row| {
                row.block == block && row.launch == Some(launch.launch) && is_crash(row.kind)
            })
        };
        self.launches_of(block)
            .filter(|launch| !gave_something(launch) && crashed(launch))
            .count() as u32
    }

    /// Writes down what is expected of a block, before it is measured.
    fn predict(&mut self, block: usize, known: &[PointRow]) -> Result<(), Error> {
        for point in self.blocks()[block].points.clone() {
            if self.run.prediction(&point).is_some() {
                continue;
            }
            let probe = self.probe(&point);
            if let Some(prediction) = (probe.predict)(&point, &self.facts, &Known(known)) {
                self.write(Row::Prediction(PredictionRow { point, prediction }))?;
            }
        }
        Ok(())
    }

    /// What is known so far, in the plan's order, so that which of several points a prediction finds first
    /// does not depend on the order in which they were measured.
    fn known_so_far(&self) -> Vec<PointRow> {
        let so_far = estimate::so_far(self.run);
        let known = |point: &Point| {
            let rows = self.run.points.iter().chain(&so_far);
            rows.clone().find(|row| row.point == *point).cloned()
        };
        self.run.run.plan.points().filter_map(known).collect()
    }

    /// How many launches each block gets: as the file says where it was decided before, else what there
    /// is time for.
    fn launch_counts(&self) -> Vec<u32> {
        let blocks = 0..self.blocks().len();
        let counted: Vec<Counted> = blocks.clone().map(|block| self.counted(block)).collect();
        let spent = time_spent(self.run.launches.iter()).unwrap_or_default();
        let budget = planning::budget(self.table, &self.run.run.plan, self.precision);
        let fresh = match self.run.run.plan.launches {
            Some(asked) => vec![asked; counted.len()],
            None => schedule::launch_counts(&counted, budget.saturating_sub(spent), self.precision),
        };
        blocks
            .zip(fresh)
            .map(|(block, fresh)| self.decided(block).unwrap_or(fresh))
            .collect()
    }

    /// How many launches a block was to have, where the file says so or has all of its points.
    fn decided(&self, block: usize) -> Option<u32> {
        let planned = &self.blocks()[block];
        let mut points = planned.points.iter();
        match points.all(|point| self.is_known(block, point)) {
            true => self
                .launches_of(block)
                .map(|launch| launch.launch + 1)
                .max(),
            false => {
                let mut decided = self.launches_of(block).map(|launch| launch.of);
                decided.find(|of| *of > 0)
            }
        }
    }

    /// Whether it is written down what a point costs, or why that is not known.
    fn is_known(&self, block: usize, point: &Point) -> bool {
        let failed =
            |row: &FailureRow| row.block == block && row.launch.is_none() && row.point == *point;
        self.run.points.iter().any(|row| row.point == *point)
            || self.run.failures.iter().any(failed)
    }

    fn counted(&self, block: usize) -> Counted {
        let planned = &self.blocks()[block];
        let useful = self
            .launches_of(block)
            .filter(|launch| gave_something(launch));
        let done = useful.count() as u32;
        let spent = time_spent(self.launches_of(block));
        Counted {
            launch: match self.points_left(block).is_empty() {
                true => Duration::ZERO,
                // Launches that gave nothing say nothing of those to come.
                false => spent.map_or_else(
                    || planning::launch_time(self.table, planned, self.precision),
                    |spent| spent / done.max(1),
                ),
            },
            points: planned.points.len(),
            done,
        }
    }

    /// How many launches a block gets, where the time allows.
    fn launches_wanted(&self) -> u32 {
        planning::launches(&self.run.run.plan, self.precision)
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
        self.make_link(probe, first, self.seed(block, launch));
        // Without a word of why there is no link.
        if self.interrupted() {
            return Ok(());
        }
        // Making a link is no part of it, and there is only one for many.
        let began = Instant::now();
        let placement = self.placement(probe, &left);
        self.place_relay(first, &placement);
        let outcome = self.outcome(probe, &left, (block, launch), &placement);
        let wall_ns = began.elapsed().as_nanos() as f64;
        // A link that has ended takes the launch along, whatever its workers say.
        let (link, outcome) = match self.link_report(first) {
            Ok(link) => (link, outcome),
            Err(_) if matches!(outcome, Err(Lost::Interrupted)) => return Ok(()),
            Err(failure) => (None, Err(Lost::Failed(None, failure))),
        };
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
                let failed: BTreeSet<usize> = outcome.failures.iter().map(|(at, _)| *at).collect();
                for (position, failure) in outcome.failures {
                    self.fail(&left[position], block, Some(launch), failure)?;
                }
                let points = left
                    .iter()
                    .zip(outcome.reports)
                    .enumerate()
                    .map(|(position, (point, reports))| {
                        // Where one role failed, another may know of nothing.
                        if failed.contains(&position) {
                            return without_a_number(point);
                        }
                        let report = (probe.derive)(point, reports);
                        LaunchPoint {
                            point: point.clone(),
                            state: report.state,
                            metrics: report.metrics,
                            allocations: report.allocations,
                        }
                    })
                    .collect();
                (points, outcome.noise)
            }
        };
        self.write(Row::Launch(Box::new(LaunchRow {
            block,
            launch,
            of,
            wall_ns,
            points,
            noise,
            placement,
            link,
        })))?;
        self.progress.launched();
        Ok(())
    }

    /// Makes the link of a point when it is first asked for, and again where it
    /// has ended or could not be tried; what it loses is drawn from this seed.
    fn make_link(&mut self, probe: &Probe, point: &Point, seed: u64) {
        if !probe.info.needs_link() {
            return;
        }
        let is_settled = match self.links.get_mut(&point.link) {
            Some(Ok(made)) => made.begin(seed).is_ok(),
            // It will not be different for the next launch.
            Some(Err(failure)) => failure.kind == FailureKind::Unsupported,
            None => false,
        };
        if is_settled {
            return;
        }
        let asked = self.run.run.plan.hosts.peer_address;
        let link: Result<Link, String> = point.link.parse();
        let made = link.map_err(Failure::error).and_then(|link| {
            self.near.may_come_to(&link)?;
            let mut made = Made::make(&link, asked, self.holder)?;
            self.near.comes_to(&link, &made, self.asking)?;
            made.begin(seed).map(|()| made)
        });
        self.links.insert(point.link.clone(), made);
    }

    /// Lets what relays the link of a point run where no role of the launch does, if there is such a
    /// processor: it runs before everything else, most of the time.
    fn place_relay(&mut self, point: &Point, placement: &Placement) {
        let Some(Ok(made)) = self.links.get_mut(&point.link) else {
            return;
        };
        if !made.is_relayed() {
            return;
        }
        let roles = placement.0.iter().filter(|(role, _)| *role != CONTROLLER);
        let measured: BTreeSet<usize> = roles.flat_map(|(_, cpus)| cpus).copied().collect();
        let mut cpus = self.near.allowed();
        cpus.retain(|cpu| !measured.contains(cpu));
        if cpus.is_empty() {
            // Rather the other roles' than the leading one's.
            let leading = self.run.run.plan.placement.0.get(MEASURED);
            let leading = leading.and_then(|cpus| cpus.first());
            cpus = self.near.allowed();
            cpus.retain(|cpu| leading != Some(cpu));
        }
        // One that has ended says so when it is asked for its report.
        let _ = made.relay_on(&cpus);
    }

    /// What the link of a point did during the launch. One that does not answer
    /// has ended, and is made anew for the next.
    fn link_report(&mut self, point: &Point) -> Result<Option<Box<LinkReport>>, Failure> {
        let Some(Ok(made)) = self.links.get_mut(&point.link) else {
            return Ok(None);
        };
        let report = made.report();
        if report.is_err() {
            self.links.remove(&point.link);
        }
        Ok(report?.map(Box::new))
    }

    /// Starts the workers of a launch, each at its end of the link where they
    /// need one, and lets them measure.
    fn outcome(
        &self,
        probe: &Probe,
        points: &[Point],
        launch: (usize, u32),
        placement: &Placement,
    ) -> Result<Outcome, Lost> {
        let link = match self.links.get(&points[0].link) {
            Some(Ok(made)) => Some(made),
            Some(Err(failure)) => return Err(Lost::Failed(None, failure.clone())),
            None => None,
        };
        for machine in [Some(self.near), self.far].into_iter().flatten() {
            machine
                .has(&probe.info)
                .map_err(|failure| Lost::Failed(None, failure))?;
        }
        let token = token().map_err(|error| {
            let reason = format!("the kernel gives no random bytes for a token: {error}");
            Lost::Failed(None, Failure::error(reason))
        })?;
        let told = self.told(probe, points, launch, placement, link, &token);
        let places: Vec<Place<'_>> = (0..told.len())
            .map(|role| Place {
                host: &self.machine(leads(probe, role)).host,
                end: link.map(|link| link.end(leads(probe, role))),
            })
            .collect();
        let setting = Setting {
            command: self.asking.command,
            limit: self.asking.limit,
            interrupted: self.asking.interrupted,
        };
        launch::run(&places, told, &setting)
    }

    /// The machine of the role that leads, or of the others.
    fn machine(&self, leads: bool) -> &Machine {
        match self.far {
            Some(far) if !leads => far,
            _ => self.near,
        }
    }

    /// What the workers of a launch of a block are told, by role.
    fn told(
        &self,
        probe: &Probe,
        points: &[Point],
        (block, launch): (usize, u32),
        placement: &Placement,
        link: Option<&Made>,
        token: &str,
    ) -> Vec<Launch> {
        let plan = &self.run.run.plan;
        let time = self.precision.batch_time_per_point();
        let seed = self.seed(block, launch);
        let apart = self.far.is_some_and(|far| !one_machine(self.near, far));
        let cpus = |role: &Text| placement.0.get(role).cloned().unwrap_or_default();
        // The processors of the other roles on the same machine.
        let partners = |own: usize| -> Vec<usize> {
            let others = probe.info.roles.iter().enumerate();
            let mut partners: Vec<usize> = others
                .filter(|(other, _)| *other != own)
                .filter(|(other, _)| !apart || leads(probe, *other) == leads(probe, own))
                .flat_map(|(_, role)| cpus(role))
                .collect();
            partners.sort_unstable();
            partners.dedup();
            partners
        };
        probe
            .info
            .roles
            .iter()
            .enumerate()
            .map(|(position, role)| Launch {
                role: role.clone(),
                points: points.to_vec(),
                cpus: cpus(role),
                partners: partners(position),
                seed,
                point_time_ns: time.as_nanos() as u64,
                rounds: plan.blocks[block].rounds,
                clock: self
                    .machine(leads(probe, position))
                    .description
                    .clock
                    .clone(),
                meeting: link.map(|link| Meeting {
                    address: link.end(leads(probe, position)).address,
                    ports: match leads(probe, position) {
                        true => (0, 0),
                        false => plan.hosts.peer_ports.unwrap_or_default(),
                    },
                    token: token.to_owned(),
                    apart,
                    sink: link.drops_all.then_some(link.far.address),
                }),
            })
            .collect()
    }

    /// Another draw for each launch, the same one for each attempt.
    fn seed(&self, block: usize, launch: u32) -> u64 {
        self.run.run.seed ^ ((block as u64) << 32) ^ (u64::from(launch) << 1)
    }

    /// The processors that a launch of these points uses: of the measured ones
    /// as many as the points ask for, in their order for the leading role, and
    /// for each role before it from one further on, so that roles run on
    /// different ones where there are enough. Roles at a peer that has processors
    /// of its own share those alike. Where a link is relayed, one processor is left
    /// to its relay, unless ends that need one each would share what is left.
    fn placement(&self, probe: &Probe, points: &[Point]) -> Placement {
        let wanted = points.iter().map(probe.processors).max().unwrap_or(1);
        let all = &self.run.run.plan.placement.0;
        let of = |name: &str| -> Option<Vec<usize>> {
            let mut cpus = all.get(name).cloned()?;
            cpus.truncate(wanted);
            Some(cpus)
        };
        let mut measured = of(MEASURED).unwrap_or_default();
        let link = points.first().and_then(|point| self.links.get(&point.link));
        if link.is_some_and(|link| link.as_ref().is_ok_and(Made::is_relayed)) {
            let left = self.near.allowed().len().saturating_sub(1);
            if left >= probe.info.roles.len() || !points.iter().any(are_apart) {
                measured.truncate(left.max(1));
            }
        }
        let mut peer = of(PEER);
        let controller = all.get(CONTROLLER).cloned().unwrap_or_default();
        let mut placement = Few::from_iter([(Text::Borrowed(CONTROLLER), controller)]);
        for (position, role) in probe.info.roles.iter().enumerate().rev() {
            let cpus = match &mut peer {
                Some(peer) if !leads(probe, position) => peer,
                _ => &mut measured,
            };
            placement.insert(role.clone(), cpus.clone());
            if !cpus.is_empty() {
                cpus.rotate_left(1);
            }
        }
        Placement(placement)
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
                .filter(|row| is_crash(row.kind))
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
            if self.is_known(block, point) {
                continue;
            }
            match estimate::planned_point(self.run, block, position) {
                Ok(row) => self.write(Row::Point(Box::new(row)))?,
                Err(failure) => {
                    // What the launches that gave a number say comes first.
                    let why = match self.launches_of(block).any(|launch| gave(launch, point)) {
                        true => None,
                        false => self.first_failure(block, point),
                    };
                    let why = why.unwrap_or(failure);
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
        self.record.write(self.run, row)
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
        self.asking.interrupted.load(Ordering::Relaxed)
    }
}

/// What both ends of a launch know and no stranger can guess: 32 hexadecimal digits.
fn token() -> io::Result<String> {
    let drawn = u128::from_ne_bytes(random::bytes()?);
    Ok(format!("{drawn:032x}"))
}

/// Whether the role at this position leads.
fn leads(probe: &Probe, position: usize) -> bool {
    position + 1 == probe.info.roles.len()
}

/// Whether its ends need a processor each, by axes that probes share: they ask again and again, or
/// are asked to be on two.
fn are_apart(point: &Point) -> bool {
    let is = |axis, word| point.axes.find_word(axis) == Some(word);
    is("wait", "spin") || is("cpus", "cross")
}

fn is_crash(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Crashed | FailureKind::TimedOut)
}

/// Whether a launch gave a point a number.
fn gave(launch: &LaunchRow, point: &Point) -> bool {
    let mut points = launch.points.iter();
    points.any(|given| given.point == *point && given.state != State::Failed)
}

fn gave_something(launch: &LaunchRow) -> bool {
    launch
        .points
        .iter()
        .any(|given| given.state != State::Failed)
}

/// How long those launches took that gave something; `None` where none did. A
/// worker that hung until its limit says nothing of how long measuring takes.
fn time_spent<'a>(launches: impl Iterator<Item = &'a LaunchRow>) -> Option<Duration> {
    let useful = launches.filter(|launch| gave_something(launch));
    useful
        .map(|launch| Duration::from_nanos(launch.wall_ns as u64))
        .reduce(|sum, time| sum + time)
}

fn without_a_number(point: &Point) -> LaunchPoint {
    LaunchPoint {
        point: point.clone(),
        state: State::Failed,
        metrics: Vec::new(),
        allocations: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;

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
        assert_eq!(
            time_spent([&hung, &partly, &empty].into_iter()),
            Some(Duration::from_secs(3))
        );
    }
}

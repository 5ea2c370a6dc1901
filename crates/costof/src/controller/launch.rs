//! One launch of a block: its link, the CPUs and the task of each role, and its result.

use super::Controller;
use crate::error::{Error, Result};
use crate::placement;
use crate::resume;
use costof_lab::launch::{self, Lost, Outcome, Place, Setting};
use costof_lab::link::Made;
use costof_measure::probe::Probe;
use costof_model::noise::{CONTROLLER, ELIGIBLE, MEASURED, PEER};
use costof_model::rows::Row;
use costof_model::{
    Failure, FailureKind, Few, Launch, LaunchRow, Link, LinkReport, Noise, Placement, Point,
    Rendezvous, Report, State, Text,
};
use costof_os::process::command::{adopt_orphans, children, end_children};
use costof_os::random;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A point's worker is ended after this many times the point's shortest duration, and not before.
const LIMIT_OF_LEAST: u32 = 6;

impl Controller<'_> {
    /// Runs a launch of a block, unless the file has it. `of` is the number of launches of the block, if that
    /// is decided.
    pub(super) fn launch(&mut self, block: usize, launch: u32, of: u32) -> Result<()> {
        let state = self.block(block);
        let is_done = state.launches().any(|done| done.launch == launch);
        let mut left = state.points_left();
        if !self.only.is_empty() {
            left.retain(|point| self.only.contains(point));
        }
        let first = match left.first() {
            Some(first) if !is_done => first,
            _ => {
                self.progress.launched();
                return Ok(());
            }
        };
        if self.interrupted() {
            return Ok(());
        }
        let probe = self.probe(first);
        self.progress.begin(&probe.info.id);
        let seed = self.seed(block, launch);
        if probe.info.needs_link() {
            self.make_link(first, seed);
        }
        // No reason is recorded for the missing link.
        if self.interrupted() {
            return Ok(());
        }
        // Making a link is not part of the launch's time: many launches share one link.
        let began = Instant::now();
        let cpus = self.most_alone(probe, &left, seed)?;
        let placement = self.placement(probe, &left, cpus);
        placement::leave_the_measured(&placement);
        self.place_relay(first, &placement);
        let outcome = self.outcome(probe, &left, (block, launch), &placement);
        let wall_ns = began.elapsed().as_nanos() as f64;
        self.check_held()?;
        // If the link has ended, the launch fails too, whatever its workers report.
        let (link, outcome) = match self.link_report(first) {
            Ok(link) => (link, outcome),
            // What was measured whole stays. What its link did is unknown.
            Err(_) if self.interrupted() => (None, outcome),
            Err(failure) => (None, Err(failure.into())),
        };
        let (reports, noise, failures) = match outcome {
            Err(Lost::Interrupted) => return Ok(()),
            Err(Lost::Failed(position, failure)) => {
                let concerned = position.map_or(0..left.len(), |at| at..at + 1);
                let failures = concerned.map(|at| (at, failure.clone())).collect();
                (Vec::new(), Noise::default(), failures)
            }
            Ok(outcome) => (outcome.reports, outcome.noise, outcome.failures),
        };
        let failed: BTreeSet<usize> = failures.iter().map(|(at, _)| *at).collect();
        for (position, failure) in failures {
            self.fail(&left[position], block, Some(launch), failure)?;
        }
        let mut reports = reports.into_iter();
        let mut points = Vec::with_capacity(left.len());
        for (position, point) in left.iter().enumerate() {
            // If one role fails, another may report nothing about it.
            let reports = reports.next().filter(|_| !failed.contains(&position));
            let report = reports.map(|reports| (probe.derive)(point, reports));
            if let Some(Report { state: State::Failed, .. }) = &report {
                let why = "the reports of its roles do not fit together";
                self.fail(point, block, Some(launch), Failure::error(why))?;
            }
            points.push(report.unwrap_or(Report::FAILED).of(point.clone()));
        }
        self.record.write(Row::Launch(Box::new(LaunchRow {
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

    /// Checks that no other costof could measure during the launch.
    ///
    /// # Errors
    /// The process that held a machine's lock has ended: the launch is not recorded.
    fn check_held(&self) -> Result<()> {
        let lost = self.machines.iter().find(|machine| !machine.is_held());
        match lost {
            Some(machine) if !self.interrupted() => Err(Error::Nothing(format!(
                "the process that kept other costofs off {} has ended (was it killed, did memory run out, or was the lock's file removed?); \
                 what was measured before is kept: {} goes on",
                machine.host,
                resume::command(self.record.path(), false)
            ))),
            _ => Ok(()),
        }
    }

    /// Makes the link of a point when it is first needed, and again if it has ended or could not be made. The
    /// seed decides what the link loses.
    fn make_link(&mut self, point: &Point, seed: u64) {
        let interrupted = self.setting.interrupted;
        let is_settled = match self.links.get_mut(&point.link) {
            Some(Ok(made)) => made.begin(seed, interrupted).is_ok(),
            // The next launch would fail in the same way.
            Some(Err(failure)) => failure.kind == FailureKind::Unsupported,
            None => false,
        };
        if is_settled {
            return;
        }
        let peer_address = self.plan().hosts.peer_address;
        let machine = &self.machines.measured;
        let link: Result<Link, String> = point.link.parse();
        let made = link.map_err(Failure::error).and_then(|link| {
            machine.may_reach(&link)?;
            let mut made = Made::make(&link, peer_address, self.holder, interrupted)?;
            machine.reaches(&link, &made, self.setting)?;
            made.begin(seed, interrupted).map(|()| made)
        });
        self.links.insert(point.link.clone(), made);
    }

    /// Moves the process that relays the point's link to a CPU on which no role runs, if there is one. The
    /// relay runs most of the time, and before everything else if it has real-time priority.
    fn place_relay(&mut self, point: &Point, placement: &Placement) {
        let mut allowed = self.machines.measured.allowed();
        let probe = self.probe(point);
        let leading =
            probe.info.roles.last().and_then(|role| placement.0.get(role)?.first()).copied();
        let Some(Ok(made)) = self.links.get_mut(&point.link) else {
            return;
        };
        if !made.is_relayed {
            return;
        }
        let roles = placement.0.iter().filter(|(role, _)| *role != CONTROLLER);
        let measured: BTreeSet<usize> = roles.flat_map(|(_, cpus)| cpus).copied().collect();
        if allowed.iter().all(|cpu| measured.contains(cpu)) {
            // Prefers the other roles' CPUs to the leading role's.
            allowed.retain(|cpu| leading != Some(*cpu));
        } else {
            allowed.retain(|cpu| !measured.contains(cpu));
        }
        // A relay that has ended reports that when it is asked for its report.
        let _ = made.relay_on(&allowed, self.setting.interrupted);
    }

    /// What the link of a point did during the launch. A link that does not answer has ended, and is made
    /// anew for the next launch.
    fn link_report(&mut self, point: &Point) -> Result<Option<Box<LinkReport>>, Failure> {
        let Some(Ok(made)) = self.links.get_mut(&point.link) else {
            return Ok(None);
        };
        let report = made.report(self.setting.interrupted);
        if report.is_err() {
            self.links.remove(&point.link);
        }
        Ok(report?.map(Box::new))
    }

    /// Starts the workers of a launch, each at its end of the link if it needs one, and lets them measure.
    fn outcome(
        &self,
        probe: &Probe,
        points: &[Point],
        launch: (usize, u32),
        placement: &Placement,
    ) -> Result<Outcome, Lost> {
        let link = match self.links.get(&points[0].link) {
            Some(Ok(made)) => Some(made),
            Some(Err(failure)) => return Err(failure.clone().into()),
            None => None,
        };
        for machine in self.machines.iter() {
            machine.has(&probe.info)?;
        }
        // Both peers of the launch know it, and no stranger can guess it.
        let token = random::digits().map_err(|error| {
            let reason = format!("the kernel gives no random bytes for a token: {error}");
            Failure::error(reason)
        })?;
        let roles = 0..probe.info.roles.len();
        let places: Vec<Place<'_>> = roles
            .clone()
            .map(|role| Place {
                host: &self.machines.of_role(leads(probe, role)).host,
                end: link.map(|link| link.end(leads(probe, role))),
            })
            .collect();
        let limit = self.limit(probe, points);
        // A worker waits while each of the others prepares and runs.
        let deadline = limit.saturating_mul(2 * probe.info.roles.len() as u32);
        let launches = roles.map(|role| Launch {
            points: points.to_vec(),
            deadline_ns: u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX),
            rendezvous: link.map(|link| self.rendezvous(probe, role, link, &token)),
            ..self.task(probe, role, launch, placement)
        });
        let setting = Setting { limit, ..self.setting };
        if probe.own.is_none() {
            return launch::run(&places, launches.collect(), &setting);
        }
        // A worker that the user's code makes crash cannot end what that code has started.
        let _ = adopt_orphans();
        let before = children();
        let outcome = launch::run(&places, launches.collect(), &setting);
        end_children(&before);
        outcome
    }

    /// How long a worker may take to answer: the user's limit, or more where a point takes long by itself.
    fn limit(&self, probe: &Probe, points: &[Point]) -> Duration {
        let least = points.iter().map(probe.least_ns).fold(0.0, f64::max);
        let least = Duration::from_nanos(least as u64);
        self.setting.limit.max(LIMIT_OF_LEAST * least)
    }

    /// The task of a role's worker in a launch of a block; it does not depend on the points or the link.
    fn task(
        &self,
        probe: &Probe,
        own: usize,
        (block, launch): (usize, u32),
        placement: &Placement,
    ) -> Launch {
        let cpus = |role: &Text| placement.0.get(role).cloned().unwrap_or_default();
        let (roles, are_two) = (&probe.info.roles, self.machines.are_two());
        // The CPUs of the other roles on the same machine.
        let partners: BTreeSet<usize> = roles
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != own)
            .filter(|(other, _)| !are_two || leads(probe, *other) == leads(probe, own))
            .flat_map(|(_, role)| cpus(role))
            .collect();
        let machine = self.machines.of_role(leads(probe, own));
        Launch {
            role: roles[own].clone(),
            points: Vec::new(),
            cpus: cpus(&roles[own]),
            partners: partners.into_iter().collect(),
            seed: self.seed(block, launch),
            point_time_ns: self.precision.batch_time_per_point().as_nanos() as u64,
            rounds: self.plan().blocks[block].rounds,
            deadline_ns: 0,
            clock: machine.description.clock.clone(),
            rendezvous: None,
            by_hand: None,
        }
    }

    /// How a role reaches the others over a link.
    fn rendezvous(&self, probe: &Probe, role: usize, link: &Made, token: &str) -> Rendezvous {
        let leads = leads(probe, role);
        let peer_ports = self.plan().hosts.peer_ports.unwrap_or_default();
        Rendezvous {
            address: link.end(leads).address,
            scope: 0,
            receive_buffer: None,
            ports: if leads { (0, 0) } else { peer_ports },
            token: token.to_owned(),
            apart: self.machines.are_two(),
            sink: link.drops_all.then_some(link.far.address),
        }
    }

    /// A different seed for each launch, and the same one for each attempt at it.
    pub(super) fn seed(&self, block: usize, launch: u32) -> u64 {
        self.run().run.seed ^ ((block as u64) << 32) ^ (u64::from(launch) << 1)
    }

    /// The CPUs that a launch of these points uses if all are equally alone: as many of the measured ones as the
    /// points ask for. If a link is relayed, one is left to the relay, unless peers that need a CPU each would then
    /// have to share one.
    pub(super) fn usual_cpus(&self, probe: &Probe, points: &[Point]) -> Vec<usize> {
        let mut measured = self.first_of(MEASURED, probe, points).unwrap_or_default();
        let link = points.first().and_then(|point| self.links.get(&point.link));
        if link.is_some_and(|link| link.as_ref().is_ok_and(|made| made.is_relayed)) {
            let left = self.machines.measured.allowed().len().saturating_sub(1);
            if left >= probe.info.roles.len() || !points.iter().any(needs_cpu_each) {
                measured.truncate(left.max(1));
            }
        }
        measured
    }

    /// As many of the run's CPUs for these roles as the points ask for; `None` if the run has none for them.
    fn first_of(&self, name: &str, probe: &Probe, points: &[Point]) -> Option<Vec<usize>> {
        let wanted = points.iter().map(probe.processors).max().unwrap_or(1);
        let cpus = self.plan().placement.0.get(name)?.iter().take(wanted);
        Some(cpus.copied().collect())
    }

    /// Which role of a launch uses which of the `measured` CPUs. The leading role gets them in their order, and each
    /// role before it starts one CPU further on, so that roles use different CPUs if there are enough. Roles at a
    /// peer with its own CPUs share those in the same way. The controller gets what the leading role does not run
    /// on.
    fn placement(&self, probe: &Probe, points: &[Point], mut measured: Vec<usize>) -> Placement {
        let mut peer = self.first_of(PEER, probe, points);
        let all = &self.plan().placement.0;
        let mut controller = all.get(CONTROLLER).cloned().unwrap_or_default();
        if all.contains_key(CONTROLLER) && all.contains_key(ELIGIBLE) {
            controller = self.machines.measured.allowed();
            controller.retain(|cpu| measured.first() != Some(cpu));
        }
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

    /// The CPUs of the leading role in a launch that has run.
    pub(super) fn cpus_of(&self, block: usize, launch: u32) -> Option<Vec<usize>> {
        let mut launches = self.block(block).launches();
        let done = launches.find(|done| done.launch == launch)?;
        self.leading_cpus(done).map(<[usize]>::to_vec)
    }

    /// The CPUs of a launch's leading role. Other roles on its machine have the same, in another order.
    pub(super) fn leading_cpus<'l>(&self, launch: &'l LaunchRow) -> Option<&'l [usize]> {
        let probe = self.probe(&launch.points.first()?.point);
        launch.placement.0.get(probe.info.roles.last()?).map(Vec::as_slice)
    }
}

/// Whether the role at this position is the leading one.
fn leads(probe: &Probe, position: usize) -> bool {
    position + 1 == probe.info.roles.len()
}

/// Whether each peer needs a CPU of its own, by axes that probes share: the peers spin, or should be on two
/// CPUs.
fn needs_cpu_each(point: &Point) -> bool {
    let is = |axis, word| point.axes.find_word(axis) == Some(word);
    is("wait", "spin") || is("cpus", "cross")
}

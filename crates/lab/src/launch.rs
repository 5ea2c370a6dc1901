//! One launch of one block: a new worker for every role, driven point by point. One role and
//! several work the same way.

pub use crate::worker::{Lost, Place};

use crate::host::WorkerCommand;
use crate::worker::Worker;
use costof_model::noise::CoreGauge;
use costof_model::protocol::{self, Answer, Command};
use costof_model::{Failure, FailureKind, Launch, Noise, Offers, Report};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Everything that a launch needs, besides the commands to its workers.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// How workers are started.
    pub command: &'a WorkerCommand,
    /// How long a worker may take for one answer.
    pub limit: Duration,
    /// Set when the controller is interrupted.
    pub interrupted: &'a AtomicBool,
    /// Of a launch by hand: set when the user wants it to end.
    pub enough: Option<&'a AtomicBool>,
}

/// How often a launch by hand looks whether it is to end.
const POLL: Duration = Duration::from_millis(50);

/// The results of a launch.
#[derive(Debug)]
pub struct Outcome {
    /// The reports of each point, in the order of the roles.
    pub reports: Vec<Vec<Report>>,
    /// What disturbed the leading role, and all ends of the link.
    pub noise: Noise,
    /// The points that failed, by position, and why: the leading role's reason, if it has one.
    pub failures: Vec<(usize, Failure)>,
    /// Whether who sits at the other end of a launch by hand has ended it.
    pub is_ended_there: bool,
}

/// Runs one launch. `launches` contains the description for the worker of each role, the leading
/// one last; all have the same points. `places` says where each worker runs.
///
/// # Errors
/// If a worker fails; the others are then killed.
pub fn run(
    places: &[Place<'_>],
    launches: Vec<Launch>,
    setting: &Setting<'_>,
) -> Result<Outcome, Lost> {
    let start = |place: &Place<'_>| {
        Worker::start(place, setting.command, setting.limit, setting.interrupted)
    };
    let workers: Result<Vec<Worker>, Lost> = places.iter().map(start).collect();
    run_by(workers?, launches, setting)
}

/// Runs one launch by these workers, one for each role.
///
/// # Errors
/// If a worker fails; the others are then killed.
pub fn run_by(
    workers: Vec<Worker>,
    launches: Vec<Launch>,
    setting: &Setting<'_>,
) -> Result<Outcome, Lost> {
    let Some(first) = launches.first() else {
        return Err(Failure::error("a launch without roles").into());
    };
    let points = first.points.len();
    let rounds = first.rounds.max(1);
    let began = Instant::now();
    let mut random = fastrand::Rng::with_seed(first.seed);
    let mut driven = Driven { parts: Vec::new(), setting, at: None, failures: Vec::new() };
    for (worker, launch) in workers.into_iter().zip(launches) {
        driven.open(worker, launch)?;
    }
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..points).collect();
        random.shuffle(&mut order);
        for point in order {
            driven.measure(point)?;
        }
    }
    driven.close(points, began)
}

/// A role's launch, and the worker that runs it.
struct Part {
    worker: Worker,
    launch: Launch,
}

struct Driven<'a> {
    parts: Vec<Part>,
    setting: &'a Setting<'a>,
    /// The point being measured; `None` before the first and after the last.
    at: Option<usize>,
    failures: Vec<(usize, Failure)>,
}

impl Driven<'_> {
    fn open(&mut self, worker: Worker, launch: Launch) -> Result<(), Lost> {
        let open = Command::Open(Box::new(launch.clone()));
        self.parts.push(Part { worker, launch });
        let last = self.parts.len() - 1;
        match self.ask(last, &open)? {
            Answer::Opened => Ok(()),
            Answer::Failed(failure) => Err(Lost::Failed(self.at, failure)),
            other => Err(self.protocol_error(last, &other)),
        }
    }

    /// Measures one point once: all roles prepare, all run, the last one leads.
    fn measure(&mut self, point: usize) -> Result<(), Lost> {
        self.at = Some(point);
        if self.has_failed(point) {
            return Ok(());
        }
        let mut offers = Offers::new();
        for part in 0..self.parts.len() {
            let prepare = Command::Prepare { point, offers: offers.clone() };
            match self.ask(part, &prepare)? {
                Answer::Prepared { offers: mut more } => {
                    let Part { worker, launch } = &self.parts[part];
                    let called = worker.called().filter(|called| called.port() != 0);
                    if let Some(called) = called {
                        lead_to(called, &mut more);
                    }
                    let meeting = launch.rendezvous.as_ref();
                    let own =
                        called.map(|called| called.ip()).or(meeting.map(|meeting| meeting.address));
                    if let Some(other) = elsewhere(&more, own) {
                        let failure = self.offered_elsewhere(part, other);
                        self.failures.push((point, failure));
                        return Ok(());
                    }
                    offers.extend(more);
                }
                Answer::Failed(failure) => {
                    self.failures.push((point, failure));
                    return Ok(());
                }
                other => return Err(self.protocol_error(part, &other)),
            }
        }
        for part in 0..self.parts.len() {
            self.parts[part].worker.send(&Command::Run);
        }
        if let Some(enough) = self.setting.enough {
            self.run_by_hand(enough);
        }
        for part in (0..self.parts.len()).rev() {
            let leads = part + 1 == self.parts.len();
            if !leads {
                self.parts[part].worker.send(&Command::Stop);
            }
            match self.answer(part)? {
                Answer::Ran => {}
                Answer::Failed(failure) => self.fail(point, failure),
                other => return Err(self.protocol_error(part, &other)),
            }
        }
        Ok(())
    }

    /// Waits until the leading role has measured. It is stopped when the user at either end has enough, or
    /// another role has ended.
    fn run_by_hand(&mut self, enough: &AtomicBool) {
        let Some((leading, others)) = self.parts.split_last_mut() else {
            return;
        };
        while !leading.worker.is_heard(POLL) {
            let mut others = others.iter_mut();
            if enough.load(Ordering::Relaxed)
                || others.any(|other| other.worker.is_heard(Duration::ZERO))
            {
                return leading.worker.send(&Command::Stop);
            }
        }
    }

    fn offered_elsewhere(&self, part: usize, other: &str) -> Failure {
        let role = &self.parts[part].launch.role;
        Failure::error(format!("the {role} offers the address of another host: {other}"))
    }

    /// The leading role's reason counts. Those of the others mostly say that it is gone, unless their machine
    /// lacks what the point needs: then the leading role's says that they are gone.
    fn fail(&mut self, point: usize, failure: Failure) {
        let mut failures = self.failures.iter_mut();
        match failures.find(|(failed, _)| *failed == point) {
            None => self.failures.push((point, failure)),
            Some((_, first)) if failure.kind == FailureKind::Unsupported => *first = failure,
            Some(_) => {}
        }
    }

    fn has_failed(&self, point: usize) -> bool {
        self.failures.iter().any(|(failed, _)| *failed == point)
    }

    fn close(mut self, points: usize, began: Instant) -> Result<Outcome, Lost> {
        self.at = None;
        let mut reports = vec![Vec::new(); points];
        let mut leading_noise = Noise::default();
        // The leading role first, so that its ledger does not include the end of the others.
        for part in (0..self.parts.len()).rev() {
            match self.ask(part, &Command::Close)? {
                Answer::Closed { points, mut noise, cpu_ns } if points.len() == reports.len() => {
                    for (all, report) in reports.iter_mut().zip(points) {
                        all.insert(0, report);
                    }
                    let role = &self.parts[part].launch.role;
                    let end = noise.ends.remove(role);
                    if part + 1 == self.parts.len() {
                        leading_noise = *noise;
                        leading_noise.ends.clear();
                    } else {
                        let cores = [leading_noise.other_core, noise.other_core];
                        let worst = cores.into_iter().flatten().reduce(CoreGauge::worse);
                        leading_noise.other_core = worst;
                        self.subtract_peer_cpu(&mut leading_noise, part, cpu_ns);
                    }
                    // Of its own role and no other.
                    let ends = &mut leading_noise.ends;
                    ends.extend(end.map(|end| (role.clone(), end)));
                }
                other => return Err(self.protocol_error(part, &other)),
            }
        }
        self.refuse_impossible(&reports, began.elapsed());
        let is_ended_there = self.parts.iter().any(|part| part.worker.has_enough);
        Ok(Outcome { reports, noise: leading_noise, failures: self.failures, is_ended_there })
    }

    /// Fails the points whose roles report what they cannot have measured in a launch that took so long.
    fn refuse_impossible(&mut self, reports: &[Vec<Report>], took: Duration) {
        /// The clocks of two machines differ by less.
        const CLOCKS_DIFFER: f64 = 1.1;
        let launch_ns = took.as_nanos() as f64 * CLOCKS_DIFFER;
        for (point, reports) in reports.iter().enumerate() {
            if let Some(failure) = protocol::impossible(reports, launch_ns)
                && !self.has_failed(point)
            {
                self.failures.push((point, failure));
            }
        }
    }

    /// Subtracts from the leading role's noise what another role on its machine used.
    fn subtract_peer_cpu(&self, noise: &mut Noise, part: usize, cpu_ns: f64) {
        let (Some(own), Some(leading)) = (self.parts.get(part), self.parts.last()) else {
            return;
        };
        let (own, leading) = (&own.launch, &leading.launch);
        let measured: BTreeSet<&usize> = leading.cpus.iter().chain(&leading.partners).collect();
        if own.cpus.iter().all(|cpu| leading.partners.contains(cpu)) {
            let shares = own.cpus.first() == leading.cpus.first();
            noise.subtract_peer_cpu(cpu_ns, measured.len(), shares);
        }
    }

    fn ask(&mut self, part: usize, command: &Command) -> Result<Answer, Lost> {
        self.parts[part].worker.send(command);
        self.answer(part)
    }

    fn answer(&mut self, part: usize) -> Result<Answer, Lost> {
        let setting = self.setting;
        let worker = &mut self.parts[part].worker;
        let answer = worker.answer(setting.limit, setting.interrupted);
        answer.map_err(|lost| lost.at(self.at))
    }

    fn protocol_error(&mut self, part: usize, answer: &Answer) -> Lost {
        let Part { worker, launch } = &mut self.parts[part];
        let what = format!("as {} the unexpected reply `{}`", launch.role, answer.name());
        let what: String = what.chars().take(300).collect();
        worker.protocol_error(&what).at(self.at)
    }
}

/// Replaces the addresses of offers by the one at which the worker was called, but keeps their ports: behind
/// address translation it knows another address of itself, and nothing may go to anybody else.
fn lead_to(called: SocketAddr, offers: &mut Offers) {
    let led = |word: &str| match word.parse::<SocketAddr>() {
        Ok(offered) => {
            // The worker's number of the interface means nothing here.
            let mut at = called;
            at.set_port(offered.port());
            at.to_string()
        }
        Err(_) => word.to_owned(),
    };
    for offer in offers.values_mut() {
        *offer = offer.split(' ').map(led).collect::<Vec<_>>().join(" ");
    }
}

/// The first of these offers that names another address than its role's own. The other roles would contact whomever a
/// hostile worker names.
fn elsewhere(offers: &Offers, own: Option<IpAddr>) -> Option<&str> {
    let address = |word: &str| {
        let with_port = word.parse().map(|at: SocketAddr| at.ip());
        with_port.or_else(|_| word.parse()).ok()
    };
    let is_other = |word| address(word).is_some_and(|at| Some(at) != own);
    let mut offers = offers.values().map(String::as_str);
    offers.find(|offer| offer.split(' ').any(is_other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_called_worker_offers_is_where_it_was_called() {
        for (offered, called, leads_to) in [
            ("10.0.0.1:70 10.0.0.2:71", "192.0.2.1:9", "192.0.2.1:70 192.0.2.1:71"),
            ("[fe80::1%9]:70", "[fe80::1%2]:9", "[fe80::1%2]:70"),
            ("unix:@0012f", "192.0.2.1:9", "unix:@0012f"),
        ] {
            let mut offers = Offers::from([("address".into(), offered.to_owned())]);
            lead_to(called.parse().unwrap(), &mut offers);
            assert_eq!(offers["address"], leads_to);
        }
    }

    #[test]
    fn a_role_offers_its_own_address_and_no_other() {
        let own = "fd00::1".parse().ok();
        for (offer, is_other) in [
            ("[fd00::1]:7", false),
            ("[fd00::1]:7 [fd00::1]:8", false),
            ("[fd00::1]:7 [fd00::2]:8", true),
            ("fd00::1", false),
            ("192.0.2.1", true),
            ("127.0.0.1:22", true),
            ("unix:@00001", false),
            ("/tmp/x", false),
        ] {
            let offers = Offers::from([("address".into(), offer.to_owned())]);
            assert_eq!(elsewhere(&offers, own).is_some(), is_other, "{offer}");
            assert_eq!(
                elsewhere(&offers, None).is_some(),
                offer != "unix:@00001" && offer != "/tmp/x"
            );
        }
    }
}

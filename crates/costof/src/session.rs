//! From a request to a run file for each host.

mod programs;

pub(crate) use programs::{Programs, TOKEN, own_executable};

use crate::cli::RunOptions;
use crate::controller::Controller;
use crate::error::{Error, Result};
use crate::history;
use crate::machine::{self, Machine, Machines, Waiting};
use crate::plan::cost::{self, Cost, precision};
use crate::plan::request::{self, Request, infos};
use crate::plan::{self, Target};
use crate::preflight::{self, Seen};
use crate::progress::{Display, Progress};
use crate::record::{self, Record, Table};
use crate::terminal::{self, log, printable};
use crate::{file_name, files, placement, project, resume};
use costof_lab::addresses::Meet;
use costof_lab::launch::Setting;
use costof_lab::link::Made;
use costof_measure::estimate;
use costof_model::noise::PEER;
use costof_model::rows::{AttemptRow, Guess, PeerRow, Row, SCHEMA};
use costof_model::{Facts, Hosts, Link, Plan, Point, ProbeInfo, RunRow, Text};
use costof_os::sched::affinity;
use costof_report::names;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How long a worker on another host may take to end after its input has closed. It may have held the machine
/// for an earlier run of the same command.
const WORKER_EXIT: Duration = Duration::from_secs(2);

/// Checks that a point fits a machine with these facts, or returns why it should be left out.
pub(crate) type Fits = fn(Table, &Point, &Facts) -> Result<(), String>;

/// Runs the launches of a run.
pub(crate) type Execute<'e> = &'e mut dyn FnMut(&mut Controller<'_>) -> Result<()>;

/// A command with all its hosts.
pub(crate) struct Session<'a> {
    pub(crate) table: Table,
    pub(crate) options: &'a RunOptions,
    pub(crate) requests: Vec<Request>,
    /// Decides which points are left out, and why.
    pub(crate) fits: Fits,
    /// The time that a run takes at most, if its precision does not say so.
    pub(crate) budget: Option<Duration>,
    /// What the person who runs a study predicts. Asked for once there is a plan.
    pub(crate) guesses: &'a (dyn Fn() -> Result<Vec<Guess>> + Sync),
    programs: Programs,
    interrupted: &'a AtomicBool,
    pub(crate) display: Display,
    /// Hosts of one command that are the same machine take turns. There is a lock for each boot, and one for
    /// all runs with a peer.
    turns: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

impl<'a> Session<'a> {
    /// The session for these options; `remote_costof` is the executable that ssh starts.
    pub(crate) fn new(
        table: Table,
        options: &'a RunOptions,
        requests: Vec<Request>,
        remote_costof: Option<&String>,
        interrupted: &'a AtomicBool,
    ) -> Result<Session<'a>> {
        request::log_left_out(&requests);
        project::log_file(table, requests.iter().flat_map(Request::infos));
        terminal::set_working(true);
        Ok(Session {
            table,
            options,
            requests,
            fits: |_, _, _| Ok(()),
            budget: None,
            guesses: &|| Ok(Vec::new()),
            programs: Programs::new(table, remote_costof)?,
            interrupted,
            display: Display::new(),
            turns: Mutex::default(),
        })
    }

    /// How to start workers and wait for them.
    pub(crate) fn setting(&self) -> Setting<'_> {
        Setting {
            command: &self.programs.worker,
            limit: self.options.measuring.limit(),
            interrupted: self.interrupted,
            enough: None,
        }
    }

    /// Measures on one host, or continues a run there. `None` for a dry run.
    pub(crate) fn measure(&self, hosts: Hosts, resumed: Option<Record>) -> Result<Option<Record>> {
        // Processes that start after this run may use the same CPUs as before it.
        let allowed = affinity::allowed();
        let machines = Machines::connect(&hosts, self.setting(), &self.display)?;
        let done =
            self.measure_on(machines, hosts, resumed, &mut |controller| controller.execute());
        if let Ok(allowed) = allowed {
            drop(affinity::pin(&allowed));
        }
        done
    }

    /// Measures the request, or the missing part of `resumed`, on connected machines, by what `execute` does.
    /// `None` for a dry run.
    pub(crate) fn measure_on(
        &self,
        machines: Machines,
        hosts: Hosts,
        resumed: Option<Record>,
        execute: Execute<'_>,
    ) -> Result<Option<Record>> {
        let (table, options) = (self.table, self.options);
        let turn = self.turn(&machines);
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // Dropped before the turn ends.
        let mut machines = machines;
        let is_one_of_many = options.on.len() > 1;
        let hold = |machines: &mut Machines| -> Result<()> {
            let in_silence = if is_one_of_many { WORKER_EXIT } else { Duration::ZERO };
            self.hold(&mut machines.measured, machines.peer.as_mut(), in_silence)?;
            self.preflight(machines.iter_mut())
        };
        let link = machines.link(&hosts)?;
        let name = is_one_of_many.then(|| machines.measured.host.to_string());
        let mut record = match resumed {
            Some(mut record) => {
                resume::check(table, &record.run, &machines, options.force)?;
                if record.run.end.is_some() {
                    return Ok(Some(record));
                }
                hold(&mut machines)?;
                record.describe(table)?;
                record
            }
            None => {
                let cpus = options.measuring.cpu.as_deref();
                let plan = self.plan(&machines, hosts, link.map(|(link, _)| link), cpus)?;
                if options.dry_run {
                    dry_run(name.as_deref(), table, &plan)?;
                    return Ok(None);
                }
                let guesses = (self.guesses)()?;
                hold(&mut machines)?;
                let first = RunRow { guesses, ..first_row(plan, options.measuring.seed) };
                let path = match &options.out {
                    Some(folder) if is_one_of_many => {
                        folder.join(file_name::of_host(&machines.measured.host, &options.on))
                    }
                    Some(folder) if file_name::is_folder(folder) => {
                        folder.join(file_name::of_machine(&machines.measured))
                    }
                    Some(path) if !files::is_standard_output(path) => path.clone(),
                    _ => history::new_file(&first.id)?,
                };
                Record::create(&path, first, table)?
            }
        };
        record.sync_launches = options.sync;
        begin(&mut record, &machines, link)?;
        let plan = &record.run.run.plan;
        let mut cost = Cost::new(table, plan, precision(plan)?);
        if let Some(budget) = self.budget {
            cost = cost.or_less(budget);
        }
        let launches = plan.blocks.len() as u64 * u64::from(cost.launches);
        let progress = self.display.run(launches, cost.time, name.as_deref());
        let path = record.path().display();
        progress.say(&format!("{}, to {path}", cost.announced()));
        let mut controller = self.controller(&mut machines, &progress, &mut record)?;
        controller.links.extend(link.map(|(link, meet)| {
            let made = Made::between(meet.near, meet.far);
            (Text::from(link.to_string()), Ok(made))
        }));
        execute(&mut controller)?;
        drop(controller);
        if self.interrupted.load(Ordering::Relaxed) {
            record.close()?;
            estimate::add_so_far(&mut record.run);
        } else {
            record.end()?;
        }
        Ok(Some(record))
    }

    /// Takes the machines of a run. A wait is reported after this time.
    pub(crate) fn hold(
        &self,
        one: &mut Machine,
        other: Option<&mut Machine>,
        in_silence: Duration,
    ) -> Result<()> {
        let waiting =
            Waiting { in_silence, then_until_it_is_free: !self.options.measuring.no_wait };
        machine::hold(one, other, waiting, self.setting(), &self.display)
    }

    /// Checks machines that are held, and reports what will spoil a measurement there.
    pub(crate) fn preflight<'m>(
        &self,
        machines: impl Iterator<Item = &'m mut Machine>,
    ) -> Result<()> {
        let mut different: Vec<&mut Machine> = Vec::new();
        for machine in machines {
            if !different.iter().any(|other| machine::one_machine(other, machine)) {
                different.push(machine);
            }
        }
        let look = || {
            let machines = different.iter_mut();
            let seen = machines.map(|machine| {
                Ok(Seen {
                    contention: machine.watch(self.setting())?,
                    host: machine.host.to_string(),
                })
            });
            seen.collect()
        };
        let say = |text: &str| self.display.say(text);
        preflight::check(&self.options.measuring.quiet, look, say)
    }

    /// The controller for the run of a record on these machines.
    pub(crate) fn controller<'s>(
        &'s self,
        machines: &'s mut Machines,
        progress: &'s Progress<'s>,
        record: &'s mut Record,
    ) -> Result<Controller<'s>> {
        let mut controller = Controller::new(
            self.table,
            self.setting(),
            &self.programs.holder,
            machines,
            progress,
            record,
        )?;
        controller.is_first_look = self.requests.iter().all(|request| request.is_first_look);
        Ok(controller)
    }

    /// The lock for everything that must not be measured at the same time.
    fn turn(&self, machines: &Machines) -> Arc<Mutex<()>> {
        let name = match &machines.peer {
            Some(_) => "peer",
            None => machines.measured.boot().unwrap_or_default(),
        };
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }

    /// The plan for these machines; `cpus` has the form of `--cpu`.
    pub(crate) fn plan(
        &self,
        machines: &Machines,
        hosts: Hosts,
        peer_link: Option<Link>,
        cpus: Option<&str>,
    ) -> Result<Plan> {
        let placement = placement::decide(machines, cpus, self.options.peer.cpu.as_deref())?;
        let facts = &machines.measured.description.facts;
        let facts = placement::facts_of_the_run(&placement, facts);
        let is_here = hosts.on.is_none() && hosts.peer.is_none();
        let earlier = |needed: &[Point]| {
            let boot = machines.measured.boot().filter(|_| is_here);
            boot.map_or_else(Vec::new, |boot| history::of_boot(self.table, boot, needed))
        };
        let target = Target { facts: &facts, placement, hosts, peer_link, earlier: &earlier };
        let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
        let mut keep = |point: &Point| {
            let fits = (self.fits)(self.table, point, &facts);
            if let Err(reason) = &fits {
                *left_out.entry(reason.clone()).or_default() += 1;
            }
            fits.is_ok()
        };
        let mut plan = plan::plan(self.table, self.options, &self.requests, target, &mut keep)?;
        if !plan.earlier.is_empty() {
            let points = names::points_counted(plan.earlier.len());
            self.display.say(&format!(
                "{points} that predictions build on: taken from earlier runs, not measured again"
            ));
        }
        let planned: BTreeSet<&str> = plan.points().map(|point| &*point.probe).collect();
        let probes = infos(self.table).into_iter();
        let planned = probes.filter(|info| planned.contains(&*info.id));
        let (own, probes): (Vec<&ProbeInfo>, Vec<&ProbeInfo>) =
            planned.partition(|info| project::is_own(self.table, info));
        let missing = machines.iter().flat_map(|machine| {
            [machine.misses(&probes), project::missing(machine, &own)].into_iter().flatten()
        });
        for missing in missing {
            self.display.say(&missing);
        }
        for (reason, points) in left_out {
            let points = names::points_counted(points);
            self.display.say(&format!("{points} left out here: {reason}"));
        }
        self.fit(&mut plan)?;
        Ok(plan)
    }

    /// Leaves out of a plan that has to fit its budget what takes too long, and reports that.
    fn fit(&self, plan: &mut Plan) -> Result<()> {
        if !self.requests.iter().all(|request| request.fits_budget) {
            return Ok(());
        }
        let precision = precision(plan)?;
        let cut = cost::fit(self.table, plan, precision);
        if cut > 0 {
            let why = match plan.budget_ns {
                Some(_) => "they take too long for --budget",
                None => {
                    "they take too long for a first look (without --quick they are measured, and \
                     --budget sets the time)"
                }
            };
            let points = names::points_counted(cut);
            self.display.say(&format!("{points} left out: {why}"));
        }
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.options.remote.clean {
            for (host, why) in self.programs.worker.remove_copies() {
                log(format!("{host}: cannot remove the copy of costof: {why}"));
            }
        }
        self.display.clear();
        terminal::set_working(false);
    }
}

fn dry_run(name: Option<&str>, table: Table, plan: &Plan) -> Result<()> {
    // If there are several hosts, each prints all of its output at once.
    let mut output = io::stdout().lock();
    if let Some(name) = name {
        writeln!(output, "{}:", printable(name))?;
    }
    let infos: Vec<_> = infos(table).into_iter().cloned().collect();
    for block in &plan.blocks {
        for (position, point) in block.points.iter().enumerate() {
            let label = block.label(position);
            let label = label.map_or_else(String::new, |label| format!("  ({label})"));
            let point = names::point(point, names::info(point, &infos));
            writeln!(output, "{point}{label}")?;
        }
    }
    let cost = Cost::new(table, plan, precision(plan)?);
    writeln!(output, "\n{}", cost.sentence())?;
    Ok(())
}

/// The first row of a new run of this plan.
pub(crate) fn first_row(plan: Plan, seed: Option<u64>) -> RunRow {
    let started = record::date(SystemTime::now());
    RunRow {
        schema: SCHEMA,
        id: record::new_id(&started),
        started,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed: seed.unwrap_or_else(|| fastrand::u64(..)),
        beside: None,
        guesses: Vec::new(),
        plan,
    }
}

/// Begins or continues a run: lists its file, records the present machines, and moves this process off the
/// measured CPUs.
pub(crate) fn begin(
    record: &mut Record,
    machines: &Machines,
    link: Option<(Link, Meet)>,
) -> Result<()> {
    history::remember(&record.run.run.id, record.path());
    placement::leave_the_measured(&record.run.run.plan.placement);
    record.write(attempt(machines, link))
}

fn attempt(machines: &Machines, link: Option<(Link, Meet)>) -> Row {
    let mut row = AttemptRow::new(&machines.measured.description);
    row.peer = machines.peer.as_ref().map(|Machine { description: peer, .. }| {
        row.hosts.insert(PEER.into(), (*peer.facts).clone());
        PeerRow {
            costof: peer.costof.clone(),
            build: peer.build.clone(),
            clock: peer.clock.clone(),
            counters: peer.counters.clone(),
            addresses: link.map(|(_, meet)| (meet.near, meet.far)),
        }
    });
    Row::Attempt(Box::new(row))
}

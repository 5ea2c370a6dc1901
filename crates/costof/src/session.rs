//! What is asked, carried out into a run file on each host that is named.

use crate::cli::RunOptions;
use crate::controller::Controller;
use crate::error::{Error, wrong};
use crate::machine::{Asking, Machine, Waiting};
use crate::placement;
use crate::planning::{self, Asked};
use crate::progress::{Display, Progress};
use crate::record::{self, Record};
use costof_lab::addresses::{self, Meet};
use costof_lab::host::{Host, WorkerCommand};
use costof_lab::link::Made;
use costof_measure::estimate;
use costof_measure::probe::Probe;
use costof_measure::schedule::{LEAST_LAUNCHES, MOST_LAUNCHES, Precision};
use costof_model::Text;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::noise::{MEASURED, PEER};
use costof_model::point::Point;
use costof_model::rows::{AttemptRow, EndRow, Hosts, PeerRow, Plan, Row, RunRow, SCHEMA};
use costof_model::run_file::Run;
use costof_os::affinity;
use costof_report::names;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Where the options say that it is measured. Of several hosts the first.
pub(crate) fn hosts_of(options: &RunOptions) -> Hosts {
    let on = options.on.first().filter(|host| **host != Host::Local);
    Hosts {
        on: on.map(ToString::to_string),
        peer: options.peer.as_ref().map(ToString::to_string),
        peer_address: options.peer_address,
        peer_ports: options.peer_port,
        remote_costof: options.remote_costof.clone(),
    }
}

/// How long a worker elsewhere, which held the machine for an earlier run of the
/// same command, may take to end after its input has closed.
const ENDING: Duration = Duration::from_secs(2);

/// What is measured of a run, and where it is kept.
pub(crate) type Done = Option<(Record, Run)>;

/// Whether a point can be measured on a machine with these facts, or why it is better left out.
pub(crate) type Fits = fn(&[&'static Probe], &Point, &Facts) -> Result<(), String>;

/// One command, whatever hosts it names.
pub(crate) struct Session<'a> {
    pub(crate) table: &'static [&'static Probe],
    pub(crate) options: &'a RunOptions,
    pub(crate) asked: Vec<Asked<'a>>,
    /// Which points of these are left out, with the reason.
    pub(crate) fits: Fits,
    worker: WorkerCommand,
    holder: WorkerCommand,
    interrupted: &'a AtomicBool,
    display: Display,
    turns: Turns,
}

/// Hosts of one command that are one machine take turns.
#[derive(Default)]
struct Turns(Mutex<BTreeMap<String, Arc<Mutex<()>>>>);

impl Turns {
    /// The turn on a machine, by its boot.
    fn of(&self, boot: &str) -> Arc<Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(boot.to_owned()).or_default())
    }
}

/// The machines of one run.
pub(crate) struct Ends {
    pub(crate) near: Machine,
    pub(crate) far: Option<Machine>,
}

impl Ends {
    pub(crate) fn meet(hosts: &Hosts, asking: Asking<'_>) -> Result<Ends, Error> {
        let host = |text: &String| text.parse::<Host>().map_err(wrong);
        let near = hosts.on.as_ref().map(host).transpose()?;
        let far = hosts.peer.as_ref().map(host).transpose()?;
        Ok(Ends {
            near: Machine::meet(&near.unwrap_or(Host::Local), asking)?,
            far: far.map(|far| Machine::meet(&far, asking)).transpose()?,
        })
    }

    /// The link to the peer, and where its ends are, where there is one.
    fn link(&self, hosts: &Hosts) -> Result<Option<(Link, Meet)>, Error> {
        let Some(far) = &self.far else {
            return Ok(None);
        };
        let meet = addresses::between(self.near.side(), far.side(), hosts.peer_address)
            .map_err(Error::Nothing)?;
        let link = match meet.one_namespace {
            true => Link::Loopback,
            false => Link::Remote,
        };
        Ok(Some((link, meet)))
    }

    /// Takes the machines of both ends.
    fn hold(
        &mut self,
        waiting: Waiting,
        asking: Asking<'_>,
        display: &Display,
    ) -> Result<(), Error> {
        hold(&mut self.near, self.far.as_mut(), waiting, asking, display)
    }
}

/// Takes two machines, once where they are one, in an order that is the same for every costof, so that
/// no two wait for each other.
pub(crate) fn hold(
    one: &mut Machine,
    other: Option<&mut Machine>,
    waiting: Waiting,
    asking: Asking<'_>,
    display: &Display,
) -> Result<(), Error> {
    let other = other.filter(|other| !placement::one_machine(one, other));
    let mut machines: Vec<&mut Machine> = std::iter::once(one).chain(other).collect();
    machines.sort_by_key(|machine| machine.boot().map(str::to_owned));
    for machine in machines {
        machine.hold(waiting, asking, |text| display.say(text))?;
    }
    Ok(())
}

/// How this costof starts a worker, by ssh as `remote_costof`, and what holds a link.
pub(crate) fn own_commands(
    remote_costof: Option<&String>,
) -> Result<(WorkerCommand, WorkerCommand), Error> {
    let own = |arguments: &[&str]| {
        WorkerCommand::own_executable(arguments)
            .map_err(|error| wrong(format!("cannot open costof's own executable: {error}")))
    };
    let worker = own(&["worker", "--end-with-parent"])?;
    let worker = match remote_costof {
        Some(costof) => worker.with_remote(costof),
        None => worker,
    };
    Ok((worker, own(&["hold"])?))
}

impl<'a> Session<'a> {
    /// What is asked with these options; `remote_costof` is the one that ssh starts.
    pub(crate) fn new(
        table: &'static [&'static Probe],
        options: &'a RunOptions,
        asked: Vec<Asked<'a>>,
        remote_costof: Option<&String>,
        interrupted: &'a AtomicBool,
    ) -> Result<Session<'a>, Error> {
        let (worker, holder) = own_commands(remote_costof)?;
        Ok(Session {
            table,
            options,
            asked,
            fits: |_, _, _| Ok(()),
            worker,
            holder,
            interrupted,
            display: Display::new(),
            turns: Turns::default(),
        })
    }

    /// How workers are asked.
    pub(crate) fn asking(&self) -> Asking<'_> {
        Asking {
            command: &self.worker,
            limit: Duration::from_secs(self.options.timeout),
            interrupted: self.interrupted,
        }
    }

    /// Measures on one host, or goes on with what was begun there.
    pub(crate) fn on_one(&self, hosts: Hosts, resumed: Done) -> Result<Done, Error> {
        // Whatever is started after this run may run where it could before.
        let allowed = affinity::allowed();
        let done = self.with(Ends::meet(&hosts, self.asking())?, hosts, resumed);
        if let Ok(allowed) = allowed {
            drop(affinity::pin(&allowed));
        }
        done
    }

    /// What is to be measured on these machines.
    fn plan(&self, ends: &Ends, hosts: Hosts, to_peer: Option<Link>) -> Result<Plan, Error> {
        let placement = placement::decide(
            self.options.cpu.as_deref(),
            &ends.near,
            self.options.peer_cpu.as_deref(),
            ends.far.as_ref(),
        )?;
        let facts = placement::facts_of_the_run(&placement, &ends.near.description.facts);
        let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
        let mut keep = |point: &Point| match (self.fits)(self.table, point, &facts) {
            Ok(()) => true,
            Err(reason) => {
                *left_out.entry(reason).or_default() += 1;
                false
            }
        };
        let to_peer = (to_peer, hosts);
        let plan = planning::plan(
            self.table,
            &self.asked,
            &facts,
            placement,
            to_peer,
            &mut keep,
        )?;
        for (reason, points) in left_out {
            let points = names::points_counted(points);
            self.display
                .say(&format!("{points} left out here: {reason}"));
        }
        Ok(plan)
    }

    /// Measures what is asked, or what is missing of `resumed`, on machines
    /// that are there. Nothing is done of a dry run.
    pub(crate) fn with(&self, ends: Ends, hosts: Hosts, resumed: Done) -> Result<Done, Error> {
        let (table, options) = (self.table, self.options);
        let boot = ends.near.boot().unwrap_or_default().to_owned();
        // All runs of a command with a peer have that in common.
        let turn = match &ends.far {
            Some(_) => self.turns.of("peer"),
            None => self.turns.of(&boot),
        };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // Let go of before the turn ends.
        let mut ends = ends;
        let waiting = Waiting {
            in_silence: match options.on.len() {
                0 | 1 => Duration::ZERO,
                _ => ENDING,
            },
            then_until_it_is_free: !options.no_wait,
        };
        let link = ends.link(&hosts)?;
        let name = (options.on.len() > 1).then(|| ends.near.host.to_string());
        let (mut record, mut run) = match resumed {
            Some((record, run)) => {
                check_resumable(table, &run, &ends, options.force)?;
                if run.end.is_none() {
                    ends.hold(waiting, self.asking(), &self.display)?;
                }
                (record, run)
            }
            None => {
                let plan = self.plan(&ends, hosts, link.map(|(link, _)| link))?;
                if options.dry_run {
                    dry_run(name.as_deref(), table, &plan)?;
                    return Ok(None);
                }
                ends.hold(waiting, self.asking(), &self.display)?;
                let own_name = name
                    .is_some()
                    .then(|| file_name(&ends.near.host, &options.on));
                begin(table, options, plan, own_name)?
            }
        };
        let precision = precision(&run.run.plan)?;
        placement::leave_the_measured(&run.run.plan.placement);
        if run.end.is_none() {
            record.write(&mut run, attempt(&ends, link))?;
            let takes = planning::takes(table, &run.run.plan, precision);
            let launches = run.run.plan.blocks.len() as u64 * u64::from(takes.launches);
            let progress = self.display.run(launches, name.as_deref());
            progress.say(&format!(
                "{}, to {}",
                takes.announced(),
                record.path().display()
            ));
            let with = Carrying {
                table,
                asking: self.asking(),
                holder: &self.holder,
                precision,
            };
            let mut controller = with.controller(&ends, &progress, (&mut record, &mut run));
            controller.links.extend(link.map(|(link, meet)| {
                let made = Made::between(meet.near, meet.far);
                (Text::from(link.to_string()), Ok(made))
            }));
            controller.carry_out()?;
            drop(controller);
            if self.interrupted.load(Ordering::Relaxed) {
                estimate::add_so_far(&mut run);
            } else {
                let end = end(&run);
                record.write(&mut run, end)?;
            }
        }
        Ok(Some((record, run)))
    }
}

/// With what plans are carried out.
pub(crate) struct Carrying<'a> {
    pub(crate) table: &'a [&'static Probe],
    pub(crate) asking: Asking<'a>,
    pub(crate) holder: &'a WorkerCommand,
    pub(crate) precision: Precision,
}

impl<'a> Carrying<'a> {
    /// What carries out the plan of a run on machines that are there.
    pub(crate) fn controller(
        &self,
        ends: &'a Ends,
        progress: &'a Progress<'a>,
        (record, run): (&'a mut Record, &'a mut Run),
    ) -> Controller<'a> {
        let facts = &ends.near.description.facts;
        Controller {
            table: self.table,
            asking: self.asking,
            holder: self.holder,
            links: BTreeMap::new(),
            facts: placement::facts_of_the_run(&run.run.plan.placement, facts),
            near: &ends.near,
            far: ends.far.as_ref(),
            precision: self.precision,
            progress,
            record,
            run,
        }
    }
}

fn dry_run(name: Option<&str>, table: &[&'static Probe], plan: &Plan) -> Result<(), Error> {
    // Of several hosts, each says all of its own at once.
    let mut output = io::stdout().lock();
    if let Some(name) = name {
        writeln!(output, "{name}:")?;
    }
    for block in &plan.blocks {
        for (position, point) in block.points.iter().enumerate() {
            let label = block.label(position);
            let label = label.map_or_else(String::new, |label| format!("  ({label})"));
            writeln!(
                output,
                "{}{label}",
                names::point(point, names::info(point, &infos(table)))
            )?;
        }
    }
    let takes = planning::takes(table, plan, precision(plan)?);
    writeln!(output, "\n{}", takes.sentence())?;
    Ok(())
}

fn precision(plan: &Plan) -> Result<Precision, Error> {
    let named = &plan.precision;
    Precision::named(named)
        .ok_or_else(|| wrong(format!("this costof knows no precision `{named}`")))
}

fn infos(table: &[&'static Probe]) -> Vec<costof_model::probe_info::ProbeInfo> {
    table.iter().map(|probe| (*probe.info).clone()).collect()
}

/// A new run; `name` is that of its file in the folder of `--out`, where there are several.
fn begin(
    table: &[&'static Probe],
    options: &RunOptions,
    plan: Plan,
    name: Option<String>,
) -> Result<(Record, Run), Error> {
    let now = SystemTime::now();
    let id = id(now);
    let path = match (&options.out, name) {
        (Some(folder), Some(name)) => folder.join(name),
        (Some(path), None) => path.clone(),
        (None, _) => history_path(&id)?,
    };
    let first = RunRow {
        schema: SCHEMA,
        id,
        started: humantime::format_rfc3339_seconds(now).to_string(),
        command: std::env::args().collect(),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        beside: None,
        plan,
    };
    new_file(table, &path, first)
}

/// A new run file, with what was asked and the probes that it asks.
pub(crate) fn new_file(
    table: &[&'static Probe],
    path: &Path,
    first: RunRow,
) -> Result<(Record, Run), Error> {
    let mut record = Record::create(path)?;
    record.append(&Row::Run(Box::new(first.clone())))?;
    let asks = |probe: &Probe| {
        let mut points = first.plan.points();
        points.any(|point| point.probe == probe.info.id)
    };
    let used: Vec<&Probe> = table.iter().copied().filter(|probe| asks(probe)).collect();
    let mut run = Run::new(first);
    for probe in used {
        record.write(&mut run, Row::Probe(Box::new((*probe.info).clone())))?;
    }
    Ok((record, run))
}

/// When it began, to the second, and something drawn: sorts by time and is
/// not used twice.
pub(crate) fn id(now: SystemTime) -> String {
    let time: String = humantime::format_rfc3339_seconds(now)
        .to_string()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    format!("{time}-{:08x}", fastrand::u32(..))
}

pub(crate) fn history_path(id: &str) -> Result<PathBuf, Error> {
    Ok(record::history()?.join(format!("{id}.jsonl")))
}

/// Whether an interrupted run may go on here: with the same methods of its
/// probes, on processors that are to be had, and, unless it is forced, with the
/// same costof on the same machine and kernel.
fn check_resumable(
    table: &[&'static Probe],
    run: &Run,
    ends: &Ends,
    force: bool,
) -> Result<(), Error> {
    let machine = &ends.near.description;
    let points = run.run.plan.points();
    for point in points {
        let Some(probe) = costof_measure::probe::find(table, &point.probe) else {
            return Err(wrong(format!(
                "this costof has no probe {}: resume with the one that began the run",
                point.probe
            )));
        };
        if !probe.info.allows(&point.axes) {
            return Err(wrong(format!(
                "this costof has no point {point}: resume with the one that began the run"
            )));
        }
    }
    for (probe, method) in &machine.probes {
        let begun = run.probe(probe).map(|info| info.method);
        if let Some(begun) = begun.filter(|begun| begun != method) {
            return Err(wrong(format!(
                "the run was begun with method {begun} of {probe}, and this costof has method \
                 {method}, whose numbers are not comparable: start a new run"
            )));
        }
    }
    let asked = run.run.plan.launches;
    if let Some(asked) = asked.filter(|asked| !(LEAST_LAUNCHES..=MOST_LAUNCHES).contains(asked)) {
        return Err(wrong(format!(
            "the run asks for {asked} launches of each point, and may for {LEAST_LAUNCHES} to \
             {MOST_LAUNCHES}: start a new run"
        )));
    }
    if run.end.is_none() {
        placement::check(&run.run.plan.placement, &ends.near, ends.far.as_ref())?;
    }
    let Some(last) = run.attempts.last() else {
        return Ok(());
    };
    let far = ends.far.as_ref().map(|far| &far.description);
    let both = [(MEASURED, Some(machine)), (PEER, far)];
    let differs = |of: fn(&Facts) -> &Option<String>| {
        both.iter().any(|(role, now)| {
            let begun = last.hosts.get(*role).and_then(|facts| of(facts).as_ref());
            // What is not known is no difference.
            match (begun, now.and_then(|now| of(&now.facts).as_ref())) {
                (Some(begun), Some(now)) => begun != now,
                _ => false,
            }
        })
    };
    let other_build_there = match (&last.peer, far) {
        (Some(begun), Some(far)) => begun.build != far.build,
        _ => false,
    };
    let differences = [
        ("costof", last.build != machine.build || other_build_there),
        ("host", differs(|facts| &facts.host_name)),
        ("processor", differs(|facts| &facts.cpu.model_name)),
        ("kernel", differs(|facts| &facts.kernel.release)),
    ];
    let other: Vec<&str> = differences
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(what, _)| *what)
        .collect();
    if other.is_empty() || force {
        return Ok(());
    }
    Err(wrong(format!(
        "the run was begun with another {}: its launches would not be alike (--force resumes all \
         the same, or start a new run)",
        other.join(" and another ")
    )))
}

pub(crate) fn attempt(ends: &Ends, link: Option<(Link, Meet)>) -> Row {
    let machine = &ends.near.description;
    let mut hosts = BTreeMap::from([(Text::Borrowed(MEASURED), (*machine.facts).clone())]);
    let far = ends.far.as_ref().map(|far| &far.description);
    if let Some(far) = far {
        hosts.insert(Text::Borrowed(PEER), (*far.facts).clone());
    }
    Row::Attempt(Box::new(AttemptRow {
        costof: machine.costof.clone(),
        build: machine.build.clone(),
        boot: machine.facts.kernel.boot_id.clone(),
        hosts,
        clock: machine.clock.clone(),
        counters: machine.counters.clone(),
        peer: far.map(|far| PeerRow {
            costof: far.costof.clone(),
            build: far.build.clone(),
            clock: far.clock.clone(),
            counters: far.counters.clone(),
            addresses: link.map(|(_, meet)| (meet.near, meet.far)),
        }),
    }))
}

pub(crate) fn end(run: &Run) -> Row {
    Row::End(EndRow {
        finished: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        points: run.points.len() as u64,
        failures: run.failures.len() as u64,
    })
}

/// The file name of one of all hosts of a command: what is no letter, digit, dot
/// or underscore is a dash, and where that makes two alike, or both are cut, each
/// has its position too.
fn file_name(host: &Host, all: &[Host]) -> String {
    let name = |host: &Host| -> String {
        let text = host.to_string();
        let kept = text.chars().map(|c| match c {
            c if c.is_ascii_alphanumeric() => c,
            '.' | '_' => c,
            _ => '-',
        });
        kept.take(100).collect()
    };
    let own = name(host);
    let position = all.iter().position(|other| other == host);
    let alike = all.iter().filter(|other| name(other) == own).count();
    match position {
        // No host's name alone ends so: it has no `+`.
        Some(position) if alike > 1 => format!("{own}+{}.jsonl", position + 1),
        _ => format!("{own}.jsonl"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_file_name_of_its_own() {
        let long = "x".repeat(200);
        let hosts: Vec<Host> = [
            "local",
            "ssh:a.b",
            "exec:a b",
            "exec:a-b",
            &format!("exec:{long}1"),
            &format!("exec:{long}2"),
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let names = hosts.iter().map(|host| file_name(host, &hosts));
        let names: Vec<String> = names.collect();
        assert_eq!(
            names[..4],
            [
                "local.jsonl",
                "ssh-a.b.jsonl",
                "exec-a-b+3.jsonl",
                "exec-a-b+4.jsonl"
            ]
        );
        assert_ne!(names[4], names[5]);
        assert!(names[4].len() < 120, "{}", names[4]);
    }
}

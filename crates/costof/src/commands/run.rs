//! `costof run`: measure.

use crate::cli::RunOptions;
use crate::controller::Controller;
use crate::error::{Error, wrong};
use crate::interrupts;
use crate::machine::{Asking, Machine, Waiting};
use crate::planning::{self, Asked};
use crate::progress::Display;
use crate::record::{self, Record};
use crate::tell::tell;
use crate::{machine, placement};
use costof_lab::addresses::{self, Meet};
use costof_lab::host::{Host, WorkerCommand};
use costof_lab::link::Made;
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::Text;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::noise::{MEASURED, PEER};
use costof_model::rows::{AttemptRow, EndRow, Hosts, PeerRow, Plan, Row, RunRow, SCHEMA};
use costof_model::run_file::{self, Run};
use costof_report::{names, run as report};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

pub(crate) fn run(
    table: &'static [&'static Probe],
    options: &RunOptions,
) -> Result<ExitCode, Error> {
    // What is asked is checked before anything starts.
    let asked = planning::asked(table, options)?;
    let several = options.on.len() > 1;
    if several {
        several_can(options)?;
    }
    let interrupted = interrupts::watch()?;
    let own = |arguments: &[&str]| {
        WorkerCommand::own_executable(arguments)
            .map_err(|error| wrong(format!("cannot open costof's own executable: {error}")))
    };
    let (worker, holder) = (own(&["worker", "--end-with-parent"])?, own(&["hold"])?);
    // A file to resume is checked before the machine is described.
    let resumed = options.resume.as_deref().map(Record::reopen).transpose()?;
    let here = match &resumed {
        Some((_, run)) => {
            runs_nothing_unseen(&run.run.plan.hosts, options.force)?;
            run.run.plan.hosts.clone()
        }
        None => hosts_of(options),
    };
    let worker = match &here.remote_costof {
        Some(costof) => worker.with_remote(costof),
        None => worker,
    };
    let session = Session {
        table,
        options,
        asked,
        holder,
        asking: Asking {
            command: &worker,
            limit: Duration::from_secs(options.timeout),
            interrupted: &interrupted,
        },
        display: Display::new(),
        turns: Turns::default(),
    };
    if several {
        return session.on_several(&here);
    }
    let done = session.on_one(here, resumed)?;
    drop(session.display);
    let Some((record, run)) = done else {
        return Ok(ExitCode::SUCCESS);
    };
    show(&run, &record, options.json)
}

/// A run file may come from anybody: the commands in it are not run unseen.
fn runs_nothing_unseen(hosts: &Hosts, force: bool) -> Result<(), Error> {
    let execs = [&hosts.on, &hosts.peer].into_iter().flatten();
    let command = execs
        .filter(|host| host.starts_with("exec:"))
        .chain(&hosts.remote_costof)
        .next();
    match command {
        Some(command) if !force => Err(wrong(format!(
            "going on with this run executes a command that its file names: {} (--force, if you \
             trust it)",
            command.escape_debug()
        ))),
        _ => Ok(()),
    }
}

/// Where the options say that it is measured. Of several hosts the first.
fn hosts_of(options: &RunOptions) -> Hosts {
    let on = options.on.first().filter(|host| **host != Host::Local);
    Hosts {
        on: on.map(ToString::to_string),
        peer: options.peer.as_ref().map(ToString::to_string),
        peer_address: options.peer_address,
        peer_ports: options.peer_port,
        remote_costof: options.remote_costof.clone(),
    }
}

/// Whether what is asked can be asked of several hosts.
fn several_can(options: &RunOptions) -> Result<(), Error> {
    for (position, host) in options.on.iter().enumerate() {
        if options.on[..position].contains(host) {
            return Err(wrong(format!("--on {host} is given twice")));
        }
    }
    if options.json {
        return Err(wrong(
            "--json is for one host: with several, each has a run file of its own (--out DIR, then \
             `costof export FILE`)",
        ));
    }
    match &options.out {
        Some(folder) if folder.exists() && !folder.is_dir() => Err(wrong(format!(
            "{} is a file: with several hosts, --out names a folder for one file each",
            folder.display()
        ))),
        _ => Ok(()),
    }
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

/// How long a worker elsewhere, which held the machine for an earlier run of the
/// same command, may take to end after its input has closed.
const ENDING: Duration = Duration::from_secs(2);

/// What is measured of a run, and where it is kept.
type Done = Option<(Record, Run)>;

/// One command, whatever hosts it names.
struct Session<'a> {
    table: &'static [&'static Probe],
    options: &'a RunOptions,
    asked: Asked<'a>,
    holder: WorkerCommand,
    asking: Asking<'a>,
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
struct Ends {
    near: Machine,
    far: Option<Machine>,
}

impl Ends {
    fn meet(hosts: &Hosts, asking: Asking<'_>) -> Result<Ends, Error> {
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

    /// Takes the machines, in an order that is the same for every costof, so
    /// that no two wait for each other.
    fn hold(
        &mut self,
        waiting: Waiting,
        asking: Asking<'_>,
        display: &Display,
    ) -> Result<(), Error> {
        let mut machines = vec![&mut self.near];
        if let Some(far) = &mut self.far
            && !placement::one_machine(machines[0], far)
        {
            machines.push(far);
        }
        machines.sort_by_key(|machine| machine.boot().map(str::to_owned));
        for machine in machines {
            machine.hold(waiting, asking, |text| display.say(text))?;
        }
        Ok(())
    }
}

impl Session<'_> {
    /// The same on each host: those that are one machine one after the other,
    /// the others at the same time.
    fn on_several(self, here: &Hosts) -> Result<ExitCode, Error> {
        let hosts = &self.options.on;
        let has_met = Barrier::new(hosts.len());
        let (session, has_met) = (&self, &has_met);
        let all: Vec<Result<Done, Error>> = std::thread::scope(|scope| {
            let running: Vec<_> = hosts
                .iter()
                .map(|host| {
                    let hosts = Hosts {
                        on: Some(host.to_string()),
                        ..here.clone()
                    };
                    scope.spawn(move || {
                        let ends = Ends::meet(&hosts, session.asking);
                        // Nothing is measured while others still look at their machine.
                        has_met.wait();
                        session.with(ends?, hosts, None)
                    })
                })
                .collect();
            let ended = running.into_iter().map(|run| run.join());
            ended
                .map(|run| run.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        drop(self.display);
        let mut worst = 0;
        for (host, done) in hosts.iter().zip(all) {
            let shown = match done {
                Ok(None) => Ok(ExitCode::SUCCESS),
                Ok(Some((record, run))) => {
                    writeln!(io::stdout(), "{host}:")?;
                    show(&run, &record, false)
                }
                Err(error) => Err(error),
            };
            let code = match &shown {
                Ok(code) if *code == ExitCode::SUCCESS => 0,
                Ok(_) => Error::Interrupted.exit_code(),
                Err(error) => {
                    tell(format!("{host}: {error}"));
                    error.exit_code()
                }
            };
            worst = worst.max(code);
        }
        Ok(ExitCode::from(worst))
    }

    fn on_one(&self, hosts: Hosts, resumed: Done) -> Result<Done, Error> {
        self.with(Ends::meet(&hosts, self.asking)?, hosts, resumed)
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
        planning::plan(self.table, &self.asked, &facts, placement, to_peer, hosts)
    }

    /// Measures what is asked, or what is missing of `resumed`, on machines
    /// that are there. Nothing is done of a dry run.
    fn with(&self, ends: Ends, hosts: Hosts, resumed: Done) -> Result<Done, Error> {
        let (table, options) = (self.table, self.options);
        let boot = ends.near.boot().unwrap_or_default().to_owned();
        // All runs of a command with a peer have that in common.
        let turn = match &ends.far {
            Some(_) => self.turns.of("peer"),
            None => self.turns.of(&boot),
        };
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.asking.interrupted.load(Ordering::Relaxed) {
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
                    ends.hold(waiting, self.asking, &self.display)?;
                }
                (record, run)
            }
            None => {
                let plan = self.plan(&ends, hosts, link.map(|(link, _)| link))?;
                if options.dry_run {
                    dry_run(name.as_deref(), table, &self.asked, &plan)?;
                    return Ok(None);
                }
                ends.hold(waiting, self.asking, &self.display)?;
                let own_name = name
                    .is_some()
                    .then(|| file_name(&ends.near.host, &options.on));
                begin(table, options, plan, own_name)?
            }
        };
        let precision = Precision::named(&run.run.plan.precision).ok_or_else(|| {
            wrong(format!(
                "this costof knows no precision `{}`",
                run.run.plan.precision
            ))
        })?;
        placement::leave_the_measured(&run.run.plan.placement);
        if run.end.is_none() {
            let attempt = Row::Attempt(Box::new(attempt(&ends, link)));
            record.append(&attempt)?;
            run.add(attempt);
            let takes = planning::takes(table, &run.run.plan, precision);
            let launches = run.run.plan.blocks.len() as u64 * u64::from(takes.launches);
            let progress = self.display.run(launches, name.as_deref());
            progress.say(&format!(
                "{}, about {} s, to {}",
                names::points_counted(takes.points),
                takes.time.as_secs_f64().ceil(),
                record.path().display()
            ));
            let to_peer = link.map(|(link, meet)| {
                let made = Made::between(meet.near, meet.far);
                (Text::from(link.to_string()), Ok(made))
            });
            Controller {
                table,
                command: self.asking.command,
                holder: &self.holder,
                links: to_peer.into_iter().collect(),
                facts: &placement::facts_of_the_run(
                    &run.run.plan.placement,
                    &ends.near.description.facts,
                ),
                near: &ends.near,
                far: ends.far.as_ref(),
                precision,
                limit: self.asking.limit,
                interrupted: self.asking.interrupted,
                progress: &progress,
                record: &mut record,
                run: &mut run,
            }
            .carry_out()?;
            if !self.asking.interrupted.load(Ordering::Relaxed) {
                let end = end(&run);
                record.append(&end)?;
                run.add(end);
            }
        }
        Ok(Some((record, run)))
    }
}

fn dry_run(
    name: Option<&str>,
    table: &[&'static Probe],
    asked: &Asked<'_>,
    plan: &Plan,
) -> Result<(), Error> {
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
    let takes = planning::takes(table, plan, asked.precision);
    writeln!(output, "\n{}", takes.sentence())?;
    Ok(())
}

fn infos(table: &[&'static Probe]) -> Vec<costof_model::probe_info::ProbeInfo> {
    table.iter().map(|probe| probe.info.clone()).collect()
}

/// A new run file, with what was asked and the probes that it asks; `name` is
/// its own in the folder of `--out`, where there are several.
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
    let mut record = Record::create(&path)?;
    let used: Vec<&Probe> = table
        .iter()
        .copied()
        .filter(|probe| {
            let asks = |point: &costof_model::point::Point| point.probe == probe.info.id;
            plan.blocks.iter().flat_map(|block| &block.points).any(asks)
        })
        .collect();
    let first = RunRow {
        schema: SCHEMA,
        id,
        started: humantime::format_rfc3339_seconds(now).to_string(),
        command: std::env::args().collect(),
        seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
        plan,
    };
    record.append(&Row::Run(Box::new(first.clone())))?;
    let mut run = Run::new(first);
    for probe in used {
        let row = Row::Probe(Box::new(probe.info.clone()));
        record.append(&row)?;
        run.add(row);
    }
    Ok((record, run))
}

/// When it began, to the second, and something drawn: sorts by time and is
/// not used twice.
fn id(now: SystemTime) -> String {
    let time: String = humantime::format_rfc3339_seconds(now)
        .to_string()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    format!("{time}-{:08x}", fastrand::u32(..))
}

fn history_path(id: &str) -> Result<PathBuf, Error> {
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
    let points = run.run.plan.blocks.iter().flat_map(|block| &block.points);
    for point in points {
        if costof_measure::probe::find(table, &point.probe).is_none() {
            return Err(wrong(format!(
                "this costof has no probe {}: resume with the one that began the run",
                point.probe
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

fn attempt(ends: &Ends, link: Option<(Link, Meet)>) -> AttemptRow {
    let machine = &ends.near.description;
    let mut hosts = BTreeMap::from([(Text::Borrowed(MEASURED), (*machine.facts).clone())]);
    let far = ends.far.as_ref().map(|far| &far.description);
    if let Some(far) = far {
        hosts.insert(Text::Borrowed(PEER), (*far.facts).clone());
    }
    AttemptRow {
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
    }
}

fn end(run: &Run) -> Row {
    Row::End(EndRow {
        finished: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        points: run.points.len() as u64,
        failures: run.failures.len() as u64,
    })
}

/// Prints what a run gave, and says how it ended.
fn show(run: &Run, record: &Record, json: bool) -> Result<ExitCode, Error> {
    let mut output = io::stdout().lock();
    if json {
        for point in &run.points {
            output.write_all(&run_file::line(&Row::Point(Box::new(point.clone()))))?;
        }
        for failure in run.failures.iter().filter(|row| row.launch.is_none()) {
            output.write_all(&run_file::line(&Row::Failure(failure.clone())))?;
        }
    } else {
        output.write_all(report::text(run).as_bytes())?;
        writeln!(output, "\nThe run is in {}", record.path().display())?;
    }
    if run.end.is_none() {
        let path = record.path().display();
        let force = match runs_nothing_unseen(&run.run.plan.hosts, false) {
            Ok(()) => "",
            Err(_) => " --force",
        };
        tell(format!(
            "interrupted; `costof run --resume {path}{force}` measures what is missing"
        ));
        return Ok(machine::interrupted_code());
    }
    if run.points.is_empty() {
        return Err(Error::Nothing(
            "nothing could be measured; the reasons stand above".to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
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

//! `costof run`: measure.

use crate::cli::RunOptions;
use crate::error::{Error, wrong};
use crate::interrupts;
use crate::machine;
use crate::planning;
use crate::record::Record;
use crate::session::{Done, Ends, Session, hosts_of};
use crate::tell::tell;
use costof_measure::probe::Probe;
use costof_model::rows::{Hosts, Row};
use costof_model::run_file::{self, Run};
use costof_report::run as report;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;

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
    // A file to resume is checked before the machine is described.
    let resumed = options.resume.as_deref().map(Record::reopen).transpose()?;
    let here = match &resumed {
        Some((_, run)) => {
            runs_nothing_unseen(&run.run.plan.hosts, options.force)?;
            run.run.plan.hosts.clone()
        }
        None => hosts_of(options),
    };
    let remote_costof = here.remote_costof.clone();
    let session = Session::new(
        table,
        options,
        vec![asked],
        remote_costof.as_ref(),
        &interrupted,
    )?;
    if several {
        return on_several(session, &here);
    }
    let done = session.on_one(here, resumed)?;
    drop(session);
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

/// The command that goes on with an interrupted run.
pub(crate) fn resume_by(path: &Path, force: bool) -> String {
    let force = if force { " --force" } else { "" };
    format!("costof run --resume {}{force}", path.display())
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

/// The same on each host: those that are one machine one after the other,
/// the others at the same time.
fn on_several(session: Session<'_>, here: &Hosts) -> Result<ExitCode, Error> {
    let options = session.options;
    let hosts = &options.on;
    let has_met = Barrier::new(hosts.len());
    let (measuring, has_met) = (&session, &has_met);
    let all: Vec<Result<Done, Error>> = std::thread::scope(|scope| {
        let running: Vec<_> = hosts
            .iter()
            .map(|host| {
                let hosts = Hosts {
                    on: Some(host.to_string()),
                    ..here.clone()
                };
                scope.spawn(move || {
                    let ends = Ends::meet(&hosts, measuring.asking());
                    // Nothing is measured while others still look at their machine.
                    has_met.wait();
                    measuring.with(ends?, hosts, None)
                })
            })
            .collect();
        let ended = running.into_iter().map(|run| run.join());
        ended
            .map(|run| run.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    drop(session);
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
        let force = runs_nothing_unseen(&run.run.plan.hosts, false).is_err();
        let by = resume_by(record.path(), force);
        tell(format!("interrupted; `{by}` measures what is missing"));
        return Ok(machine::interrupted_code());
    }
    if run.points.is_empty() {
        return Err(Error::Nothing(
            "nothing could be measured; the reasons stand above".to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

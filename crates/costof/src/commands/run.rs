//! `costof run`: measures.

use super::show::print_run;
use super::{history, several};
use crate::cli::RunOptions;
use crate::error::{Context, Done, Error, INTERRUPTED};
use crate::files;
use crate::machine;
use crate::machine::hosts;
use crate::plan::request::Request;
use crate::record::{Record, Table};
use crate::resume;
use crate::session::Session;
use crate::terminal::{log, watch_interrupts};
use costof_measure::probe::Probe;
use std::fs::File;
use std::io;
use std::process::ExitCode;

pub(crate) fn run(table: &'static [&'static Probe], options: &RunOptions) -> Done {
    let sets = options.sets.iter().flat_map(|set| &set.0);
    let options = &RunOptions { on: sets.cloned().collect(), ..options.clone() };
    // The request is checked before anything starts.
    let request = Request::new(table, options)?;
    let several = options.on.len() > 1;
    if several {
        several::check(options)?;
        files::refuse_standard_output(
            options.out.as_deref(),
            "--out names a folder for several runs",
        )?;
    }
    let interrupted = watch_interrupts()?;
    // A file to resume is checked before the machine is described.
    let resumed = options.resume.as_deref().map(|file| Record::reopen(file, table)).transpose()?;
    let hosts = match &resumed {
        Some(record) => record.run.run.plan.hosts.clone(),
        None => machine::resolved(hosts(options))?,
    };
    if resumed.is_some() {
        resume::check_commands(&hosts, options.force)?;
    }
    let remote_costof = hosts.remote_costof.clone();
    let remote_costof = remote_costof.as_ref();
    let session = Session::new(table, options, vec![request], remote_costof, &interrupted)?;
    if several {
        return several::measure(session, &hosts);
    }
    let done = session.measure(hosts, resumed)?;
    drop(session);
    match done {
        Some(record) => show(table, &record, options),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Prints the results of a run, and how it ended.
pub(super) fn show(table: Table<'_>, record: &Record, options: &RunOptions) -> Done {
    let run = &record.run;
    if options.out.as_deref().is_some_and(files::is_standard_output) {
        let mut file = File::open(record.path()).context(record.path().display())?;
        io::copy(&mut file, &mut io::stdout().lock())?;
    } else {
        print_run(run, record.path(), &options.printing)?;
    }
    if run.end.is_none() {
        log(resume::advice(run, record.path()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if run.points.is_empty() {
        let why = "nothing could be measured; the reasons are above";
        return Err(Error::Nothing(why.to_owned()));
    }
    if options.history {
        history::print_latest(table, &run.host_name())?;
    }
    Ok(ExitCode::SUCCESS)
}

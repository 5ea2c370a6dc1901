//! `costof run`: measures.

use super::several;
use super::show::print_ended;
use crate::cli::RunOptions;
use crate::error::Done;
use crate::files;
use crate::machine;
use crate::machine::hosts;
use crate::plan::request::Request;
use crate::record::{Record, Table};
use crate::resume;
use crate::session::Session;
use crate::terminal::watch_interrupts;
use std::process::ExitCode;

pub(crate) fn run(table: Table, options: &RunOptions) -> Done {
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
        Some(record) => print_ended(table, &record, options),
        None => Ok(ExitCode::SUCCESS),
    }
}

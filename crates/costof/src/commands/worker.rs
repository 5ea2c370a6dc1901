//! `costof worker` and `costof hold`: the processes that a controller starts to measure and to keep a link.

use crate::error::Done;
use crate::project;
use crate::record::Table;
use costof_lab::link;
use costof_measure::worker;
use costof_model::Link;
use costof_os::process::shared_object::make_room_for_allocators;
use std::process::{Command, ExitCode};

/// Measures what a controller requests.
pub(crate) fn run(table: Table, end_with_parent: bool) -> Done {
    if end_with_parent {
        worker::work(table, env!("CARGO_PKG_VERSION"))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Starts the same executable again, even if its file was replaced.
    let mut guarded = Command::new("/proc/self/exe");
    guarded.args(["worker", "--end-with-parent"]).args(project::argument(table)?);
    make_room_for_allocators(&mut guarded);
    let code = worker::guard(&mut guarded)?;
    Ok(ExitCode::from(code))
}

/// Makes a link and keeps it until the controller closes standard input.
pub(crate) fn hold(link: &Link) -> Done {
    link::hold(link)?;
    Ok(ExitCode::SUCCESS)
}

//! How this costof starts other processes of its own.

use crate::error::{Context, Result};
use crate::project;
use crate::record::Table;
use costof_lab::host::WorkerCommand;

/// The environment variable that may hold the token of a costof that listens. Other users cannot read it,
/// unlike the command line.
pub(crate) const TOKEN: &str = "COSTOF_TOKEN";

/// How this costof starts workers, and the process that keeps a link.
pub(crate) struct Programs {
    pub(crate) worker: WorkerCommand,
    pub(crate) holder: WorkerCommand,
}

impl Programs {
    /// On hosts that ssh reaches, workers are started from `remote_costof`. Those here get the same own probes.
    pub(crate) fn new(table: Table, remote_costof: Option<&String>) -> Result<Programs> {
        let mut arguments = vec!["worker", "--end-with-parent"];
        arguments.extend(project::argument(table)?);
        let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let worker = own_executable(&arguments)?.with_token(token);
        Ok(Programs {
            worker: match remote_costof {
                Some(costof) => worker.with_remote(costof),
                None => worker,
            },
            holder: own_executable(&["hold"])?,
        })
    }
}

pub(crate) fn own_executable(arguments: &[&str]) -> Result<WorkerCommand> {
    WorkerCommand::own_executable(arguments)
        .context("cannot open costof's own executable by /proc/self/exe (is /proc mounted?)")
}

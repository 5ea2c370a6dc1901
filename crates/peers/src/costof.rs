//! Runs costof as a program: measures one point, and reads its run file.

use crate::child::{self, Interrupt};
use crate::error::{OrCannot, Result, failed};
use crate::packages;
use costof_model::run_file;
use costof_model::{Estimate, Run};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A costof executable.
#[derive(Clone, Debug)]
pub struct Costof {
    path: PathBuf,
}

impl Costof {
    /// The executable at this path.
    pub fn at(path: PathBuf) -> Costof {
        Costof { path }
    }

    /// The path of the executable.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs costof with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments);
        command
    }

    /// Runs `costof run` with these arguments. It writes its run file to `file`, and this returns the
    /// contents.
    ///
    /// # Errors
    /// costof fails, takes too long, or its file cannot be read.
    pub fn run(
        &self,
        file: &Path,
        arguments: &[&str],
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Run> {
        child::finish(&mut self.run_command(file, arguments), limit, interrupt)?;
        read(file)
    }

    /// A command that runs `costof run` with these arguments and writes its run file to `file`.
    pub fn run_command(&self, file: &Path, arguments: &[&str]) -> Command {
        // It ends with this process, and then writes no more into the folder of its file.
        let mut command = match packages::find("setpriv") {
            Some(_) => child::until_death(&self.path),
            None => Command::new(&self.path),
        };
        command.args(["run", "--only"]);
        command.args(arguments).arg("--out").arg(file);
        // Runs for a comparison do not belong in the user's history.
        if let Some(folder) = file.parent() {
            command.env("XDG_STATE_HOME", folder);
        }
        // The warning about a busy machine is given once, not in each round.
        command.env("COSTOF_NO_PREFLIGHT", "1");
        command
    }
}

/// The contents of a run file.
///
/// # Errors
/// It cannot be read.
pub fn read(file: &Path) -> Result<Run> {
    let opened = File::open(file).or_cannot(format_args!("open {}", file.display()))?;
    run_file::read(BufReader::new(opened)).or_cannot(format_args!("read {}", file.display()))
}

/// The metric of a run that has exactly one point.
///
/// # Errors
/// There is not exactly one point, or it has no such metric.
pub fn the_only<'a>(run: &'a Run, metric: &str) -> Result<&'a Estimate> {
    match run.points.as_slice() {
        [point] => point.estimate(metric).ok_or_else(|| {
            failed(format!("{} has no {metric}, or it is below resolution", point.point))
        }),
        points => Err(failed(format!(
            "costof measured {} points where one was asked for: {}",
            points.len(),
            reasons(run)
        ))),
    }
}

/// Why points of a run have no number, each reason once.
pub fn reasons(run: &Run) -> String {
    let reasons: BTreeSet<String> = run
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.point, failure.reason))
        .collect();
    reasons.into_iter().collect::<Vec<_>>().join("; ")
}

//! costof as a program: where it is, and what it wrote into its run file.

use crate::bench::Bench;
use crate::child::{self, Finished};
use crate::error::{Result, failed};
use costof_model::metric::Estimate;
use costof_model::run_file::{self, Run};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a run may take that is not full: twice what `costof run` alone promises.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Costof {
    path: PathBuf,
}

impl Costof {
    /// The one asked for, else the release build of this workspace, brought up
    /// to date first where Cargo has started the bench.
    pub(crate) fn find(asked: Option<PathBuf>, target: &Path) -> Result<Costof> {
        let path = match asked {
            Some(path) => path,
            None => {
                build(target)?;
                target.join("release").join("costof")
            }
        };
        if !path.is_file() {
            return Err(failed(format!(
                "there is no costof at {} (cargo build --release, or name one by --costof PATH)",
                path.display()
            )));
        }
        Ok(Costof { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// costof with these arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments);
        command
    }

    /// `costof run` with these arguments, and what its run file says; the file
    /// is kept under `name`.
    pub(crate) fn run(bench: &Bench, name: &str, arguments: &[&str]) -> Result<Run> {
        let file = bench.file(name);
        child::finish(
            &mut bench.costof.run_command(&file, arguments),
            RUN_LIMIT,
            &bench.interrupt,
        )?;
        read(&file)
    }

    /// As [`Costof::run`], watched while it runs: its process id is handed to `glance`.
    pub(crate) fn run_watched(
        bench: &Bench,
        name: &str,
        arguments: &[&str],
        limit: Duration,
        every: Duration,
        glance: &mut dyn FnMut(u32),
    ) -> Result<(Run, Finished)> {
        let file = bench.file(name);
        let finished = child::finish_watched(
            &mut bench.costof.run_command(&file, arguments),
            limit,
            &bench.interrupt,
            every,
            glance,
        )?;
        Ok((read(&file)?, finished))
    }

    fn run_command(&self, file: &Path, arguments: &[&str]) -> Command {
        let mut command = self.command(&["run"]);
        command.args(arguments).arg("--out").arg(file);
        command
    }
}

/// Cargo starts a program with its own path in `CARGO`.
fn build(target: &Path) -> Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return Ok(());
    };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "costof"])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ])
        .arg("--target-dir")
        .arg(target)
        .status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(format!(
            "cargo build --release --package costof ended with {status}"
        ))),
        Err(error) => Err(failed(format!("cannot start cargo: {error}"))),
    }
}

fn read(file: &Path) -> Result<Run> {
    let opened = File::open(file)
        .map_err(|error| failed(format!("cannot open {}: {error}", file.display())))?;
    run_file::read(BufReader::new(opened))
        .map_err(|error| failed(format!("{}: {error}", file.display())))
}

/// The metric of a run of one point.
pub(crate) fn the_only<'a>(run: &'a Run, metric: &str) -> Result<&'a Estimate> {
    match run.points.as_slice() {
        [point] => point.estimate(metric).ok_or_else(|| {
            failed(format!(
                "{} has no {metric}, or it is below resolution",
                point.point
            ))
        }),
        points => Err(failed(format!(
            "costof measured {} points where one was asked for: {}",
            points.len(),
            reasons(run)
        ))),
    }
}

/// A point's axes as `costof run` takes them.
pub(crate) fn settings(axes: &[String]) -> impl Iterator<Item = &str> {
    axes.iter().flat_map(|axis| ["--set", axis])
}

/// What failed in a run, to stand behind what did not.
pub(crate) fn failures(run: &Run) -> String {
    match run.failures.len() {
        0 => String::new(),
        count => format!(", {count} failures: {}", reasons(run)),
    }
}

/// Why points of a run have no number, each reason once.
fn reasons(run: &Run) -> String {
    let reasons: BTreeSet<String> = run
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.point, failure.reason))
        .collect();
    reasons.into_iter().collect::<Vec<_>>().join("; ")
}

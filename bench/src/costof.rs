//! Which costof is compared, and its runs, whose files the bench keeps.

use crate::bench::Bench;
use crate::child::Finished;
use crate::error::{Result, failed};
use costof_model::run_file::Run;
use costof_peers::costof::{Costof, reasons};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a run may take that is not full: twice what `costof run` alone promises.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(120);

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
    Ok(Costof::at(path))
}

/// `costof run` with these arguments, and what its run file says; the file
/// is kept under `name`.
pub(crate) fn run(bench: &Bench, name: &str, arguments: &[&str]) -> Result<Run> {
    run_within(bench, name, arguments, RUN_LIMIT)
}

/// The same of a run that may take so long.
pub(crate) fn run_within(
    bench: &Bench,
    name: &str,
    arguments: &[&str],
    limit: Duration,
) -> Result<Run> {
    let file = bench.file(name);
    bench.costof.run(&file, arguments, limit, &bench.interrupt)
}

/// As [`run`], watched while it runs: its process id is handed to `glance`.
pub(crate) fn run_watched(
    bench: &Bench,
    name: &str,
    arguments: &[&str],
    limit: Duration,
    every: Duration,
    glance: &mut dyn FnMut(u32),
) -> Result<(Run, Finished)> {
    let file = bench.file(name);
    let interrupt = &bench.interrupt;
    bench
        .costof
        .run_watched(&file, arguments, limit, interrupt, (every, glance))
}

/// Brings the costof with the planted probe up to date, beside the bench that is at `own`.
pub(crate) fn build_planted(own: &Path) -> Result<()> {
    let target = own.ancestors().nth(2).unwrap_or(own);
    built(target, &["costof-bench", "--bin", "costof-planted"])
}

fn build(target: &Path) -> Result<()> {
    built(target, &["costof"])
}

/// Cargo starts a program with its own path in `CARGO`.
fn built(target: &Path, package: &[&str]) -> Result<()> {
    let Some(cargo) = std::env::var_os("CARGO") else {
        return Ok(());
    };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package"])
        .args(package)
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
            "cargo build --release --package {} ended with {status}",
            package.join(" ")
        ))),
        Err(error) => Err(failed(format!("cannot start cargo: {error}"))),
    }
}

/// What failed in a run, to stand behind what did not.
pub(crate) fn failures(run: &Run) -> String {
    match run.failures.len() {
        0 => String::new(),
        count => format!(", {count} failures: {}", reasons(run)),
    }
}

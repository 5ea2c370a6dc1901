//! Which costof is compared.

use crate::error::{Result, failed};
use costof_model::run_file::Run;
use costof_peers::costof::{Costof, reasons};
use std::path::{Path, PathBuf};
use std::process::Command;

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
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
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

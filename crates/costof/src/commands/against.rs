//! `costof against`: compares the program in this work tree with another revision of it, in turns.
//!
//! The other revision has a work tree of its own, outside this one, which stays for the next time with what was built there.
//! This work tree is not changed, except by its build.

use super::time::{self, Job};
use crate::cli::AgainstOptions;
use crate::error::{Context, Done, Error, bail};
use crate::terminal::log;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How this work tree is named.
const HERE: &str = "worktree";
/// The name of a file has at most 255 bytes.
const MAX_NAME: usize = 200;

pub(crate) fn run(options: &AgainstOptions) -> Done {
    let revision = &options.revision;
    let folder = Path::new(".");
    let top = PathBuf::from(git(folder, ["rev-parse", "--show-toplevel"])?);
    // Where this folder is below the top, which is where the program is started in the other one.
    let below = git(folder, ["rev-parse", "--show-prefix"])?;
    let commit = git(
        folder,
        ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")],
    );
    let Ok(commit) = commit else {
        bail!(
            "there is no revision `{revision}` here (in a shallow clone, fetch it first: git fetch origin {revision})"
        );
    };
    let other = match &options.work_tree {
        Some(folder) => std::path::absolute(folder).context("--work-tree")?,
        None => default_work_tree(&top)?,
    };
    check_out(&top, &other, &commit)?;
    let folders = [other.join(&below), top.join(&below)];
    if let Some(build) = &options.build {
        for (folder, name) in folders.iter().zip([revision.as_str(), HERE]) {
            run_build(build, folder, name)?;
        }
    }
    let jobs = folders.iter().zip([revision.as_str(), HERE]).enumerate();
    let jobs = jobs.map(|(position, (folder, name))| {
        let job = Job::new(&options.argv, (position, 2), &BTreeMap::new(), &options.turns)?;
        Ok(job.named_in(name, folder))
    });
    time::measure(&options.turns, jobs.collect::<Result<_, Error>>()?)
}

/// `$XDG_CACHE_HOME/costof/against`, else `~/.cache/costof/against`, and a folder there for this work tree.
fn default_work_tree(top: &Path) -> Result<PathBuf, Error> {
    let cache = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => Path::new(&home).join(".cache"),
        _ => {
            bail!("there is no HOME to keep the other work tree in: name a folder with --work-tree")
        }
    };
    let name = top.display().to_string().replace('/', "-");
    let start = name.len().saturating_sub(MAX_NAME);
    let start = (start..).find(|&start| name.is_char_boundary(start));
    Ok(cache.join("costof/against").join(&name[start.unwrap_or(0)..]))
}

/// Makes the other work tree, or moves an existing one to the commit. What was built there stays.
fn check_out(top: &Path, other: &Path, commit: &str) -> Result<(), Error> {
    if other.join(".git").exists() {
        return git(other, ["checkout", "--quiet", "--force", "--detach", commit]).map(drop);
    }
    if let Some(parent) = other.parent() {
        fs::create_dir_all(parent).context(format_args!("cannot make {}", parent.display()))?;
    }
    // Git may still know one that somebody removed.
    git(top, ["worktree", "prune"])?;
    let arguments = ["worktree", "add", "--quiet", "--force", "--detach"].map(OsStr::new);
    let arguments = arguments.into_iter().chain([other.as_os_str(), OsStr::new(commit)]);
    git(top, arguments).map(drop)
}

/// What git prints, without the last line feed.
fn git(
    folder: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<String, Error> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    let output = command.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

fn run_build(build: &str, folder: &Path, name: &str) -> Result<(), Error> {
    log(format_args!("building {name}: {build}"));
    let mut command = Command::new("sh");
    // Standard output is for the result.
    command.args(["-c", &format!("{{ {build}\n}} >&2")]).current_dir(folder);
    let status = command.status().context("cannot start sh")?;
    match status.success() {
        true => Ok(()),
        false => bail!("the build of {name} failed ({status}): `{build}` in {}", folder.display()),
    }
}

//! `costof against`: compares the program in this work tree with another revision of it, in turns.
//!
//! The other revision has a work tree of its own, outside this one, which stays for the next time with what was built there.
//! This work tree is not changed, except by its build.

use super::time::{self, Job};
use crate::cli::AgainstOptions;
use crate::error::{Context, Done, Result, bail};
use crate::terminal::log;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How this work tree is named.
const HERE: &str = "worktree";
/// The name of the other work tree's folder, below the path of the repository's.
const OTHER: &str = "costof-against";
/// With these, git uses the repository that they name instead of the current folder's. Its hooks have them.
const GIT_VARIABLES: [&str; 6] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
];

pub(crate) fn run(options: &AgainstOptions) -> Done {
    leave_hook()?;
    let revision = &options.revision;
    let folder = Path::new(".");
    let top = PathBuf::from(git(folder, ["rev-parse", "--show-toplevel"])?);
    let top = fs::canonicalize(&top).context(top.display())?;
    // Where this folder is below the top, which is where the program is started in the other one.
    let below = git(folder, ["rev-parse", "--show-prefix"])?;
    let commit = git(
        folder,
        ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")],
    );
    let Ok(commit) = commit else {
        bail!("there is no revision `{revision}` here{}", advice(revision));
    };
    check_paths(&options.argv, &top)?;
    let other = other_work_tree(&top)?;
    fs::create_dir_all(&other).context(format_args!("cannot make {}", other.display()))?;
    let other = fs::canonicalize(&other).context(other.display())?;
    let _locks = [lock(&top)?, lock(&other)?];
    check_out(&top, &other, &commit)?;
    let folders = [other.join(&below), top.join(&below)];
    if !folders[0].is_dir() {
        bail!("{revision} has no folder {below}: start costof in one that both have");
    }
    if let Some(build) = &options.build {
        for (folder, name) in folders.iter().zip([revision.as_str(), HERE]) {
            run_build(build, folder, name)?;
        }
    }
    let program = Path::new(&options.argv[0]);
    // Without a slash, it is found in PATH.
    if program.components().count() > 1
        && is_same_file(folders.each_ref().map(|it| it.join(program)))
    {
        log(format_args!("{} is the same file in both work trees", program.display()));
    }
    let jobs = folders.iter().zip([revision.as_str(), HERE]).enumerate();
    let jobs = jobs.map(|(position, (folder, name))| {
        let job = Job::new(&options.argv, (position, 2), &BTreeMap::new(), &options.turns)?;
        Ok(job.named_in(name, folder))
    });
    time::measure(&options.turns, jobs.collect::<Result<_>>()?)
}

/// Starts costof anew without the variables of git, so that nothing which it starts has them.
fn leave_hook() -> Result<()> {
    if GIT_VARIABLES.iter().all(|name| env::var_os(name).is_none()) {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    command.args(env::args_os().skip(1));
    for name in GIT_VARIABLES {
        command.env_remove(name);
    }
    Err(command.exec()).context("cannot start costof without the variables of git")
}

/// How a revision that a remote repository may have comes here.
fn advice(revision: &str) -> String {
    let name = revision.strip_prefix("origin/").unwrap_or(revision);
    match name.contains(['~', '^', '@', ':']) {
        true => String::new(),
        false => format!(" (in a shallow clone, fetch it first: git fetch origin {name})"),
    }
}

/// An absolute path into this work tree is the same file for both sides.
fn check_paths(words: &[impl AsRef<OsStr>], top: &Path) -> Result<()> {
    for (position, word) in words.iter().map(Path::new).enumerate() {
        let is_inside = |path: &Path| path.is_absolute() && path.starts_with(top);
        let resolved = || word.is_absolute().then(|| fs::canonicalize(word).ok()).flatten();
        match is_inside(word) || resolved().is_some_and(|path| is_inside(&path)) {
            false => {}
            true if position == 0 => bail!(
                "{0} is in this work tree, so both sides would run it: name it relative to this folder, or start it by \
                 `env {0}` if that is what you want",
                word.display()
            ),
            // It may be data that only this work tree has.
            true => log(format_args!(
                "both sides use {}, since it is an absolute path into this work tree",
                word.display()
            )),
        }
    }
    Ok(())
}

fn is_same_file(paths: [PathBuf; 2]) -> bool {
    let identity = |path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let [a, b] = paths.map(identity);
    a.is_some() && a == b
}

/// The folder of the other work tree: in `$XDG_CACHE_HOME/costof/against`, else in `~/.cache/costof/against`.
fn other_work_tree(top: &Path) -> Result<PathBuf> {
    let cache = match (env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) if !home.is_empty() => Path::new(&home).join(".cache"),
        _ => bail!("there is no HOME to keep the other work tree in: set XDG_CACHE_HOME"),
    };
    let path = top.strip_prefix("/").unwrap_or(top);
    Ok(cache.join("costof/against").join(path).join(OTHER))
}

/// Keeps other `costof against` off a work tree until the file is closed, after waiting for them.
fn lock(folder: &Path) -> Result<File> {
    let file = File::open(folder).context(folder.display())?;
    let locked = match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            log(format_args!("waiting: another costof against uses {}", folder.display()));
            file.lock()
        }
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    // NFS locks no folder.
    if let Err(error) = locked {
        log(format_args!("cannot keep other costofs off {}: {error}", folder.display()));
    }
    Ok(file)
}

/// Makes the other work tree, or moves an existing one to the commit. What was built there stays. One of an earlier clone is
/// made anew.
fn check_out(top: &Path, other: &Path, commit: &str) -> Result<()> {
    if is_linked(top, other)? {
        return git(other, ["checkout", "--quiet", "--detach", "--force", commit]).map(drop);
    }
    fs::remove_dir_all(other).context(format_args!("cannot remove {}", other.display()))?;
    // Git may still know one that somebody removed: hence the force.
    let arguments = ["worktree", "add", "--quiet", "--force", "--detach"].map(OsStr::new);
    let arguments = arguments.into_iter().chain([other.as_os_str(), OsStr::new(commit)]);
    git(top, arguments).map(drop)
}

/// Whether a folder is a further work tree of the repository, by what both say.
fn is_linked(top: &Path, other: &Path) -> Result<bool> {
    let shared = |folder: &Path| {
        let shared = git(folder, ["rev-parse", "--git-common-dir"])?;
        fs::canonicalize(folder.join(&shared)).context(shared)
    };
    if !other.join(".git").is_file() || shared(other).ok() != Some(shared(top)?) {
        return Ok(false);
    }
    let listed = git(top, ["worktree", "list", "--porcelain"])?;
    let listed = listed.lines().filter_map(|line| line.strip_prefix("worktree "));
    // The first one is the main work tree.
    Ok(listed.skip(1).any(|path| Path::new(path) == other))
}

/// What git prints, without the last line feed.
fn git(folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    let output = command.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

fn run_build(build: &str, folder: &Path, name: &str) -> Result<()> {
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

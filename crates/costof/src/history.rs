//! The runs of this user: those in the history, which is the folder of the runs that were not given a
//! file, and those that `--out` put elsewhere, whose paths the history keeps. Commands name them by
//! number: `@1` is the latest run, `@2` the one before.

use crate::error::{Error, bail, wrong};
use crate::record;
use costof_model::run_file::Run;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many runs of the history are searched for one that has a probe.
pub(crate) const LOOK_BACK: usize = 30;

/// The index of the runs that `--out` put elsewhere: in each line an id, a blank and a path.
const INDEX: &str = "elsewhere";

/// A run that was made here: its id, which begins with its time, and its file.
struct Entry {
    id: String,
    path: PathBuf,
}

impl Entry {
    /// When the run began, to the second; of those that began together, the one written last is the latest.
    fn age(&self) -> (String, Option<SystemTime>) {
        let began = self.id.split('-').next().unwrap_or_default().to_owned();
        let written = fs::metadata(&self.path).and_then(|file| file.modified());
        (began, written.ok())
    }
}

/// The files of all runs, the latest first.
pub(crate) fn all() -> Vec<PathBuf> {
    let Ok(folder) = folder() else {
        return Vec::new();
    };
    let mut entries = in_folder(&folder);
    entries.extend(elsewhere(&folder));
    entries.sort_by_cached_key(|entry| Reverse(entry.age()));
    entries.into_iter().map(|entry| entry.path).collect()
}

fn in_folder(folder: &Path) -> Vec<Entry> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .filter_map(|path| {
            let id = path.file_stem()?.to_string_lossy().into_owned();
            Some(Entry { id, path })
        })
        .collect()
}

/// The runs of the index whose files are still there, each file once: with its latest run.
fn elsewhere(folder: &Path) -> Vec<Entry> {
    let index = fs::read_to_string(folder.join(INDEX)).unwrap_or_default();
    let lines = index.lines().rev().filter_map(|line| line.split_once(' '));
    let mut seen = HashSet::new();
    lines
        .filter(|(_, path)| seen.insert(*path) && Path::new(path).is_file())
        .map(|(id, path)| Entry {
            id: id.to_owned(),
            path: path.into(),
        })
        .collect()
}

/// Keeps the path of a new run in the index, unless its file is in the history. A run that cannot be
/// listed is as good as any other, so a failure is passed over.
pub(crate) fn remember(id: &str, path: &Path) {
    let _ = add_to_index(id, path);
}

fn add_to_index(id: &str, path: &Path) -> io::Result<()> {
    let Ok(folder) = folder() else { return Ok(()) };
    let path = path.canonicalize()?;
    let is_in_history = folder
        .canonicalize()
        .is_ok_and(|folder| path.parent() == Some(&folder));
    let text = path
        .to_str()
        .filter(|text| !text.contains(char::is_control));
    let Some(text) = text.filter(|_| !is_in_history) else {
        return Ok(());
    };
    fs::create_dir_all(&folder)?;
    let mut options = OpenOptions::new();
    let mut index = options.append(true).create(true).open(folder.join(INDEX))?;
    index.write_all(format!("{id} {text}\n").as_bytes())
}

/// The file of the run that a command line names: `@1` is the latest run, `@2` the one before; anything else
/// is a path.
pub(crate) fn named(name: PathBuf) -> Result<PathBuf, String> {
    let number = name.to_str().and_then(|text| text.strip_prefix('@'));
    let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) else {
        return Ok(name);
    };
    let runs = all();
    let count = runs.len();
    let run = number
        .checked_sub(1)
        .and_then(|position| runs.into_iter().nth(position));
    run.ok_or_else(|| match count {
        0 => "there is no run in the history: `costof run` makes one, or name a run file".to_owned(),
        _ => format!(
            "there is no run @{number}: @1 is the latest, @{count} the oldest (`costof runs` lists them)"
        ),
    })
}

/// The latest run.
pub(crate) fn latest() -> Result<PathBuf, Error> {
    named("@1".into()).map_err(wrong)
}

/// The run before the latest one, and the latest.
pub(crate) fn last_two() -> Result<Vec<PathBuf>, Error> {
    let [latest, before, ..] = &all()[..] else {
        bail!(
            "there are no two runs to compare in the history (`costof runs` lists it): name BEFORE and \
             AFTER, two run files, or measure two hosts by --interleave HOST HOST"
        );
    };
    Ok(vec![before.clone(), latest.clone()])
}

/// The latest runs, the latest first. Files that cannot be read are passed over.
fn recent() -> impl Iterator<Item = (PathBuf, Run)> {
    let paths = all().into_iter().take(LOOK_BACK);
    paths.filter_map(|path| record::read(&path).ok().map(|run| (path, run)))
}

/// The latest run that has a number of this probe; `None` where there is none.
pub(crate) fn latest_with(probe: &str) -> Option<(PathBuf, Run)> {
    recent().find(|(_, run)| run.points.iter().any(|row| row.point.probe == probe))
}

/// The latest runs of this machine, with the names of their files, the latest first.
pub(crate) fn of_this_machine() -> impl Iterator<Item = (String, Run)> {
    let runs = recent().filter(|(_, run)| run.run.plan.hosts.on.is_none());
    runs.map(|(path, run)| (path.display().to_string(), run))
}

/// The file of a new run of the history.
pub(crate) fn new_file(id: &str) -> Result<PathBuf, Error> {
    Ok(folder()?.join(format!("{id}.jsonl")))
}

/// `$XDG_STATE_HOME/costof/runs`, else `~/.local/state/costof/runs`.
fn folder() -> Result<PathBuf, Error> {
    let state = match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(state), _) if Path::new(&state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) => Path::new(&home).join(".local/state"),
        _ => bail!("HOME is not set, so the run has no place: name a file with --out"),
    };
    Ok(state.join("costof/runs"))
}

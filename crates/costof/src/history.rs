//! The runs of this user. The history is the folder of the runs without `--out`; it also has a symbolic link to each
//! run that `--out` put elsewhere. Commands name a run by its number: `@1` is the latest run, `@2` the
//! one before.

use crate::error::{Result, bail, wrong};
use crate::record::{self, Table};
use costof_model::{Earlier, Point, PointRow, Run};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// So many of the latest runs are searched for a probe.
pub(crate) const SEARCHED: usize = 300;
/// So many runs are read at most.
const LOOK_BACK: usize = 30;

/// Predictions use an earlier run only if it is not older than this.
const RECENT: Duration = Duration::from_secs(3600);

/// A run of this user: its id, which begins with its time, and its file.
struct Entry {
    id: String,
    path: PathBuf,
}

impl Entry {
    /// When the run began, to the second. If several began in the same second, the one written last is the
    /// latest.
    fn age(&self) -> (String, Option<SystemTime>) {
        let began = self.id.split('-').next().unwrap_or_default().to_owned();
        let written = fs::metadata(&self.path).and_then(|file| file.modified());
        (began, written.ok())
    }
}

/// The files of all runs, the latest first. A file that had several runs is there once, with the latest.
pub(crate) fn all() -> Vec<PathBuf> {
    let Ok(folder) = folder() else {
        return Vec::new();
    };
    let mut entries = in_folder(&folder);
    entries.sort_by_cached_key(|entry| Reverse(entry.age()));
    let mut seen = HashSet::new();
    entries.retain(|entry| seen.insert(entry.path.clone()));
    entries.into_iter().map(|entry| entry.path).collect()
}

/// `$XDG_STATE_HOME/costof/runs`, else `~/.local/state/costof/runs`.
pub(crate) fn folder() -> Result<PathBuf> {
    let state = match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(state), _) if Path::new(&state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) if Path::new(&home).is_absolute() => Path::new(&home).join(".local/state"),
        _ => bail!(
            "HOME is not set to an absolute path, so the run has no place: name a file with --out"
        ),
    };
    Ok(state.join("costof/runs"))
}

fn in_folder(folder: &Path) -> Vec<Entry> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        // To open a pipe could take for ever.
        .filter(|path| path.is_file())
        .filter_map(|path| {
            let id = path.file_stem()?.to_string_lossy().into_owned();
            // Where the run is, if this is a link to it.
            Some(Entry { id, path: path.canonicalize().ok()? })
        })
        .collect()
}

/// The file of the run that a command line names: `@1` is the latest run, `@2` the one before; anything else
/// is a path.
pub(crate) fn resolve(name: PathBuf) -> Result<PathBuf> {
    let number = name.to_str().and_then(|text| text.strip_prefix('@'));
    let Some(number) = number.and_then(|number| number.parse::<usize>().ok()) else {
        return Ok(name);
    };
    let runs = all();
    let count = runs.len();
    let run = number.checked_sub(1).and_then(|position| runs.into_iter().nth(position));
    run.ok_or_else(|| match count {
        0 => wrong("there is no run in the history: `costof run` makes one, or name a run file"),
        1 => wrong(format!("there is no run @{number}: @1 is the only one")),
        _ => wrong(format!(
            "there is no run @{number}: @1 is the latest, @{count} the oldest (`costof runs` lists them)"
        )),
    })
}

/// The latest run.
pub(crate) fn latest() -> Result<PathBuf> {
    resolve("@1".into())
}

/// The latest run, and the run before it to compare it with.
pub(crate) struct LastTwo {
    /// The earlier run, and the latest.
    pub(crate) files: [PathBuf; 2],
    /// The number of the earlier run.
    pub(crate) number: usize,
    /// How many points both have, and how many the latest has.
    pub(crate) common: [usize; 2],
}

/// The latest run, and of the recent ones before it the one that has most points in common with it; of
/// several, the newest.
pub(crate) fn last_two(table: Table) -> Result<LastTwo> {
    let runs: Vec<PathBuf> = all().into_iter().take(LOOK_BACK).collect();
    let planned = |path: &PathBuf| -> Result<HashSet<Point>> {
        let (run, _) = record::head(path, table)?;
        Ok(run.run.plan.points().cloned().collect())
    };
    let points = runs.first().map(planned).transpose()?.unwrap_or_default();
    let common = |path| planned(path).map_or(0, |other| other.intersection(&points).count());
    let earlier = runs.iter().enumerate().skip(1).map(|(position, path)| (common(path), position));
    let most = earlier.max_by_key(|(common, position)| (*common, Reverse(*position)));
    let Some((common @ 1.., position)) = most else {
        bail!(
            "no recent run in the history has a point in common with the latest one: name BEFORE and \
             AFTER, two run files (`costof runs` lists them), or measure two hosts by --interleave \
             HOST HOST"
        );
    };
    Ok(LastTwo {
        files: [&runs[position], &runs[0]].map(PathBuf::clone),
        number: position + 1,
        common: [common, points.len()],
    })
}

/// The latest runs of those whose beginning is wanted, the latest first. Unreadable files are skipped.
fn recent(table: Table, is_wanted: impl Fn(&Run) -> bool) -> impl Iterator<Item = (PathBuf, Run)> {
    let paths = all().into_iter().take(SEARCHED);
    let has_wanted =
        move |path: &PathBuf| record::head(path, table).map_or(true, |(run, _)| is_wanted(&run));
    let paths = paths.filter(has_wanted).take(LOOK_BACK);
    paths.filter_map(move |path| record::read(&path, table).ok().map(|run| (path, run)))
}

/// The run to explain a probe's numbers by: that in which the smallest share of its rows is unsound; of several,
/// the latest. `None` if there is none.
pub(crate) fn best_with(table: Table, probe: &str) -> Option<(PathBuf, Run)> {
    let unsound = |run: &Run| {
        let rows = run.points.iter().filter(|row| row.point.probe == probe);
        let (sound, unsound): (Vec<_>, Vec<_>) = rows.partition(|row| row.is_sound());
        let all = sound.len() + unsound.len();
        (all > 0).then(|| 1000 * unsound.len() / all)
    };
    let runs = recent(table, |run| run.run.plan.points().any(|point| point.probe == probe));
    let counted = runs.filter_map(|(path, run)| Some((unsound(&run)?, path, run)));
    let best = counted.min_by_key(|(unsound, ..)| *unsound);
    best.map(|(_, path, run)| (path, run))
}

/// The latest runs of this machine that were to measure such points, with the names of their files, the latest
/// first.
pub(crate) fn of_this_machine(
    table: Table,
    is_wanted: impl Fn(&Point) -> bool,
) -> impl Iterator<Item = (String, Run)> {
    let runs = recent(table, move |run| {
        run.run.plan.hosts.on.is_none() && run.run.plan.points().any(&is_wanted)
    });
    runs.map(|(path, run)| (path.display().to_string(), run))
}

/// The rows of the latest runs of this machine, those to be trusted most first; of equal ones, the newest.
pub(crate) fn best_rows(table: Table) -> Vec<PointRow> {
    let mut rows: Vec<PointRow> =
        of_this_machine(table, |_| true).flat_map(|(_, run)| run.points).collect();
    rows.sort_by_key(PointRow::distrust);
    rows
}

/// Whether a run began within the last hour.
pub(crate) fn is_recent(run: &Run) -> bool {
    let began = humantime::parse_rfc3339(&run.run.started).ok();
    let age = began.and_then(|began| began.elapsed().ok());
    age.is_some_and(|age| age < RECENT)
}

/// The reliable results of these points in runs of the last hour on this machine since it booted: of each, that
/// of the best grade; of several, the newest.
pub(crate) fn of_boot(table: Table, boot: &str, points: &[Point]) -> Vec<Earlier> {
    let runs = of_this_machine(table, |point| points.contains(point)).map(|(_, run)| run);
    let runs = runs.take_while(is_recent).filter(|run| {
        let attempt = run.attempts.last();
        run.run.plan.hosts.peer.is_none()
            && run.run.plan.hosts.to.is_none()
            && attempt.is_some_and(|attempt| attempt.boot.as_deref() == Some(boot))
    });
    let mut earlier: Vec<Earlier> = Vec::new();
    for Run { run, points: rows, .. } in runs {
        let rows = rows.into_iter();
        let good = rows.filter(|row| row.is_sound() && points.contains(&row.point));
        earlier.extend(good.map(|row| Earlier { run: run.id.clone(), row }));
    }
    earlier.sort_by_key(|known| known.row.distrust());
    let mut known: HashSet<Point> = HashSet::new();
    earlier.retain(|earlier| known.insert(earlier.row.point.clone()));
    earlier
}

/// The rows of these points in the latest runs of this build on this machine since it booted.
pub(crate) fn rows_of_boot(
    table: Table,
    boot: &str,
    build: &str,
    points: &[Point],
) -> Vec<PointRow> {
    let is_same = |path: &PathBuf| {
        let head = record::head(path, table).ok();
        head.is_some_and(|(head, _)| {
            let attempt = head.attempts.last();
            head.run.plan.hosts.is_here()
                && attempt
                    .is_some_and(|own| own.boot.as_deref() == Some(boot) && own.build == build)
        })
    };
    let paths = all().into_iter().take(LOOK_BACK).filter(is_same);
    let runs = paths.filter_map(|path| record::without_launches(&path, table).ok());
    let mut rows: Vec<PointRow> = runs.flat_map(|run| run.points).collect();
    rows.retain(|row| points.contains(&row.point));
    rows
}

/// Puts a link to a new run into the history, unless its file is there. Failures are ignored: a run that is missing from
/// the list is as good as any other.
pub(crate) fn remember(id: &str, path: &Path) {
    let _ = link_to(id, path);
}

fn link_to(id: &str, path: &Path) -> io::Result<()> {
    let Ok(folder) = folder() else { return Ok(()) };
    fs::create_dir_all(&folder)?;
    let path = path.canonicalize()?;
    if path.parent() == Some(&folder.canonicalize()?) {
        return Ok(());
    }
    let link = folder.join(format!("{id}.jsonl"));
    // The run may have been moved before it was resumed.
    if link.is_symlink() {
        fs::remove_file(&link)?;
    }
    symlink(path, link)
}

/// The path of a new run in the history.
pub(crate) fn new_file(id: &str) -> Result<PathBuf> {
    Ok(folder()?.join(format!("{id}.jsonl")))
}

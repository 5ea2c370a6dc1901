//! The runs of this user. The history is the folder of the runs without `--out`; it also keeps the paths of
//! the runs that `--out` put elsewhere. Commands name a run by its number: `@1` is the latest run, `@2` the
//! one before.

pub(crate) mod index;

use crate::error::{Error, bail, wrong};
use crate::record::{self, Table};
use costof_model::{Earlier, Point, PointRow, Run};
use index::{Entry, elsewhere, folder};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// At most this many runs are searched for one that has a probe.
pub(crate) const LOOK_BACK: usize = 30;

/// Predictions use an earlier run only if it is not older than this.
const RECENT: Duration = Duration::from_secs(3600);

impl Entry {
    /// When the run began, to the second. If several began in the same second, the one written last is the
    /// latest.
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
        // To open a pipe could take for ever.
        .filter(|path| path.is_file())
        .filter_map(|path| {
            let id = path.file_stem()?.to_string_lossy().into_owned();
            Some(Entry { id, path })
        })
        .collect()
}

/// The file of the run that a command line names: `@1` is the latest run, `@2` the one before; anything else
/// is a path.
pub(crate) fn resolve(name: PathBuf) -> Result<PathBuf, Error> {
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
pub(crate) fn latest() -> Result<PathBuf, Error> {
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
pub(crate) fn last_two(table: Table<'_>) -> Result<LastTwo, Error> {
    let runs: Vec<PathBuf> = all().into_iter().take(LOOK_BACK).collect();
    let planned = |path: &PathBuf| -> Result<HashSet<Point>, Error> {
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

/// The latest runs that were to measure such points, the latest first. Unreadable files are skipped.
fn recent<'t>(
    table: Table<'t>,
    is_wanted: impl Fn(&Point) -> bool + 't,
) -> impl Iterator<Item = (PathBuf, Run)> + 't {
    let paths = all().into_iter().take(LOOK_BACK);
    let has_wanted = move |path: &PathBuf| {
        let head = record::head(path, table);
        head.map_or(true, |(run, _)| run.run.plan.points().any(&is_wanted))
    };
    let paths = paths.filter(has_wanted);
    paths.filter_map(move |path| record::read(&path, table).ok().map(|run| (path, run)))
}

/// The run to explain a probe's numbers by: that in which the smallest share of its rows is unsound; of several,
/// the latest. `None` if there is none.
pub(crate) fn best_with(table: Table<'_>, probe: &str) -> Option<(PathBuf, Run)> {
    let unsound = |run: &Run| {
        let rows = run.points.iter().filter(|row| row.point.probe == probe);
        let (sound, unsound): (Vec<_>, Vec<_>) = rows.partition(|row| row.is_sound());
        let all = sound.len() + unsound.len();
        (all > 0).then(|| 1000 * unsound.len() / all)
    };
    let runs = recent(table, |point| point.probe == probe);
    let counted = runs.filter_map(|(path, run)| Some((unsound(&run)?, path, run)));
    let best = counted.min_by_key(|(unsound, ..)| *unsound);
    best.map(|(_, path, run)| (path, run))
}

/// The latest runs of this machine that were to measure such points, with the names of their files, the latest
/// first.
pub(crate) fn of_this_machine<'t>(
    table: Table<'t>,
    is_wanted: impl Fn(&Point) -> bool + 't,
) -> impl Iterator<Item = (String, Run)> + 't {
    let runs = recent(table, is_wanted).filter(|(_, run)| run.run.plan.hosts.on.is_none());
    runs.map(|(path, run)| (path.display().to_string(), run))
}

/// The rows of the latest runs of this machine, those to be trusted most first; of equal ones, the newest.
pub(crate) fn best_rows(table: Table<'_>) -> Vec<PointRow> {
    let mut rows: Vec<PointRow> =
        of_this_machine(table, |_| true).flat_map(|(_, run)| run.points).collect();
    rows.sort_by_key(PointRow::distrust);
    rows
}

/// The reliable results of these points in runs of the last hour on this machine since it booted: of each, that
/// of the best grade; of several, the newest.
pub(crate) fn of_boot(table: Table<'_>, boot: &str, points: &[Point]) -> Vec<Earlier> {
    let is_recent = |run: &Run| {
        let began = humantime::parse_rfc3339(&run.run.started).ok();
        let age = began.and_then(|began| began.elapsed().ok());
        age.is_some_and(|age| age < RECENT)
    };
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
    table: Table<'_>,
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

/// The path of a new run in the history.
pub(crate) fn new_file(id: &str) -> Result<PathBuf, Error> {
    Ok(folder()?.join(format!("{id}.jsonl")))
}

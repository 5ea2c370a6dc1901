//! The run file on disk: append-only, one `write` a line, locked while written. And the history, the
//! folder of the runs that were not given a file.

use crate::error::{Context, Error, bail, wrong};
use crate::terminal::log;
use costof_measure::estimate;
use costof_measure::probe::Probe;
use costof_model::rows::{EndRow, Row, RunRow};
use costof_model::run_file::{self, Run};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A run, and its file that is being written.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    pub(crate) run: Run,
}

impl Record {
    /// A new run file at `path`, with what was asked and the probes that it asks.
    pub(crate) fn create(
        path: &Path,
        first: RunRow,
        table: &[&'static Probe],
    ) -> Result<Record, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| {
                wrong(format!(
                    "cannot make the folder {}: {error} (name another place by --out)",
                    folder.display()
                ))
            })?;
        }
        let mut options = OpenOptions::new();
        let file = options.append(true).create_new(true).open(path);
        let file = file.map_err(|error| {
            let way_out = if path.is_file() {
                "name another by --out, or go on with it by --resume"
            } else {
                "name a file that does not exist yet by --out"
            };
            wrong(format!(
                "cannot create {}: {error} ({way_out})",
                path.display()
            ))
        })?;
        lock(&file, path)?;
        let mut record = Record {
            file,
            path: path.to_owned(),
            run: Run::new(first.clone()),
        };
        record.append(&Row::Run(Box::new(first)))?;
        for probe in table {
            let id = &probe.info.id;
            let is_planned = record.run.run.plan.points().any(|point| point.probe == *id);
            if is_planned {
                record.write(Row::Probe(Box::new((*probe.info).clone())))?;
            }
        }
        Ok(record)
    }

    /// The run in the file at `path`, to go on with, without its torn last line.
    pub(crate) fn reopen(path: &Path) -> Result<Record, Error> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).open(path);
        let file = file.context(format_args!("cannot open {shown}"))?;
        lock(&file, path)?;
        let run = run_file::read(BufReader::new(&file)).context(shown)?;
        file.set_len(run.whole_bytes)
            .context(format_args!("cannot cut {}", path.display()))?;
        let path = path.to_owned();
        Ok(Record { file, path, run })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a row to the run and its file.
    pub(crate) fn write(&mut self, row: Row) -> Result<(), Error> {
        self.append(&row)?;
        self.run.add(row);
        Ok(())
    }

    /// Writes down that the run is complete.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.write(Row::End(EndRow {
            finished: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            points: self.run.points.len() as u64,
            failures: self.run.failures.len() as u64,
        }))
    }

    /// Appends a row, in one `write`.
    fn append(&mut self, row: &Row) -> Result<(), Error> {
        self.file.write_all(&run_file::line(row)).map_err(|error| {
            wrong(format!(
                "cannot write to {}: {error} (what was written before is kept; go on by --resume)",
                self.path.display()
            ))
        })
    }
}

fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => bail!(
            "{} is being written by another costof: wait until it has ended",
            path.display()
        ),
        Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", path.display()),
    }
}

/// Reads the run in the file at `path`; of an interrupted one also what its launches say so far.
pub(crate) fn read(path: &Path) -> Result<Run, Error> {
    let mut run = run_file::read(open(path)?).context(path.display())?;
    estimate::add_so_far(&mut run);
    Ok(run)
}

/// So much of a run file is read to be shown. A complete run of every probe has a tenth of it.
const SHOWN_MAX_BYTES: u64 = 512 << 20;

/// Reads the run in the file at `path` as far as that is safe, and says why no further, to the user too.
pub(crate) fn read_to_show(path: &Path) -> Result<(Run, Option<String>), Error> {
    let read = run_file::read_up_to(open(path)?, SHOWN_MAX_BYTES);
    let (mut run, why) = read.context(path.display())?;
    let bytes = run.whole_bytes;
    let why = why.map(|why| format!("The run file was read up to byte {bytes} only: {why}"));
    if let Some(why) = &why {
        log(format_args!("{}: {why}", path.display()));
    }
    estimate::add_so_far(&mut run);
    Ok((run, why))
}

fn open(path: &Path) -> Result<BufReader<File>, Error> {
    let file = File::open(path).context(format_args!("cannot open {}", path.display()))?;
    Ok(BufReader::new(file))
}

/// The runs of the history, the latest first: their names begin with their time.
fn history() -> Vec<PathBuf> {
    let files = history_folder()
        .ok()
        .and_then(|path| fs::read_dir(path).ok());
    let paths = files.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = paths.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    paths.sort_unstable_by(|one, other| other.cmp(one));
    paths
}

/// The file that was named, else the latest run of the history.
pub(crate) fn named_or_latest(file: Option<&Path>) -> Result<PathBuf, Error> {
    let file = file.map(Path::to_owned).or_else(latest);
    file.ok_or_else(|| {
        wrong("there is no run in the history: `costof run` makes one, or name a run file")
    })
}

/// The latest run of the history; `None` where there is none.
pub(crate) fn latest() -> Option<PathBuf> {
    history().into_iter().next()
}

/// The latest runs of the history, the latest first. Files that cannot be read are passed over.
fn recent() -> impl Iterator<Item = (PathBuf, Run)> {
    let paths = history().into_iter().take(LOOK_BACK);
    paths.filter_map(|path| read(&path).ok().map(|run| (path, run)))
}

/// The latest run of the history that has a number of this probe; `None` where there is none.
pub(crate) fn latest_with(probe: &str) -> Option<(PathBuf, Run)> {
    recent().find(|(_, run)| run.points.iter().any(|row| row.point.probe == probe))
}

/// The latest runs of this machine in the history, with the names of their files, the latest first.
pub(crate) fn of_this_machine() -> impl Iterator<Item = (String, Run)> {
    let runs = recent().filter(|(_, run)| run.run.plan.hosts.on.is_none());
    runs.map(|(path, run)| (path.display().to_string(), run))
}

/// How many runs of the history are searched for one that has a probe.
pub(crate) const LOOK_BACK: usize = 30;

/// The file of a new run of the history.
pub(crate) fn history_path(id: &str) -> Result<PathBuf, Error> {
    Ok(history_folder()?.join(format!("{id}.jsonl")))
}

/// `$XDG_STATE_HOME/costof/runs`, else `~/.local/state/costof/runs`.
fn history_folder() -> Result<PathBuf, Error> {
    let state = match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(state), _) if Path::new(&state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) => Path::new(&home).join(".local/state"),
        _ => bail!("there is no HOME to keep the run in: name a file by --out"),
    };
    Ok(state.join("costof/runs"))
}

//! The run file on disk: append-only, one `write` a line, locked while written.

use crate::error::{Error, wrong};
use costof_measure::estimate;
use costof_model::rows::Row;
use costof_model::run_file::{self, Run};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// A run file that is being written.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
}

impl Record {
    /// A new run file at `path`.
    pub(crate) fn create(path: &Path) -> Result<Record, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| {
                wrong(format!(
                    "cannot make the folder {}: {error} (name another place by --out)",
                    folder.display()
                ))
            })?;
        }
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|error| {
                let way_out = if path.is_file() {
                    " (name another by --out, or go on with it by --resume)"
                } else {
                    " (name a file that does not exist yet by --out)"
                };
                wrong(format!(
                    "cannot create {}: {error}{way_out}",
                    path.display()
                ))
            })?;
        lock(&file, path)?;
        Ok(Record {
            file,
            path: path.to_owned(),
        })
    }

    /// The run in the file at `path`, and the file without its torn last line,
    /// to go on with.
    pub(crate) fn reopen(path: &Path) -> Result<(Record, Run), Error> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(|error| wrong(format!("cannot open {}: {error}", path.display())))?;
        lock(&file, path)?;
        let run = run_file::read(BufReader::new(&file))
            .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        file.set_len(run.whole_bytes)
            .map_err(|error| wrong(format!("cannot cut {}: {error}", path.display())))?;
        let path = path.to_owned();
        Ok((Record { file, path }, run))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a row of this run, which knows it from then on.
    pub(crate) fn write(&mut self, run: &mut Run, row: Row) -> Result<(), Error> {
        self.append(&row)?;
        run.add(row);
        Ok(())
    }

    /// Appends a row, in one `write`.
    pub(crate) fn append(&mut self, row: &Row) -> Result<(), Error> {
        self.file.write_all(&run_file::line(row)).map_err(|error| {
            wrong(format!(
                "cannot write to {}: {error} (what was written before is kept; go on by --resume)",
                self.path.display()
            ))
        })
    }
}

/// Reads the run in the file at `path`; of an interrupted one also what its launches say so far.
pub(crate) fn read(path: &Path) -> Result<Run, Error> {
    let file = File::open(path)
        .map_err(|error| wrong(format!("cannot open {}: {error}", path.display())))?;
    let mut run = run_file::read(BufReader::new(file))
        .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    estimate::add_so_far(&mut run);
    Ok(run)
}

/// So much of a run file is read to be shown. A complete run of every probe has a tenth of it.
const SHOWN_MAX_BYTES: u64 = 512 << 20;

/// Reads the run in the file at `path` as far as that is safe, and says why no further.
pub(crate) fn read_to_show(path: &Path) -> Result<(Run, Option<String>), Error> {
    let file = File::open(path)
        .map_err(|error| wrong(format!("cannot open {}: {error}", path.display())))?;
    let (mut run, why) = run_file::read_up_to(BufReader::new(file), SHOWN_MAX_BYTES)
        .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    let why = why.map(|why| {
        format!(
            "The run file was read up to byte {} only: {why}",
            run.whole_bytes
        )
    });
    estimate::add_so_far(&mut run);
    Ok((run, why))
}

/// The latest run of the history; `None` where there is none.
pub(crate) fn latest() -> Option<PathBuf> {
    let files = fs::read_dir(history().ok()?).ok()?;
    // Their names begin with the time of the run.
    let paths = files.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .max()
}

fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(wrong(format!(
            "{} is being written by another costof: wait until it has ended",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => {
            Err(wrong(format!("cannot lock {}: {error}", path.display())))
        }
    }
}

/// The latest run of the history that has a number of this probe; `None` where
/// there is none. Files that cannot be read are passed over.
pub(crate) fn latest_of(probe: &str) -> Option<(PathBuf, Run)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(history().ok()?)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    // Their names begin with the time of the run.
    paths.sort_unstable();
    paths.into_iter().rev().take(LOOK_BACK).find_map(|path| {
        let run = read(&path).ok()?;
        let measured = run.points.iter().any(|row| row.point.probe == probe);
        measured.then_some((path, run))
    })
}

/// How many runs of the history are looked at for one that has a probe.
pub(crate) const LOOK_BACK: usize = 30;

/// The history: `$XDG_STATE_HOME/costof/runs`, else `~/.local/state/costof/runs`.
pub(crate) fn history() -> Result<PathBuf, Error> {
    let state = match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(state), _) if Path::new(&state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) => Path::new(&home).join(".local/state"),
        _ => {
            return Err(wrong(
                "there is no HOME to keep the run in: name a file by --out",
            ));
        }
    };
    Ok(state.join("costof/runs"))
}

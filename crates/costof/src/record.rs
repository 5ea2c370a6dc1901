//! The run file on disk: append-only, one `write` for each line, locked while costof writes it, and synchronized
//! with the disk when it begins and at the end of each block. At its end it is compared with what was written.

mod check;

use crate::error::{Context, Error, Result, bail, wrong};
use crate::files;
use crate::terminal::log;
use check::Checksum;
use costof_measure::estimate;
use costof_measure::probe::Probe;
use costof_model::rows::Row;
use costof_model::run_file::{self, RunFileError};
use costof_model::{EndRow, LaunchRow, Names, Run, RunRow};
use costof_os::process::NO_WAIT;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::num::NonZero;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The probes that this costof measures, and by whose names runs are read.
pub(crate) type Table = &'static [&'static Probe];

/// A run, and the file to which it is written.
pub(crate) struct Record {
    file: File,
    path: PathBuf,
    pub(crate) run: Run,
    /// By block, the positions of its launches in the run.
    of_block: HashMap<usize, Vec<usize>>,
    /// Whether each launch is to outlast a power failure, not only each block.
    pub(crate) sync_launches: bool,
    /// What the file holds, unless others write to it.
    content: Checksum,
}

/// The date of a time as a run file has it, in seconds. The format has the years 1970 to 9999; a clock may say any
/// other, and gets the nearest date, which is reported.
pub(crate) fn date(time: SystemTime) -> String {
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let dated = time.clamp(UNIX_EPOCH, last + Duration::from_secs(1));
    let date = humantime::format_rfc3339_seconds(dated.min(last)).to_string();
    if dated != time {
        log(format_args!(
            "the clock of this machine is outside the years 1970 to 9999, so {date} is noted (set the clock)"
        ));
    }
    date
}

/// The id of a run of this date: ids sort by time, to the second, and a random number makes them unique.
pub(crate) fn new_id(date: &str) -> String {
    let time = date.replace(|c: char| !c.is_ascii_alphanumeric(), "");
    format!("{time}-{:08x}", fastrand::u32(..))
}

impl Record {
    /// Creates a run file at `path`, with the request and the descriptions of its probes.
    pub(crate) fn create(path: &Path, first: RunRow, table: Table) -> Result<Record> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| {
                wrong(format!(
                    "cannot make the folder {}: {error} (name another place with --out)",
                    folder.display()
                ))
            })?;
        }
        let mut options = OpenOptions::new();
        let hosts = &first.plan.hosts;
        let mut commands = hosts.on.iter().chain(&hosts.peer);
        // A command of the user may contain what others must not read.
        if commands.any(|host| host.starts_with("exec:")) {
            options.mode(0o600);
        }
        let file = options.read(true).append(true).create_new(true).open(path);
        let file = file.map_err(|error| {
            let way_out = if path.is_file() {
                "name another with --out, or continue it with --resume"
            } else {
                "with --out, name a file that does not exist yet"
            };
            wrong(format!("cannot create {}: {error} ({way_out})", path.display()))
        })?;
        lock(&file, path)?;
        let mut record = Record {
            file,
            path: path.to_owned(),
            run: Run::new(first.clone()),
            of_block: HashMap::new(),
            sync_launches: false,
            content: Checksum::NOTHING,
        };
        record.append(&Row::Run(Box::new(first)))?;
        record.describe(table)?;
        record.sync()?;
        files::sync_name(path);
        Ok(record)
    }

    /// Opens the run file at `path` to continue it, without its incomplete last line.
    pub(crate) fn reopen(path: &Path, table: Table) -> Result<Record> {
        let shown = path.display();
        let mut options = OpenOptions::new();
        // To open a pipe could take for ever.
        let file = options.read(true).append(true).custom_flags(NO_WAIT);
        let file = file.open(path).map_err(|error| cannot_open(path, &error))?;
        if !file.metadata().context(&shown)?.is_file() {
            bail!("{shown} is not a file on a disk, so no run can be continued in it");
        }
        lock(&file, path)?;
        let read = run_file::read_up_to(BufReader::new(&file), u64::MAX);
        let mut run = up_to_zeros(path, read.context(&shown)?)?;
        apply_names(&mut run, table);
        // Else what is written from now on could reach the disk, and the cut not.
        let cut = file.set_len(run.whole_bytes);
        cut.and_then(|()| end_last_line(&file, run.whole_bytes))
            .and_then(|()| file.sync_all())
            .context(format_args!("cannot cut {}", path.display()))?;
        let content = Checksum::of_file(&file).context(format_args!("cannot read {shown}"))?;
        let path = path.to_owned();
        let of_block = HashMap::new();
        let mut record = Record { file, path, run, of_block, sync_launches: false, content };
        (0..record.run.launches.len()).for_each(|position| record.note_launch(position));
        Ok(record)
    }

    /// Describes the probes of the plan that are not described yet: whoever began the run may have been killed
    /// before it did.
    pub(crate) fn describe(&mut self, table: Table) -> Result<()> {
        for probe in table {
            let id = &probe.info.id;
            let is_planned = self.run.run.plan.points().any(|point| point.probe == *id);
            if is_planned && self.run.probe(id).is_none() {
                self.write(Row::Probe(Box::new((*probe.info).clone())))?;
            }
        }
        Ok(())
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a row to the run and its file.
    pub(crate) fn write(&mut self, row: Row) -> Result<()> {
        self.append(&row)?;
        if self.sync_launches && matches!(row, Row::Launch(_)) {
            self.sync()?;
        }
        let launches = self.run.launches.len();
        self.run.add(row);
        (launches..self.run.launches.len()).for_each(|position| self.note_launch(position));
        Ok(())
    }

    fn note_launch(&mut self, position: usize) {
        let block = self.run.launches[position].block;
        self.of_block.entry(block).or_default().push(position);
    }

    /// The launches of a block so far.
    pub(crate) fn launches_of(&self, block: usize) -> impl Iterator<Item = &LaunchRow> {
        let positions = self.of_block.get(&block).into_iter().flatten();
        positions.map(|position| &self.run.launches[*position])
    }

    /// Writes that the run is complete, and checks its file.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.write(Row::End(EndRow {
            finished: date(SystemTime::now()),
            points: self.run.points.len() as u64,
            failures: self.run.failures.len() as u64,
        }))?;
        self.close()
    }

    /// Waits until the disk has what was written, so that it outlasts a power failure.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.not_written(&error))
    }

    /// Appends a row with one `write`.
    fn append(&mut self, row: &Row) -> Result<()> {
        let line = run_file::line(row);
        self.content.add(&line);
        let written = self.file.write_all(&line);
        written.map_err(|error| self.not_written(&error))
    }

    fn not_written(&self, error: &io::Error) -> Error {
        wrong(format!(
            "cannot write to {}: {error} (what was written before is kept; continue with --resume)",
            self.path.display()
        ))
    }
}

/// Ends the last line of a file of this length, should an editor have left out its line feed.
fn end_last_line(mut file: &File, bytes: u64) -> io::Result<()> {
    let mut last = [b'\n'];
    file.read_exact_at(&mut last, bytes.saturating_sub(1))?;
    match last {
        [b'\n'] => Ok(()),
        _ => file.write_all(b"\n"),
    }
}

fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            bail!("{} is being written by another costof: wait until it has ended", path.display())
        }
        Err(TryLockError::Error(error)) => bail!("cannot lock {}: {error}", path.display()),
    }
}

/// Reads the run in the file at `path`, and reports if zeros end it. For an interrupted run, it also computes
/// results from the launches so far.
pub(crate) fn read(path: &Path, table: Table) -> Result<Run> {
    up_to_zeros(path, read_up_to(path, table, u64::MAX)?)
}

/// The run of a file that is read to its end, or to zeros, which are reported.
fn up_to_zeros(path: &Path, (run, why): (Run, Option<RunFileError>)) -> Result<Run> {
    match why {
        Some(error) if !matches!(error, RunFileError::Zeros) => Err(error).context(path.display()),
        why => {
            why.map(|why| report_early(path, &run, &why));
            Ok(run)
        }
    }
}

fn read_up_to(path: &Path, table: Table, most_bytes: u64) -> Result<(Run, Option<RunFileError>)> {
    let read = run_file::read_up_to(open(path)?, most_bytes);
    let (mut run, why) = read.context(path.display())?;
    apply_names(&mut run, table);
    estimate::add_so_far(&mut run);
    Ok((run, why))
}

/// Gives what a run measured the names by which this costof knows it, whichever version wrote the file.
fn apply_names(run: &mut Run, table: Table) {
    Names::new(table.iter().map(|probe| &*probe.info)).apply(run);
}

/// Reports why a file was not read to its end.
fn report_early(path: &Path, run: &Run, why: &RunFileError) -> String {
    let bytes = run.whole_bytes;
    let why = format!("The run file was read up to byte {bytes} only: {why}");
    log(format_args!("{}: {why}", path.display()));
    why
}

/// The runs of these files, and those of folders whose name ends in .jsonl, in the order of their names, without
/// the launches of those that ended: most of a file, and not needed to compare many. A file of a folder that is no
/// run is reported and left out.
pub(crate) fn many(given: &[PathBuf], table: Table) -> Result<(Vec<PathBuf>, Vec<Run>)> {
    let files = files(given)?;
    let runs = each_once(read_all(&files, given, table)?);
    Ok((files, runs))
}

/// These files, and those of the folders among them whose name ends in .jsonl, in the order of their names.
pub(crate) fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            files.extend(run_files(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// The file that is meant where one run is asked for: of a folder, its only one.
pub(crate) fn file(given: PathBuf) -> Result<PathBuf> {
    if !given.is_dir() {
        return Ok(given);
    }
    match run_files(&given)?.as_slice() {
        [only] => Ok(only.clone()),
        several => bail!(
            "{} has {} run files: name one of them, such as {}",
            given.display(),
            several.len(),
            several[several.len() - 1].display()
        ),
    }
}

/// The files of a folder whose name ends in .jsonl, in the order of their names.
fn run_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files_ending(folder, "jsonl", "run file")
}

/// The files of a folder whose name has this ending, in the order of their names.
///
/// # Errors
/// There is no such file, which `what` calls them.
pub(crate) fn files_ending(folder: &Path, ending: &str, what: &str) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)
        .context(folder.display())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .context(folder.display())?;
    // To open a pipe could take for ever.
    let is_other = |file: &PathBuf| fs::metadata(file).is_ok_and(|data| !data.is_file());
    entries.retain(|file| file.extension().is_some_and(|end| end == ending) && !is_other(file));
    if entries.is_empty() {
        bail!("{} has no {what} (NAME.{ending})", folder.display());
    }
    entries.sort();
    Ok(entries)
}

/// The runs of these files, each once: a run that is also in another file would count as a second measurement of its
/// host.
fn each_once(runs: Vec<(&PathBuf, Run)>) -> Vec<Run> {
    let mut seen = HashSet::new();
    let runs = runs.into_iter().filter(|(file, run)| {
        let (id, started) = (run.run.id.clone(), run.run.started.clone());
        let is_new = seen.insert((id, started, run.host_name()));
        if !is_new {
            log(format_args!("left out: {} has the same run as another file", file.display()));
        }
        is_new
    });
    runs.map(|(_, run)| run).collect()
}

/// Those of these files that are runs, and the runs without their launches; the others are reported.
pub(crate) fn read_all<'f>(
    files: &'f [PathBuf],
    named: &[PathBuf],
    table: Table,
) -> Result<Vec<(&'f PathBuf, Run)>> {
    let mut runs = Vec::new();
    for (file, run) in files.iter().zip(read_on_all_cpus(files, table)) {
        match run {
            Ok(run) => runs.push((file, run)),
            Err(error) if named.contains(file) => return Err(error),
            Err(error) => log(format_args!("left out: {error}")),
        }
    }
    Ok(runs)
}

/// What [`without_launches`] returns for each file.
fn read_on_all_cpus(files: &[PathBuf], table: Table) -> Vec<Result<Run>> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let in_turn = |files: &[PathBuf]| -> Vec<Result<Run>> {
        files.iter().map(|file| without_launches(file, table)).collect()
    };
    thread::scope(|scope| {
        let parts: Vec<_> = files
            .chunks(files.len().div_ceil(cpus).max(1))
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, move || in_turn(part))))
            .collect();
        let read = parts.into_iter().flat_map(|(part, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // A thread could not be started.
            Err(_) => in_turn(part),
        });
        read.collect()
    })
}

/// The run in a file without its launches, if it ended: results that are missing come from them.
pub(crate) fn without_launches(path: &Path, table: Table) -> Result<Run> {
    let mut run = run_file::read_without_launches(open(path)?).context(path.display())?;
    if run.end.is_none() {
        return read(path, table);
    }
    apply_names(&mut run, table);
    Ok(run)
}

/// At most this much of a run file is read to show it. A complete run of every probe has a tenth of it.
const SHOWN_MAX_BYTES: u64 = 512 << 20;

/// Reads the run in the file at `path` as far as that is safe. If it stops early, it returns the reason and
/// reports it.
pub(crate) fn read_to_show(path: &Path, table: Table) -> Result<(Run, Option<String>)> {
    let (run, why) = read_up_to(path, table, SHOWN_MAX_BYTES)?;
    let why = why.map(|why| report_early(path, &run, &why));
    Ok((run, why))
}

/// At most this much of a run file is read to find out what was requested; its first rows say so.
const HEAD_BYTES: u64 = 1 << 20;
/// The last row is shorter than this.
const END_BYTES: i64 = 1024;

/// The first rows of the run in the file at `path`, with its request and machines, and whether the run ended,
/// which its last row says. The file may be large, so most of it is skipped.
pub(crate) fn head(path: &Path, table: Table) -> Result<(Run, bool)> {
    let mut file = open(path)?.into_inner();
    let (mut run, _) = run_file::read_up_to(BufReader::new((&file).take(HEAD_BYTES)), HEAD_BYTES)
        .context(path.display())?;
    apply_names(&mut run, table);
    let mut end = Vec::new();
    let read = file.seek(SeekFrom::End(-END_BYTES)).and_then(|_| file.read_to_end(&mut end));
    let rows = end.trim_ascii_end().rsplit(|byte| *byte == b'\n');
    let is_end = |row: &[u8]| row.starts_with(br#"{"type":"end""#);
    let is_complete = read.is_ok() && rows.take(1).any(is_end);
    Ok((run, is_complete))
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|error| cannot_open(path, &error))?;
    Ok(BufReader::new(file))
}

fn cannot_open(path: &Path, error: &io::Error) -> Error {
    wrong(format_args!(
        "cannot open {}: {error} (`costof runs` lists the runs that there are)",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_of_a_clock_has_a_date() {
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(date(UNIX_EPOCH + day), "1970-01-02T00:00:00Z");
        for (time, shown) in [
            (UNIX_EPOCH - day, "1970-01-01T00:00:00Z"),
            (UNIX_EPOCH + 365 * 8100 * day, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(date(time), shown);
            assert!(humantime::parse_rfc3339(shown).is_ok());
        }
    }
}

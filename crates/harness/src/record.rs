//! Where results are kept: run files of costof, below the project's target folder.

use crate::worker::described;
use costof_model::protocol::Description;
use costof_model::rows::{AttemptRow, Row, SCHEMA};
use costof_model::run_file;
use costof_model::{Block, Plan, Run, RunRow};
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How many runs of a program are kept.
const KEPT: usize = 20;

/// A run and its file, in which each row is written when it is known.
pub(crate) struct Record {
    pub(crate) run: Run,
    pub(crate) path: PathBuf,
    file: File,
    /// The first error of a write: what was measured stays in memory and is shown.
    pub(crate) error: Option<io::Error>,
}

impl Record {
    /// Begins a run of these benchmarks in this folder. `beside` is the id of the run that takes turns with it.
    pub(crate) fn create(
        folder: &Path,
        row: RunRow,
        description: &Description,
        names: &[&str],
    ) -> Result<Record, String> {
        let path = folder.join(format!("{}.jsonl", row.id));
        let created = fs::create_dir_all(folder).and_then(|()| File::create_new(&path));
        let file = created.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        let mut record = Record { run: Run::new(row.clone()), path, file, error: None };
        record.write(Row::Run(Box::new(row)));
        for name in names {
            record.write(Row::Probe(Box::new(described(name))));
        }
        record.write(Row::Attempt(Box::new(AttemptRow::new(description))));
        Ok(record)
    }

    /// Writes a row and adds it to the run.
    pub(crate) fn write(&mut self, row: Row) {
        if let Err(error) = self.file.write_all(&run_file::line(&row)) {
            self.error.get_or_insert(error);
        }
        self.run.add(row);
    }
}

/// The first row of a run of these benchmarks.
pub(crate) fn first_row(names: &[&str], seed: u64) -> RunRow {
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = started.replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let block = |name: &&str| Block {
        points: vec![crate::worker::recorded(name)],
        rounds: 1,
        ..Block::default()
    };
    RunRow {
        schema: SCHEMA,
        id: format!("{time}-{:08x}", fastrand::u32(..)),
        started,
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed,
        beside: None,
        guesses: Vec::new(),
        plan: Plan {
            precision: "default".into(),
            blocks: names.iter().map(block).collect(),
            ..Plan::default()
        },
    }
}

/// The folder of a program's runs, for each profile of cargo its own: `costof/release/PROGRAM` in cargo's target folder, which
/// this program's file lies in, or else in `target` here.
pub(crate) fn folder(program: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // `target/release/deps/PROGRAM-HASH`
    let built = own.ancestors().nth(2).unwrap_or(&own);
    // Cargo marks its target folder so.
    let target = built.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    let profile = target.and_then(|target| built.strip_prefix(target).ok());
    let runs = target.unwrap_or(Path::new("target")).join("costof");
    runs.join(profile.unwrap_or(Path::new(""))).join(program)
}

/// The run files of a folder, the newest first.
pub(crate) fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    // Names begin with the time.
    files.sort_unstable_by(|one, other| other.cmp(one));
    files
}

/// Removes all but the newest runs.
pub(crate) fn remove_old(folder: &Path) {
    for old in newest_first(folder).iter().skip(KEPT) {
        // One that stays is removed next time.
        let _ = fs::remove_file(old);
    }
}

/// Reads a run file.
pub(crate) fn read(path: &Path) -> Result<Run, String> {
    let opened =
        File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    run_file::read(BufReader::new(opened)).map_err(|error| format!("{}: {error}", path.display()))
}

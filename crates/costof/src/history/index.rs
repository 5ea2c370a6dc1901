//! Where runs are kept: the folder of the history, and in it the index of those that `--out` put elsewhere.

use crate::error::{Error, bail};
use costof_os::process::{NO_FOLLOW, NO_WAIT};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The index of the runs that `--out` put elsewhere: each line has an id, a blank and a path.
const INDEX: &str = "elsewhere";
/// At most this much of the index is read: a hundred thousand runs.
const INDEX_MAX_BYTES: u64 = 16 << 20;

/// A run of this user: its id, which begins with its time, and its file.
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

/// The runs of the index whose files still exist. A file that had several runs is there once, with the
/// latest.
pub(super) fn elsewhere(folder: &Path) -> Vec<Entry> {
    let mut index = Vec::new();
    let file = open_index(folder, OpenOptions::new().read(true));
    let _ = file.and_then(|file| file.take(INDEX_MAX_BYTES).read_to_end(&mut index));
    let index = String::from_utf8_lossy(&index);
    let lines = index.lines().rev().filter_map(|line| line.split_once(' '));
    let mut seen = HashSet::new();
    lines
        .filter(|(_, path)| seen.insert(*path) && Path::new(path).is_file())
        .map(|(id, path)| Entry { id: id.to_owned(), path: path.into() })
        .collect()
}

/// Adds the path of a new run to the index, unless its file is in the history. Failures are ignored: a run
/// that is missing from the list is as good as any other.
pub(crate) fn remember(id: &str, path: &Path) {
    let _ = add_to_index(id, path);
}

fn add_to_index(id: &str, path: &Path) -> io::Result<()> {
    let Ok(folder) = folder() else { return Ok(()) };
    let path = path.canonicalize()?;
    let is_in_history = folder.canonicalize().is_ok_and(|folder| path.parent() == Some(&folder));
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    let Some(text) = text.filter(|_| !is_in_history) else {
        return Ok(());
    };
    fs::create_dir_all(&folder)?;
    let mut index = open_index(&folder, OpenOptions::new().append(true).create(true))?;
    // A line before it may have lost its end to a full disk or a power failure.
    index.write_all(format!("\n{id} {text}\n").as_bytes())
}

/// Opens the index. Where others may write in its folder, they may have put a link to a file of this user there, or a
/// pipe.
fn open_index(folder: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(NO_FOLLOW | NO_WAIT);
    let index = options.open(folder.join(INDEX))?;
    let data = index.metadata()?;
    if data.is_file() && data.nlink() == 1 {
        return Ok(index);
    }
    Err(io::ErrorKind::Other.into())
}

/// `$XDG_STATE_HOME/costof/runs`, else `~/.local/state/costof/runs`.
pub(crate) fn folder() -> Result<PathBuf, Error> {
    let state = match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
        (Some(state), _) if Path::new(&state).is_absolute() => PathBuf::from(state),
        (_, Some(home)) => Path::new(&home).join(".local/state"),
        _ => bail!("HOME is not set, so the run has no place: name a file with --out"),
    };
    Ok(state.join("costof/runs"))
}

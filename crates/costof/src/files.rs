//! Writes files and folders for people: reports, plots, values.

use crate::error::{Context, Error, bail};
use crate::terminal::log;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether an output goes to standard output instead of a file: `-`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a command's text goes to standard output: not if one of these outputs is there.
///
/// # Errors
/// Two of them would be mixed there, or one with JSON.
pub(crate) fn leaves_standard_output(outputs: &[Option<&Path>], json: bool) -> Result<bool, Error> {
    let there = outputs
        .iter()
        .flatten()
        .filter(|path| is_standard_output(path));
    match there.count() + usize::from(json) {
        0 => Ok(true),
        1 => Ok(json),
        _ => {
            bail!("several outputs would be mixed on standard output: name a file for all but one")
        }
    }
}

/// Refuses `-` where a folder is meant, or where standard output has another text.
pub(crate) fn refuse_standard_output(path: Option<&Path>, needs: &str) -> Result<(), Error> {
    match path {
        Some(path) if is_standard_output(path) => {
            bail!("`-` is standard output, and {needs}")
        }
        _ => Ok(()),
    }
}

/// Writes a file, or to standard output if the path is `-`. What was there before stays whole until its replacement is, so that neither a full disk nor a
/// power failure destroys anything.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    if is_standard_output(path) {
        return Ok(io::stdout().lock().write_all(text.as_bytes())?);
    }
    replace(path, text).context(format_args!("cannot write {}", path.display()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // The target of a link, so that the link stays one.
    let path = resolved(path);
    let existing = fs::metadata(&path).ok();
    match &existing {
        // A terminal, a pipe, /dev/null: nothing is there to keep.
        Some(existing) if !existing.is_file() => return fs::write(&path, text),
        // Renaming would get around the right to write to it.
        Some(_) => drop(File::options().write(true).open(&path)?),
        None => {}
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let new = path.with_file_name(name);
    let mut file = match File::create_new(&new) {
        // A folder in which nothing can be created, with a file that can be written.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return fs::write(&path, text);
        }
        created => created?,
    };
    let allowed = existing.map_or(Ok(()), |data| file.set_permissions(data.permissions()));
    let written = allowed.and_then(|()| file.write_all(text.as_bytes()));
    // A disk may know the new name before the bytes: after a power failure the file would be empty.
    let written = written.and_then(|()| file.sync_all());
    let replaced = written.and_then(|()| fs::rename(&new, &path));
    match replaced {
        Ok(()) => sync_name(&path),
        Err(_) => drop(fs::remove_file(&new)),
    }
    replaced
}

/// Waits until the disk has the name of a file. Not all file systems can do that, which is no error.
pub(crate) fn sync_name(path: &Path) {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new(".")));
    let _ = folder.and_then(|folder| folder.sync_all());
}

/// Writes a page, and reports its path.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<(), Error> {
    write(path, page)?;
    report_path("the page is", path);
    Ok(())
}

/// Reports where an output is, unless it is what the user reads.
pub(crate) fn report_path(what: &str, path: &Path) {
    if !is_standard_output(path) {
        log(format_args!("{what} in {}", path.display()));
    }
}

pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).context(format_args!("cannot make the folder {}", path.display()))
}

/// Writes files with these names and texts into a folder, but never over the run that they show.
pub(crate) fn write_all(
    folder: &Path,
    files: &[(String, String)],
    run_file: &Path,
) -> Result<(), Error> {
    create_folder(folder)?;
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        check_spares(&path, run_file)?;
        write(&path, text)
    })
}

/// Checks that a report does not replace the run that it shows, under whatever name. An existing report may be
/// replaced.
pub(crate) fn check_spares(path: &Path, run_file: &Path) -> Result<(), Error> {
    if is_standard_output(path) {
        return Ok(());
    }
    let file = |path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let is_linked = file(path).is_some_and(|written| Some(written) == file(run_file));
    if is_linked || resolved(path) == resolved(run_file) {
        bail!(
            "{} is the run itself, or another output: name another file",
            path.display()
        );
    }
    Ok(())
}

/// The absolute path of a file, even if it does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize()
        .unwrap_or_else(|_| match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if folder == Path::new("") => {
                resolved(Path::new(".")).join(name)
            }
            (Some(folder), Some(name)) => resolved(folder).join(name),
            _ => path.to_owned(),
        })
}

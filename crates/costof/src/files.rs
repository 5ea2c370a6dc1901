//! Reads small files that a user names, and writes files and folders for people: reports, plots, values.

use crate::error::{Context, Result, bail};
use crate::terminal::{end_on_signals, log, output};
use costof_model::encoding;
use costof_model::harmless::BYTE_ORDER_MARK;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf, absolute};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether this is the path of a program, or the name of one in PATH.
pub(crate) fn is_program(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    name.contains('/') || std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

/// Reads a text of UTF-8 of at most this many bytes, without a byte order mark.
///
/// # Errors
/// It cannot be read, is longer, or is not UTF-8; the error does not name the file.
pub(crate) fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut bytes = Vec::new();
    File::open(path)?.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if let Some(encoding) = encoding::foreign(&bytes) {
        return Err(invalid(encoding));
    }
    if bytes.len() as u64 > most_bytes {
        let why = format!("it is longer than {most_bytes} bytes, the most that is read");
        return Err(invalid(why));
    }
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let text =
        str::from_utf8(text).map_err(|error| invalid(format!("it is not UTF-8: {error}")))?;
    Ok(text.to_owned())
}

/// Whether an output goes to standard output instead of a file: `-`.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Checks the outputs of a command before anything is written: each is in a folder that exists, is no folder itself, and
/// replaces neither another output nor what is read. Returns whether the command's text goes to standard output, as [`leaves_standard_output`].
pub(crate) fn check_outputs(
    outputs: &[Option<&Path>],
    json: bool,
    inputs: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Result<bool> {
    let has_text = leaves_standard_output(outputs, json)?;
    let inputs: Vec<_> = inputs.into_iter().collect();
    let outputs: Vec<&Path> = outputs.iter().copied().flatten().collect();
    let folder = |path: &Path| Some(absolute(path).ok()?.parent()?.to_owned());
    for (position, output) in outputs.iter().enumerate() {
        if output.is_dir() {
            bail!("{} is a folder: name a file", output.display());
        }
        outputs[..position].iter().try_for_each(|other| check_spares(output, other))?;
        inputs.iter().try_for_each(|input| check_spares(output, input.as_ref()))?;
        // A run that is to be measured makes its folder.
        let is_made = || inputs.iter().any(|input| folder(input.as_ref()) == folder(output));
        if folder(output).is_some_and(|folder| !folder.is_dir()) && !is_made() {
            bail!("{}: it is in no folder that exists", output.display());
        }
    }
    Ok(has_text)
}

/// Whether a command's text goes to standard output: not if one of these outputs is there.
pub(crate) fn leaves_standard_output(outputs: &[Option<&Path>], json: bool) -> Result<bool> {
    let there = outputs.iter().flatten().filter(|path| is_standard_output(path));
    match there.count() + usize::from(json) {
        0 => Ok(true),
        1 => Ok(json),
        _ => {
            bail!("several outputs would be mixed on standard output: name a file for all but one")
        }
    }
}

/// Refuses `-` where a folder is meant, or where standard output has another text.
pub(crate) fn refuse_standard_output(path: Option<&Path>, needs: &str) -> Result<()> {
    match path {
        Some(path) if is_standard_output(path) => {
            bail!("`-` is standard output, and {needs}")
        }
        _ => Ok(()),
    }
}

/// Writes a file, or to standard output if the path is `-`. What was there before stays whole until its replacement is, so that neither a full disk nor a
/// power failure destroys anything.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if is_standard_output(path) {
        return Ok(output().write_all(text.as_bytes())?);
    }
    replace(path, text).context(format_args!("cannot write {}", path.display()))
}

/// The file that [`replace`] has begun under a name of its own, which a signal removes.
pub(crate) fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
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
    // The name itself may be as long as names can be. Without an existing file, umask(1) decides who may read this one.
    let mut new = tempfile::Builder::new();
    new.prefix(".costof-").suffix(".tmp").permissions(fs::Permissions::from_mode(0o666));
    end_on_signals();
    // A signal waits until the name is noted.
    let mut noted = unfinished();
    let mut new = match new.tempfile_in(path.parent().unwrap_or(Path::new("/"))) {
        // A folder in which nothing can be created, with a file that can be written.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return fs::write(&path, text);
        }
        created => created?,
    };
    *noted = Some(new.path().to_owned());
    drop(noted);
    if let Some(existing) = existing {
        new.as_file().set_permissions(existing.permissions())?;
    }
    new.write_all(text.as_bytes())?;
    // A disk may know the new name before the bytes: after a power failure the file would be empty.
    new.as_file().sync_all()?;
    let mut noted = unfinished();
    new.persist(&path)?;
    *noted = None;
    drop(noted);
    sync_name(&path);
    Ok(())
}

/// Waits until the disk has the name of a file. Not all file systems can do that, which is no error.
pub(crate) fn sync_name(path: &Path) {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new(".")));
    let _ = folder.and_then(|folder| folder.sync_all());
}

/// Writes a page, and reports its path.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<()> {
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

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(format_args!("cannot make the folder {}", path.display()))
}

/// Writes files with these names and texts into a folder, but never over the run that they show.
pub(crate) fn write_all(folder: &Path, files: &[(String, String)], run_file: &Path) -> Result<()> {
    create_folder(folder)?;
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        check_spares(&path, run_file)?;
        write(&path, text)
    })
}

/// Checks that a report does not replace the run that it shows, under whatever name. An existing report may be
/// replaced.
pub(crate) fn check_spares(path: &Path, run_file: &Path) -> Result<()> {
    if is_standard_output(path) {
        return Ok(());
    }
    let file = |path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let is_linked = file(path).is_some_and(|written| Some(written) == file(run_file));
    if is_linked || resolved(path) == resolved(run_file) {
        bail!("{} is the run itself, or another output: name another file", path.display());
    }
    Ok(())
}

/// The absolute path of a file, even if it does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder == Path::new("") => {
            resolved(Path::new(".")).join(name)
        }
        (Some(folder), Some(name)) => resolved(folder).join(name),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_that_write_one_file_leave_the_text_of_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // As long as a name can be.
        let path = folder.path().join("a".repeat(255));
        let write = |writer: usize| {
            for round in 0..20 {
                super::write(&path, &format!("{writer} {round}")).unwrap();
            }
        };
        std::thread::scope(|scope| {
            for writer in 0..4 {
                scope.spawn(move || write(writer));
            }
        });
        assert!(fs::read_to_string(&path).unwrap().ends_with(" 19"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_text_is_read_up_to_a_bound_and_in_utf_8_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_text(&path, 8).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"\xef\xbb\xbftoken").unwrap(), "token");
        assert!(read(b"t\0o\0k\0").unwrap_err().contains("UTF-16"));
        assert!(read(b"123456789").unwrap_err().contains("8 bytes"));
        assert!(read(b"\xb5").unwrap_err().contains("not UTF-8"));
        let endless = read_text(Path::new("/dev/zero"), 8).unwrap_err();
        assert!(endless.to_string().contains("8 bytes"), "{endless}");
    }
}

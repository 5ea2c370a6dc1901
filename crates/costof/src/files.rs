//! Writes files and folders for people: reports, plots, values.

use crate::error::{Context, Error, bail};
use crate::terminal::log;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).context(format_args!("cannot write {}", path.display()))
}

/// Writes a page, and reports its path.
pub(crate) fn write_page(path: &Path, page: &str) -> Result<(), Error> {
    write(path, page)?;
    log(format_args!("the page is in {}", path.display()));
    Ok(())
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

/// Checks that a report does not replace the run that it shows. An existing report may be replaced.
pub(crate) fn check_spares(path: &Path, run_file: &Path) -> Result<(), Error> {
    if resolved(path) == resolved(run_file) {
        bail!(
            "{} is the run itself: name another file for the output",
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

//! `costof report`: a run as a page, as plots, as values, as a table.

use crate::anonymous::anonymous;
use crate::cli::ReportOptions;
use crate::error::{Error, wrong};
use crate::record;
use crate::tell::tell;
use costof_report::{csv, markdown, page, plots};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(options: &ReportOptions) -> Result<ExitCode, Error> {
    let file = match &options.file {
        Some(file) => file.clone(),
        None => record::latest().ok_or_else(|| {
            wrong("there is no run in the history: `costof run` makes one, or name a run file")
        })?,
    };
    let (mut run, cut) = record::read_to_show(&file)?;
    if let Some(cut) = &cut {
        tell(format!("{}: {cut}", file.display()));
    }
    if options.anonymous {
        anonymous(&mut run);
    }
    let doubts: Vec<String> = cut.into_iter().collect();
    let asked = options.html.is_some() || options.svg.is_some() || options.csv.is_some();
    let html = match &options.html {
        Some(html) => Some(html.clone()),
        None if asked || options.markdown => None,
        None => {
            Some(PathBuf::from(file.file_name().unwrap_or(file.as_os_str())).with_extension("html"))
        }
    };
    if let Some(html) = html {
        spares(&html, &file)?;
        write(&html, &page::page(&run, &doubts))?;
        tell(format!("the page is in {}", html.display()));
    }
    if let Some(folder) = &options.svg {
        let plots = plots::svg(&run);
        into(folder, &file, &plots)?;
        tell(format!("{} plots are in {}", plots.len(), folder.display()));
    }
    if let Some(csv) = &options.csv {
        match csv.is_dir() || csv.as_os_str().as_encoded_bytes().ends_with(b"/") {
            true => into(csv, &file, &csv::files(&run))?,
            false => {
                spares(csv, &file)?;
                write(csv, &csv::summary(&run))?;
            }
        }
        tell(format!("the values are in {}", csv.display()));
    }
    if options.markdown {
        io::stdout()
            .lock()
            .write_all(markdown::table(&run).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Files with their names into a folder, which is made where it is not there.
fn into(folder: &Path, run_file: &Path, files: &[(String, String)]) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|error| {
        wrong(format!(
            "cannot make the folder {}: {error}",
            folder.display()
        ))
    })?;
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        spares(&path, run_file)?;
        write(&path, text)
    })
}

/// A report that is there already is written anew; the run that it shows never is.
pub(super) fn spares(path: &Path, run_file: &Path) -> Result<(), Error> {
    match place(path) == place(run_file) {
        true => Err(wrong(format!(
            "{} is the run itself: name another file for what is made of it",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Where a file is, or will be.
fn place(path: &Path) -> PathBuf {
    path.canonicalize()
        .unwrap_or_else(|_| match (path.parent(), path.file_name()) {
            (Some(folder), Some(name)) if folder == Path::new("") => {
                place(Path::new(".")).join(name)
            }
            (Some(folder), Some(name)) => place(folder).join(name),
            _ => path.to_owned(),
        })
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text)
        .map_err(|error| wrong(format!("cannot write {}: {error}", path.display())))
}

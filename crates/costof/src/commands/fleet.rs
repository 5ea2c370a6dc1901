//! `costof fleet`: which of many hosts are odd.

use crate::cli::FleetOptions;
use crate::error::{Context, Done, Error, bail};
use crate::terminal::{print, prose_columns};
use costof_measure::fleet;
use costof_model::run_file::{self, Run};
use costof_report::{fleet as shown, page};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(options: &FleetOptions) -> Done {
    let files = files(&options.runs)?;
    let runs = files.iter().map(|file| read(file));
    let runs = runs.collect::<Result<Vec<Run>, Error>>()?;
    let by: Vec<&str> = match &options.by[..] {
        [] => fleet::BY.to_vec(),
        [one] if one == "none" => Vec::new(),
        by => by.iter().map(String::as_str).collect(),
    };
    let fleet = fleet::fleet(&runs, &by);
    if let Some(html) = &options.html {
        files
            .iter()
            .try_for_each(|run| crate::files::check_spares(html, run))?;
        crate::files::write_page(html, &page::fleet::page(&fleet))?;
    }
    let text = if options.json {
        serde_json::to_string(&fleet).context("JSON")? + "\n"
    } else if options.reason {
        shown::reasons(&fleet)
    } else {
        shown::text(&fleet, prose_columns())
    };
    print(text)?;
    let is_odd = shown::odd(&fleet).next().is_some();
    Ok(ExitCode::from(u8::from(options.fail_odd && is_odd)))
}

/// The run files, those of folders by their names.
pub(super) fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).context(path.display())?;
        let entries = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut of_folder = entries
            .collect::<Result<Vec<_>, _>>()
            .context(path.display())?;
        of_folder.retain(|file| file.extension().is_some_and(|end| end == "jsonl"));
        of_folder.sort();
        if of_folder.is_empty() {
            bail!("{} has no run file (NAME.jsonl)", path.display());
        }
        files.extend(of_folder);
    }
    Ok(files)
}

/// The run in a file without its launches, which are most of it and are not needed.
pub(super) fn read(path: &Path) -> Result<Run, Error> {
    let text = fs::read(path).context(path.display())?;
    let rows = text.split_inclusive(|byte| *byte == b'\n');
    let kept = rows.filter(|row| !row.starts_with(br#"{"type":"launch""#));
    run_file::read(&*kept.collect::<Vec<_>>().concat()).context(path.display())
}

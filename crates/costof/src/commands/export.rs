//! `costof export`: runs for other programs, or a run without its launches.

use crate::anonymous::anonymous;
use crate::cli::ExportOptions;
use crate::error::{Done, Error, bail};
use crate::files;
use crate::record::{self, Table};
use crate::terminal::{log, print};
use costof_model::run_file::{self, Run};

pub(crate) fn run(table: Table<'_>, options: &ExportOptions) -> Done {
    let given = record::files(&options.files)?;
    let runs = given.iter().map(|file| record::read(file, table));
    let mut runs = runs.collect::<Result<Vec<Run>, Error>>()?;
    if options.anonymous {
        runs.iter_mut().for_each(anonymous);
    }
    let written = exported(options, runs)?;
    let out = options.out.as_ref();
    let Some(out) = out.filter(|out| !files::is_standard_output(out)) else {
        return match &written[..] {
            [(_, text)] => print(text),
            _ => bail!("this format is {} files: name a folder with --out", written.len()),
        };
    };
    let is_folder = out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_folder || written.len() > 1 {
        files::create_folder(out)?;
    }
    for (name, text) in &written {
        let path = if out.is_dir() { &out.join(name) } else { out };
        given.iter().try_for_each(|run| files::check_spares(path, run))?;
        files::write(path, text)?;
    }
    log(format!("exported to {}", out.display()));
    print("")
}

/// The files of an export: their names and texts.
fn exported(options: &ExportOptions, mut runs: Vec<Run>) -> Result<Vec<(String, String)>, Error> {
    let takes_many = options.format.is_some_and(|format| format.takes_many);
    if runs.len() > 1 && !takes_many {
        bail!(
            "such an export takes one run: `--format otava` and `--format superbench` take several"
        );
    }
    if let Some(format) = options.format {
        return Ok(format.files(&runs, options.all_metrics));
    }
    let mut run = runs.remove(0);
    run.launches.clear();
    let lines = run.into_rows().flat_map(|row| run_file::line(&row));
    let text = String::from_utf8_lossy(&lines.collect::<Vec<u8>>()).into_owned();
    Ok(vec![("run.jsonl".to_owned(), text)])
}

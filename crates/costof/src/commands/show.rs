//! `costof show`: the table of a run that was measured before, and what `costof run` prints.

use crate::cli::{Printing, ShowOptions};
use crate::error::{Done, Error};
use crate::history;
use crate::record;
use crate::terminal::style;
use costof_model::rows::Row;
use costof_model::run_file::{self, Run};
use costof_report::run as report;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(options: &ShowOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (run, _) = record::read_to_show(&file)?;
    print_run(&run, &file, &options.printing)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what a run gave, and where it is; what matters comes last, where a terminal shows it.
pub(crate) fn print_run(run: &Run, file: &Path, printing: &Printing) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    if printing.json {
        for point in &run.points {
            output.write_all(&run_file::line(&Row::Point(Box::new(point.clone()))))?;
        }
        for failure in run.failures.iter().filter(|row| row.launch.is_none()) {
            output.write_all(&run_file::line(&Row::Failure(failure.clone())))?;
        }
        return Ok(output.flush()?);
    }
    let style = style(printing);
    output.write_all(report::text(run, style).as_bytes())?;
    writeln!(output, "\nThe run is in {}", file.display())?;
    if !style.notes {
        writeln!(output, "All notes and findings: `{}`", with_notes(file))?;
    }
    output.write_all(report::conclusion(run, style).as_bytes())?;
    Ok(output.flush()?)
}

/// The command that prints the notes of a run in full.
fn with_notes(file: &Path) -> String {
    if history::latest().is_ok_and(|latest| latest == file) {
        return "costof show --notes".to_owned();
    }
    format!("costof show --notes {}", file.display())
}

//! `costof show`: prints the table of an existing run. Also the output of `costof run`.

use crate::cli::{Printing, ShowOptions};
use crate::error::{Done, Error};
use crate::history;
use crate::record::{self, Table};
use crate::resume;
use crate::terminal::{log, printable, quoted, style};
use costof_model::rows::Row;
use costof_model::run_file::{self, Run};
use costof_report::run as report;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(table: Table<'_>, options: &ShowOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (run, _) = record::read_to_show(&file, table)?;
    print_run(&run, &file, &options.printing)?;
    if run.end.is_none() {
        log(resume::advice(&run, &file));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the results of a run and the path of its file. The results that matter come last, where a terminal
/// shows them.
pub(crate) fn print_run(run: &Run, file: &Path, printing: &Printing) -> Result<(), Error> {
    let mut output = io::stdout().lock();
    if printing.json {
        for point in &run.points {
            output.write_all(&run_file::line(&Row::Point(Box::new(point.clone()))))?;
        }
        for failure in run.failures.iter().filter(|row| row.launch.is_none()) {
            output.write_all(&run_file::line(&Row::Failure(failure.clone())))?;
        }
        let alone = serde_json::to_string(&run.alone_by_cpu()).map_err(io::Error::from)?;
        writeln!(output, r#"{{"type":"cores","alone":{alone}}}"#)?;
        return Ok(output.flush()?);
    }
    let style = style(printing);
    output.write_all(report::text(run, style).as_bytes())?;
    writeln!(output, "\nThe run is in {}", printable(file.display()))?;
    if !style.notes {
        writeln!(output, "All notes and findings: `{}`", printable(with_notes(file)))?;
    }
    output.write_all(report::conclusion(run, style).as_bytes())?;
    Ok(output.flush()?)
}

/// The command that prints all notes of a run.
fn with_notes(file: &Path) -> String {
    if history::latest().is_ok_and(|latest| latest == file) {
        return "costof show --notes".to_owned();
    }
    format!("costof show --notes {}", quoted(file))
}

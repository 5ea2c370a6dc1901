//! `costof show`: prints the table of an existing run, as `costof run` does at its end.

use super::history::print_latest;
use crate::cli::{Printing, RunOptions, ShowOptions};
use crate::error::{Context, Done, Error, INTERRUPTED, Result, bail};
use crate::record::{self, Record, Table};
use crate::terminal::{log, output, printable, quoted, style};
use crate::{files, history, resume};
use costof_model::rows::Row;
use costof_model::run_file;
use costof_model::{Run, nearest};
use costof_report::run as report;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(table: Table, options: &ShowOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (run, _) = record::read_to_show(&file, table)?;
    check(&run, &options.metrics)?;
    print_run(&run, &file, &options.printing, &options.metrics)?;
    if run.end.is_none() {
        log(resume::advice(&run, &file));
    }
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// No row has one of these metrics.
fn check(run: &Run, metrics: &[String]) -> Result<()> {
    let known: BTreeSet<&str> =
        run.points.iter().flat_map(|row| row.metrics.iter().map(|known| &*known.name)).collect();
    match metrics.iter().find(|metric| !known.contains(&***metric)) {
        Some(unknown) => {
            let hint = nearest::hint(unknown, known.iter().copied());
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            bail!("no row of this run has the metric `{unknown}`{hint} (it has {known})")
        }
        None => Ok(()),
    }
}

/// Prints the results of a run and the path of its file. The results that matter come last, where a terminal
/// shows them.
fn print_run(run: &Run, file: &Path, printing: &Printing, metrics: &[String]) -> Result<()> {
    let mut output = output();
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
    output.write_all(report::text_with(run, style, metrics).as_bytes())?;
    writeln!(output, "\nThe run is in {}", printable(file.display()))?;
    if !style.notes {
        writeln!(output, "All notes and findings: `{}`", printable(with_notes(file)))?;
    }
    output.write_all(report::conclusion(run, style).as_bytes())?;
    Ok(output.flush()?)
}

/// Prints the results of a run that these options asked for, and how it ended.
pub(super) fn print_ended(table: Table, record: &Record, options: &RunOptions) -> Done {
    let run = &record.run;
    if options.out.as_deref().is_some_and(files::is_standard_output) {
        let mut file = File::open(record.path()).context(record.path().display())?;
        io::copy(&mut file, &mut output())?;
    } else {
        print_run(run, record.path(), &options.printing, &[])?;
    }
    if run.end.is_none() {
        log(resume::advice(run, record.path()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if !run.has_asked_for() {
        let why = "nothing could be measured that was asked for; the reasons are above";
        return Err(Error::Nothing(why.to_owned()));
    }
    if options.history {
        print_latest(table, &run.host_name())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The command that prints all notes of a run.
fn with_notes(file: &Path) -> String {
    if history::latest().is_ok_and(|latest| latest == file) {
        return "costof show --notes".to_owned();
    }
    format!("costof show --notes {}", quoted(file))
}

//! `costof history`: what changed for good over a series of runs.

use super::fleet::{files, read};
use crate::cli::HistoryOptions;
use crate::error::{Context, Done, Error};
use crate::history as saved;
use crate::terminal::{print, prose_columns};
use costof_measure::history;
use costof_model::run_file::Run;
use costof_report::history as shown;
use std::process::ExitCode;

pub(crate) fn run(options: &HistoryOptions) -> Done {
    let files = match &options.runs[..] {
        [] => saved::all(),
        given => files(given)?,
    };
    let runs = files.iter().map(|file| read(file));
    let mut runs = runs.collect::<Result<Vec<Run>, Error>>()?;
    let history = history::history(&mut runs, options.false_alarm_runs);
    print(if options.json {
        serde_json::to_string(&history).context("JSON")? + "\n"
    } else {
        shown::text(&history, prose_columns())
    })?;
    let last = history.runs.last();
    let is_new = history
        .changes
        .iter()
        .any(|change| Some(&change.found) == last);
    Ok(ExitCode::from(u8::from(options.fail_changed && is_new)))
}

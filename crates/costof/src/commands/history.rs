//! `costof history`: what changed for good over a series of runs.

use crate::cli::{FALSE_ALARM_RUNS, HistoryOptions};
use crate::error::{Context, Done, Result, gated, rules};
use crate::record::Table;
use crate::terminal::{log, print, prose_columns};
use crate::{history as saved, record};
use costof_measure::history;
use costof_model::{Run, counted};
use costof_report::history as shown;
use std::path::PathBuf;

pub(crate) fn run(table: Table, options: &HistoryOptions) -> Done {
    let (files, mut runs) = match &options.runs[..] {
        [] => own(table, None)?,
        given => record::many(given, table)?,
    };
    let rules = rules(&options.gate, &options.required, table)?;
    let history = history::history(&mut runs, options.false_alarm_runs);
    let suite = options.fail_changed.then(|| shown::check(&history, &rules));
    if runs.is_empty() {
        print("There is no run yet: `costof run` makes one\n")?;
        return gated(&options.gate, suite.as_slice());
    }
    let outputs = [options.html.as_deref(), options.gate.junit.as_deref()];
    let has_text = crate::files::check_outputs(&outputs, options.json, &files)?;
    if let Some(html) = &options.html {
        crate::files::write_page(html, &shown::page(&history))?;
    }
    print(if options.json {
        serde_json::to_string(&history).context("JSON")? + "\n"
    } else if has_text {
        let line = suite.as_ref().map(|suite| suite.line(&shown::reason(&history)) + "\n\n");
        line.unwrap_or_default() + &shown::text(&history, prose_columns())
    } else {
        String::new()
    })?;
    gated(&options.gate, suite.as_slice())
}

/// Prints what the latest of the user's runs of this host changed; nothing if that is nothing.
pub(crate) fn print_latest(table: Table, host: &str) -> Result<()> {
    let (_, mut runs) = own(table, Some(host))?;
    let history = history::history(&mut runs, FALSE_ALARM_RUNS);
    print(shown::latest(&history, prose_columns()))?;
    Ok(())
}

/// The files of the history, and the runs in them of this host, or else of the one that the latest run measured.
fn own(table: Table, host: Option<&str>) -> Result<(Vec<PathBuf>, Vec<Run>)> {
    let files = saved::all();
    let read = record::read_all(&files, &[], table)?;
    let mut runs: Vec<Run> = read.into_iter().map(|(_, run)| run).collect();
    // The latest is the first.
    let latest = || runs.first().map(Run::host_name).unwrap_or_default();
    let name = host.map_or_else(latest, str::to_owned);
    let all = runs.len();
    runs.retain(|run| run.host_name() == name);
    if host.is_none() && runs.len() < all {
        let others = all - runs.len();
        log(format_args!("left out: {} of other hosts than {name}", counted(others, "run")));
    }
    Ok((files, runs))
}

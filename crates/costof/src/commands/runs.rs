//! `costof runs`: lists the user's runs, the latest first.

use crate::cli::RunsOptions;
use crate::error::Done;
use crate::history;
use crate::record::{self, Table};
use crate::terminal::{print, terminal_columns};
use costof_model::Run;
use costof_report::grid::{Align, Grid};
use std::path::PathBuf;

/// Without `--all`, at most this many are shown.
const SHOWN: usize = 20;
/// At most this many probes of a run are named.
const NAMED: usize = 2;

/// The columns, and the narrowest terminal that shows each: the number of a run is enough to name it.
const COLUMNS: [(&str, usize); 6] =
    [("run", 0), ("began (UTC)", 0), ("points", 0), ("host", 0), ("probes", 0), ("file", 120)];
/// The column that is broken into lines where the terminal is too narrow.
const PROBES: usize = 4;

pub(crate) fn run(table: Table, options: &RunsOptions) -> Done {
    let files = history::all();
    if files.is_empty() {
        return print("There is no run yet: `costof run` makes one\n");
    }
    let shown = if options.all { files.len() } else { SHOWN };
    let mut grid = Grid::new(COLUMNS.map(|(heading, _)| (heading, Align::Left)));
    files.iter().take(shown).enumerate().for_each(|run| grid.add(row(table, run)));
    if let Some(columns) = terminal_columns() {
        grid.fit(columns, &COLUMNS.map(|(_, from)| from), PROBES);
    }
    let mut text = grid.text();
    if let Some(older) = files.len().checked_sub(shown).filter(|older| *older > 0) {
        text += &format!("\nand {older} older: `costof runs --all`\n");
    }
    print(text)
}

/// The row for a run: its number, and what its file says about it.
fn row(table: Table, (position, file): (usize, &PathBuf)) -> [String; 6] {
    let number = format!("@{}", position + 1);
    let [began, points, host, probes] = match record::head(file, table) {
        Ok((run, is_complete)) => described(&run, is_complete),
        Err(error) => ["", "", "", &error.to_string()].map(str::to_owned),
    };
    let file = file.display().to_string();
    [number, began, points, host, probes, file]
}

fn described(run: &Run, is_complete: bool) -> [String; 4] {
    let plan = &run.run.plan;
    let unfinished = if is_complete { "" } else { ", unfinished" };
    let host_name = || run.facts().and_then(|facts| facts.host_name.clone());
    let mut probes: Vec<&str> = plan.points().map(|point| &*point.probe).collect();
    probes.dedup();
    let mut named = probes[..probes.len().min(NAMED)].join(", ");
    if probes.len() > NAMED {
        named += &format!(" and {} more", probes.len() - NAMED);
    }
    [
        run.run.started.replace('T', " ").trim_end_matches('Z').to_owned(),
        format!("{}{unfinished}", plan.points().count()),
        plan.hosts.on.clone().or_else(host_name).unwrap_or_default(),
        named,
    ]
}

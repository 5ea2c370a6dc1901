//! `costof runs`: lists the user's runs, the latest first.

use crate::cli::RunsOptions;
use crate::error::Done;
use crate::history;
use crate::record::{self, Table};
use crate::terminal::{print, terminal_columns};
use costof_model::run_file::Run;
use costof_report::grid::{Align, Grid};
use costof_report::text::wrapped;
use std::path::{Path, PathBuf};

/// Without `--all`, at most this many are shown.
const SHOWN: usize = 20;
/// At most this many probes of a run are named.
const NAMED: usize = 2;

const HEADINGS: [&str; 6] = ["run", "began (UTC)", "points", "host", "probes", "file"];

/// The names of the probes are not broken into lines shorter than this.
const MIN_NAMES: usize = 24;

pub(crate) fn run(table: Table<'_>, options: &RunsOptions) -> Done {
    let files = history::all();
    if files.is_empty() {
        return print("There is no run yet: `costof run` makes one\n");
    }
    let shown = if options.all { files.len() } else { SHOWN };
    let rows = files.iter().take(shown).enumerate().map(|run| row(table, run)).collect();
    let mut text = match terminal_columns() {
        Some(columns) => narrow(rows, columns),
        None => aligned(&HEADINGS, rows),
    };
    if let Some(older) = files.len().checked_sub(shown).filter(|older| *older > 0) {
        text += &format!("\nand {older} older: `costof runs --all`\n");
    }
    print(text)
}

fn aligned<const COLUMNS: usize>(
    headings: &[&str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) -> String {
    let mut grid = Grid::new(headings.map(|heading| (heading, Align::Left)));
    rows.into_iter().for_each(|row| grid.add(row));
    grid.text()
}

/// The table for a terminal of this width. Files of the history have no name there, since their number is
/// enough; other files stand below their probes.
fn narrow(rows: Vec<[String; 6]>, columns: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        2 + cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let room = columns.saturating_sub((0..4).map(width).sum::<usize>() + 2);
    let folder = history::index::folder().unwrap_or_default();
    let narrow = |[number, began, points, host, probes, file]: [String; 6]| {
        let mut names = wrapped(room.max(MIN_NAMES), &probes, "");
        if Path::new(&file).parent() != Some(&folder) {
            names += &short(Path::new(&file));
        }
        let began = began.chars().take("2026-11-25 18:30".len()).collect();
        [number, began, points, host, names.trim_end().to_owned()]
    };
    let rows = rows.into_iter().map(narrow).collect();
    let headings = ["run", "began (UTC)", "points", "host", "probes, and file"];
    let text = aligned(&headings, rows);
    format!("{text}\nRuns for which no file is shown are in {}\n", short(&folder))
}

/// A path with `~` for the home folder.
fn short(path: &Path) -> String {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    match home.and_then(|home| path.strip_prefix(home).ok().map(PathBuf::from)) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// The row for a run: its number, and what its file says about it.
fn row(table: Table<'_>, (position, file): (usize, &PathBuf)) -> [String; 6] {
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

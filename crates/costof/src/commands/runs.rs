//! `costof runs`: the runs that were made, the latest first.

use crate::cli::RunsOptions;
use crate::error::Done;
use crate::terminal::print;
use crate::{history, record};
use costof_model::run_file::Run;
use std::path::PathBuf;

/// So many are shown where not all are asked for.
const SHOWN: usize = 20;
/// So many probes of a run are named.
const NAMED: usize = 2;

const HEADINGS: [&str; 6] = ["run", "began (UTC)", "points", "host", "probes", "file"];

pub(crate) fn run(options: &RunsOptions) -> Done {
    let files = history::all();
    if files.is_empty() {
        return print("There is no run yet: `costof run` makes one\n");
    }
    let shown = if options.all { files.len() } else { SHOWN };
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(files.iter().take(shown).enumerate().map(row));
    let mut text = aligned(&rows);
    if let Some(older) = files.len().checked_sub(shown).filter(|older| *older > 0) {
        text += &format!("\nand {older} older: `costof runs --all`\n");
    }
    print(text)
}

/// What is shown of a run: its number, and what its file says of it.
fn row((position, file): (usize, &PathBuf)) -> [String; 6] {
    let number = format!("@{}", position + 1);
    let [began, points, host, probes] = match record::head(file) {
        Ok((run, is_complete)) => described(&run, is_complete),
        Err(error) => ["", "", "", &error.to_string()].map(str::to_owned),
    };
    [
        number,
        began,
        points,
        host,
        probes,
        file.display().to_string(),
    ]
    .map(|cell| printable(&cell))
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
        run.run
            .started
            .replace('T', " ")
            .trim_end_matches('Z')
            .to_owned(),
        format!("{}{unfinished}", plan.points().count()),
        plan.hosts.on.clone().or_else(host_name).unwrap_or_default(),
        named,
    ]
}

/// A run file may come from anybody: what it says is one line of text.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// The rows in columns of their width; nothing stands behind the last one.
fn aligned(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2, 3, 4, 5].map(|column| width(column).unwrap_or(0));
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

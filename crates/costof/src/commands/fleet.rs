//! `costof fleet`: which of many hosts are odd.

use crate::cli::FleetOptions;
use crate::error::{Context, Done, Error, bail};
use crate::record::many;
use crate::terminal::{print, printable, prose_columns};
use costof_measure::fleet;
use costof_model::nearest::hint;
use costof_report::{fleet as shown, page};
use std::collections::BTreeSet;
use std::process::ExitCode;

pub(crate) fn run(options: &FleetOptions) -> Done {
    let (files, runs) = many(&options.runs)?;
    let by: Vec<&str> = match &options.by[..] {
        [] => fleet::BY.to_vec(),
        [one] if one == "none" => Vec::new(),
        by => checked(by, &fleet::names_of_facts(&runs))?,
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

/// These names of facts, if the runs have such facts: by another one, all hosts would be alike.
fn checked<'b>(by: &'b [String], known: &BTreeSet<String>) -> Result<Vec<&'b str>, Error> {
    match by.iter().find(|fact| !known.contains(*fact)) {
        Some(fact) => bail!(
            "the runs have no fact `{}`{} (`costof compare` shows the facts in which two runs differ)",
            printable(fact),
            hint(fact, known.iter().map(String::as_str))
        ),
        None => Ok(by.iter().map(String::as_str).collect()),
    }
}

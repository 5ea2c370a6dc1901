//! `costof fleet`: which of many hosts are odd.

use crate::cli::FleetOptions;
use crate::error::{self, Context, Done, Error, bail};
use crate::record::{Table, many};
use crate::terminal::{log, print, printable, prose_columns};
use costof_measure::fleet;
use costof_model::fleet::Verdict;
use costof_model::nearest::hint;
use costof_model::reference::Reference;
use costof_report::fleet as shown;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn run(table: Table<'_>, options: &FleetOptions) -> Done {
    let (files, runs) = many(&options.runs, table)?;
    let by: Vec<&str> = match &options.by[..] {
        [] => fleet::BY.to_vec(),
        [one] if one == "none" => Vec::new(),
        by => checked(by, &fleet::names_of_facts(&runs))?,
    };
    let mut fleet = fleet::fleet(&runs, &by);
    if let Some(fact) = &options.versus {
        checked(std::slice::from_ref(fact), &fleet::names_of_facts(&runs))?;
        match fleet::versus(&runs, &by, fact) {
            Ok(partings) if partings.is_empty() => {
                bail!(
                    "--versus {}: each side needs three hosts with a row in common",
                    printable(fact)
                )
            }
            Ok(partings) => fleet.partings = partings,
            Err(why) => bail!("--versus: {}", printable(&why)),
        }
    }
    let outputs = [options.html.as_deref(), options.save.as_deref()];
    let has_text = crate::files::leaves_standard_output(&outputs, options.json)?;
    if let Some(html) = &options.html {
        files.iter().try_for_each(|run| crate::files::check_spares(html, run))?;
        crate::files::write_page(html, &shown::page(&fleet))?;
    }
    if let Some(file) = &options.save {
        if let Some(html) = &options.html {
            crate::files::check_spares(file, html)?;
        }
        save(file, &files, &fleet::reference(&runs, &by))?;
    }
    let text = if options.json {
        serde_json::to_string(&fleet).context("JSON")? + "\n"
    } else if options.reason {
        shown::reasons(&fleet)
    } else {
        shown::text(&fleet, prose_columns())
    };
    print(if has_text { text } else { String::new() })?;
    let mut hosts = fleet.cohorts.iter().flat_map(|cohort| &cohort.hosts);
    let is_undecided = hosts.any(|host| host.verdict == Verdict::Undecided);
    let is_odd = shown::odd(&fleet).next().is_some();
    let gates = options.fail_odd;
    Ok(error::gated(gates && is_odd, gates && is_undecided, options.gate.undecided))
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

/// Writes a reference, but over none of these runs.
fn save(file: &Path, runs: &[PathBuf], reference: &Reference) -> Result<(), Error> {
    if reference.cohorts.is_empty() {
        bail!("nothing to save: five hosts must have a row of grade A to C for it to be learnt");
    }
    runs.iter().try_for_each(|run| crate::files::check_spares(file, run))?;
    let text = serde_json::to_string_pretty(reference).context("JSON")? + "\n";
    crate::files::write(file, &text)?;
    if crate::files::is_standard_output(file) {
        return Ok(());
    }
    let file = file.display();
    log(format_args!("the reference is in {file}; on a host: `costof qualify --against {file}`"));
    Ok(())
}

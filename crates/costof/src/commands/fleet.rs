//! `costof fleet`: which of many hosts are odd.

use crate::cli::FleetOptions;
use crate::cli::gate::Required;
use crate::error::{Context, Done, Result, bail, gated, rules};
use crate::record::{Table, many};
use crate::terminal::{log, print, printable, prose_columns};
use costof_measure::fleet;
use costof_model::fleet::Fleet;
use costof_model::nearest::hint;
use costof_model::reference::Reference;
use costof_report::fleet as shown;
use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn run(table: Table, options: &FleetOptions) -> Done {
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
                    "--versus {}: the sides need three hosts, or runs, with a row in common",
                    printable(fact)
                )
            }
            Ok(partings) => fleet.partings = partings,
            Err(why) => bail!("--versus: {}", printable(&why)),
        }
    }
    let outputs = [&options.html, &options.save, &options.gate.junit].map(Option::as_deref);
    let has_text = crate::files::check_outputs(&outputs, options.json, &files)?;
    if let Some(html) = &options.html {
        crate::files::write_page(html, &shown::page(&fleet))?;
    }
    if let Some(file) = &options.save {
        save(file, &fleet::reference(&runs, &by))?;
    }
    let rules = rules(&options.gate, &Required::default(), table)?;
    let suite = options.fail_odd.then(|| shown::check(&fleet, &rules));
    let text = if options.summary {
        summaries(&fleet, options)?
    } else if options.json {
        serde_json::to_string(&fleet).context("JSON")? + "\n"
    } else if options.reason {
        shown::reasons(&fleet)
    } else {
        let line = suite.as_ref().map(|suite| suite.line("no host is odd") + "\n\n");
        line.unwrap_or_default() + &shown::text(&fleet, prose_columns())
    };
    print(if has_text { text } else { String::new() })?;
    gated(&options.gate, suite.as_slice())
}

/// The two groups in three lines, or as many for each cohort that has both.
fn summaries(fleet: &Fleet, options: &FleetOptions) -> Result<String> {
    let summaries = fleet.partings.iter().map(shown::summary_of).map(|summary| {
        Ok(match (options.json, options.markdown) {
            (true, _) => serde_json::to_string(&summary).context("JSON")? + "\n",
            (false, true) => summary.markdown(),
            (false, false) => summary.text(),
        })
    });
    summaries.collect()
}

/// These names of facts, if the runs have such facts: by another one, all hosts would be alike.
fn checked<'b>(by: &'b [String], known: &BTreeSet<String>) -> Result<Vec<&'b str>> {
    let facts = known.iter().map(String::as_str).filter(|fact| !fact.starts_with("CONFIG_"));
    match by.iter().find(|fact| !known.contains(*fact)) {
        Some(fact) => bail!(
            "the runs have no fact `{}`{} (they have: {}, and the kernel's CONFIG_…)",
            printable(fact),
            hint(fact, known.iter().map(String::as_str)),
            printable(facts.collect::<Vec<_>>().join(", "))
        ),
        None => Ok(by.iter().map(String::as_str).collect()),
    }
}

/// Writes a reference.
fn save(file: &Path, reference: &Reference) -> Result<()> {
    if reference.cohorts.is_empty() {
        bail!("nothing to save: five hosts must have a row of grade A to C for it to be learnt");
    }
    let text = serde_json::to_string_pretty(reference).context("JSON")? + "\n";
    crate::files::write(file, &text)?;
    if crate::files::is_standard_output(file) {
        return Ok(());
    }
    let file = file.display();
    log(format_args!("the reference is in {file}; on a host: `costof qualify --against {file}`"));
    Ok(())
}

//! `costof fleet`: which of many hosts are odd.

use crate::cli::FleetOptions;
use crate::error::{Context, Done};
use crate::record::many;
use crate::terminal::{print, prose_columns};
use costof_measure::fleet;
use costof_report::{fleet as shown, page};
use std::process::ExitCode;

pub(crate) fn run(options: &FleetOptions) -> Done {
    let (files, runs) = many(&options.runs)?;
    let by: Vec<&str> = match &options.by[..] {
        [] => fleet::BY.to_vec(),
        [one] if one == "none" => Vec::new(),
        by => by.iter().map(String::as_str).collect(),
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

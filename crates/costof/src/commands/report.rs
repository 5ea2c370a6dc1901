//! `costof report`: turns a run into a page.

use super::export::Exported;
use crate::cli::ReportOptions;
use crate::error::Done;
use crate::record::{self, Table};
use crate::terminal::print;
use crate::{file_name, files, history};
use costof_report::export::{self, Format};
use costof_report::page;
use std::path::{Path, PathBuf};

pub(crate) fn run(table: Table, options: &ReportOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (run, cut) = record::read_to_show(&file, table)?;
    let exported = Exported::new(vec![file.clone()], vec![run], options.anonymous);
    let run = &exported.runs[0];
    let outputs = [&options.html, &options.csv].map(Option::as_deref);
    files::leaves_standard_output(&outputs, options.markdown)?;
    let exports = exports(options);
    if options.html.is_some() || exports.is_empty() {
        let name = file.file_name().unwrap_or(file.as_os_str());
        let own = || PathBuf::from(name).with_extension("html");
        let html = options.html.clone().unwrap_or_else(own);
        files::check_spares(&html, &file)?;
        let doubts: Vec<String> = cut.into_iter().collect();
        files::write_page(&html, &page::page(run, &doubts))?;
    }
    for (format, out) in exports {
        exported.write(table, format, false, out)?;
    }
    print("")
}

/// What `costof export` writes now, as it was spelt when `costof report` did: each format and where it goes.
fn exports(options: &ReportOptions) -> Vec<(&'static Format, Option<&Path>)> {
    let csv = options.csv.as_deref();
    let csv_format = |out| if file_name::is_folder(out) { "csv-launches" } else { "csv" };
    let asked = [
        options.svg.as_deref().map(|out| (export::SVG, Some(out))),
        csv.map(|out| (csv_format(out), Some(out))),
        options.markdown.then_some(("markdown", None)),
    ];
    let known = |(name, out)| Some((export::format(name)?, out));
    asked.into_iter().flatten().filter_map(known).collect()
}

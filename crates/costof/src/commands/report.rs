//! `costof report`: turns a run into a page, plots, CSV or a table.

use crate::anonymous::anonymous;
use crate::cli::ReportOptions;
use crate::error::Done;
use crate::terminal::{log, print};
use crate::{files, history, record};
use costof_report::{csv, markdown, page, plots};
use std::path::PathBuf;

pub(crate) fn run(options: &ReportOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (mut run, cut) = record::read_to_show(&file)?;
    if options.anonymous {
        anonymous(&mut run);
    }
    let is_page_asked = options.html.is_some();
    let other_paths = [&options.handout, &options.svg, &options.csv];
    let is_other_asked = options.markdown || other_paths.iter().any(|path| path.is_some());
    if is_page_asked || !is_other_asked {
        let name = file.file_name().unwrap_or(file.as_os_str());
        let own = || PathBuf::from(name).with_extension("html");
        let html = options.html.clone().unwrap_or_else(own);
        files::check_spares(&html, &file)?;
        let doubts: Vec<String> = cut.into_iter().collect();
        files::write_page(&html, &page::page(&run, &doubts))?;
    }
    if let Some(handout) = &options.handout {
        files::check_spares(handout, &file)?;
        files::write_page(handout, &page::handout::page(&run))?;
    }
    if let Some(folder) = &options.svg {
        let plots = plots::svg(&run);
        files::write_all(folder, &plots, &file)?;
        log(format!("{} plots are in {}", plots.len(), folder.display()));
    }
    if let Some(csv) = &options.csv {
        if csv.is_dir() || csv.as_os_str().as_encoded_bytes().ends_with(b"/") {
            files::write_all(csv, &csv::files(&run), &file)?;
        } else {
            files::check_spares(csv, &file)?;
            files::write(csv, &csv::summary(&run))?;
        }
        log(format!("the values are in {}", csv.display()));
    }
    let table = options.markdown.then(|| markdown::table(&run));
    print(table.unwrap_or_default())
}

//! `costof report`: turns a run into a page, plots, CSV or a table.

use crate::anonymous::anonymous;
use crate::cli::{Cli, Command, ReportOptions};
use crate::error::{Done, wrong};
use crate::plan::request::infos;
use crate::terminal::{log, print};
use crate::{files, history, record};
use clap::Parser as _;
use costof_measure::probe::Probe;
use costof_model::run_file::Run;
use costof_report::study::{EMBEDDED, Study};
use costof_report::{csv, markdown, page, plots};
use std::path::PathBuf;

pub(crate) fn run(table: &[&'static Probe], options: &ReportOptions) -> Done {
    let file = options.file.clone().map_or_else(history::latest, Ok)?;
    let (mut run, cut) = record::read_to_show(&file, table)?;
    let study = study(&run);
    if options.anonymous {
        anonymous(&mut run);
    }
    let outputs = [&options.html, &options.handout, &options.csv].map(Option::as_deref);
    files::leaves_standard_output(&outputs, options.markdown)?;
    files::refuse_standard_output(options.svg.as_deref(), "--svg names a folder")?;
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
        let mut plots = plots::svg(&run);
        if let Some(study) = study {
            plots.extend(study.svg(&infos(table), &run).map_err(wrong)?);
        }
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
        files::report_path("the values are", csv);
    }
    let table = options.markdown.then(|| markdown::table(&run));
    print(table.unwrap_or_default())
}

/// The study for which a run was measured, if it comes with costof.
fn study(run: &Run) -> Option<Study> {
    let Ok(Cli { command }) = Cli::try_parse_from(&run.run.command) else {
        return None;
    };
    let Command::Study(options) = command else {
        return None;
    };
    let named = options.study?;
    let (name, text) = EMBEDDED.iter().find(|(name, _)| *name == named)?;
    Study::read(name, name, text).ok()
}

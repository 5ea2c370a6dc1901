//! `costof export`: a run without its launches.

use crate::anonymous::anonymous;
use crate::cli::ExportOptions;
use crate::error::Done;
use crate::record;
use crate::terminal::print;
use costof_model::run_file;

pub(crate) fn run(options: &ExportOptions) -> Done {
    let mut run = record::read(&options.file)?;
    if options.anonymous {
        anonymous(&mut run);
    }
    run.launches.clear();
    let lines = run.into_rows().flat_map(|row| run_file::line(&row));
    print(lines.collect::<Vec<u8>>())
}

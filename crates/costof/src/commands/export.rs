//! `costof export`: a run without its launches.

use crate::anonymous::anonymous;
use crate::cli::ExportOptions;
use crate::error::Done;
use crate::record;
use costof_model::run_file;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub(crate) fn run(options: &ExportOptions) -> Done {
    let mut run = record::read(&options.file)?;
    if options.anonymous {
        anonymous(&mut run);
    }
    run.launches.clear();
    let mut output = BufWriter::new(io::stdout().lock());
    for row in run.into_rows() {
        output.write_all(&run_file::line(&row))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

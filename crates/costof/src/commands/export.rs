//! `costof export`: runs in every format but pages, and a run without its launches.

use crate::anonymous::anonymous;
use crate::cli::{Cli, Command, ExportOptions};
use crate::error::{Context, Done, Error, Result, bail, wrong};
use crate::plan::request::infos;
use crate::record::{self, Table};
use crate::terminal::{log, print};
use crate::{file_name, files, history};
use clap::Parser as _;
use costof_measure::fleet;
use costof_model::Run;
use costof_model::run_file;
use costof_report::export::{File, Format, REFERENCE, SVG};
use costof_report::study::{EMBEDDED, Study};
use std::path::{Path, PathBuf};

pub(crate) fn run(table: Table, options: &ExportOptions) -> Done {
    let given = match &options.files[..] {
        [] => vec![history::latest()?],
        given => record::files(given)?,
    };
    let runs = given.iter().map(|file| record::read(file, table)).collect::<Result<Vec<Run>>>()?;
    let mut exported = Exported::new(given, runs, options.anonymous);
    let out = options.out.as_deref();
    match options.format {
        Some(format) => exported.write(table, format, options.all_metrics, out)?,
        None => {
            exported.expect_one()?;
            let small = without_launches(exported.runs.remove(0));
            exported.write_files(&[("run.jsonl".to_owned(), small)], false, out)?;
        }
    }
    print("")
}

/// Runs with the files that they are from.
pub(super) struct Exported {
    files: Vec<PathBuf>,
    pub(super) runs: Vec<Run>,
    /// The study for which the first one was measured, if it comes with costof.
    study: Option<Study>,
}

impl Exported {
    /// The runs of these files, without names if they are to be anonymous.
    pub(super) fn new(files: Vec<PathBuf>, mut runs: Vec<Run>, is_anonymous: bool) -> Exported {
        // An anonymous run has no command that names its study.
        let study = runs.first().and_then(study);
        if is_anonymous {
            runs.iter_mut().for_each(anonymous);
        }
        Exported { files, runs, study }
    }

    /// Writes the runs in a format, into a file, a folder, or to standard output.
    ///
    /// # Errors
    /// The format takes one run, or has several files, which standard output cannot.
    pub(super) fn write(
        &self,
        table: Table,
        format: &Format,
        all_metrics: bool,
        out: Option<&Path>,
    ) -> Result<()> {
        if !format.takes_many {
            self.expect_one()?;
        }
        if all_metrics && !format.chooses_metrics {
            bail!(
                "--all-metrics is for formats of other programs: `{}` has the metrics that it has",
                format.name
            );
        }
        let mut written = format.files(&self.runs, all_metrics);
        if format.name == REFERENCE {
            written.push(("reference.json".to_owned(), self.entry()?));
        }
        if let Some(study) = self.study.as_ref().filter(|_| format.name == SVG) {
            written.extend(study.svg(&infos(table), &self.runs[0]).map_err(wrong)?);
        }
        self.write_files(&written, format.is_folder, out)
    }

    /// The anonymous reference of the first run. Probes of the user's own are in no table of costof's, and not in it.
    ///
    /// # Errors
    /// No row has a number to compare.
    fn entry(&self) -> Result<String> {
        let entry = fleet::entry(&self.runs[0], costof_probes::TABLE);
        if entry.cohorts.iter().all(|cohort| cohort.rows.is_empty()) {
            let why = "no point of costof's own probes has a number of grade A to C";
            return Err(Error::Nothing(why.to_owned()));
        }
        Ok(serde_json::to_string_pretty(&entry).context("JSON")? + "\n")
    }

    fn expect_one(&self) -> Result<()> {
        if self.runs.len() > 1 {
            bail!(
                "such an export takes one run: `--format otava` and `--format superbench` take several"
            );
        }
        Ok(())
    }

    fn write_files(&self, written: &[File], is_folder: bool, out: Option<&Path>) -> Result<()> {
        let out = out.unwrap_or(Path::new("-"));
        if files::is_standard_output(out) {
            return match written {
                // As in a file: lines of CSV end in CR LF.
                [(_, text)] if !is_folder => files::write(out, text),
                _ => bail!("this format needs a folder, not standard output (--out FOLDER)"),
            };
        }
        if is_folder || written.len() > 1 || file_name::is_folder(out) {
            files::create_folder(out)?;
        }
        for (name, text) in written {
            let path = if out.is_dir() { &out.join(name) } else { out };
            self.files.iter().try_for_each(|run| files::check_spares(path, run))?;
            files::write(path, text)?;
        }
        let count =
            if written.len() > 1 { format!("{} files ", written.len()) } else { String::new() };
        log(format!("exported {count}to {}", out.display()));
        Ok(())
    }
}

/// The text of a run file with all rows but the launches.
fn without_launches(mut run: Run) -> String {
    run.launches.clear();
    let lines = run.into_rows().flat_map(|row| run_file::line(&row));
    String::from_utf8_lossy(&lines.collect::<Vec<u8>>()).into_owned()
}

/// The study for which a run was measured, if it comes with costof.
fn study(run: &Run) -> Option<Study> {
    let Command::Study(options) = Cli::try_parse_from(&run.run.command).ok()?.command else {
        return None;
    };
    let named = options.study?;
    let (name, text) = EMBEDDED.iter().find(|(name, _)| *name == named)?;
    Study::read(name, name, text).ok()
}

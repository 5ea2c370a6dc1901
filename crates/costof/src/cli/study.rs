//! The options of `costof study`.

use super::values::{run_file, runs};
use super::{Measuring, setting};
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Default, Args)]
#[command(
    after_help = "In a classroom: --predict before measuring, --sheet to print, --collect for all runs together (docs/STUDIES.md)"
)]
pub(crate) struct StudyOptions {
    /// Which study: a name from the list, or a file of your own
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) study: Option<String>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// The folder of the results [default: study-NAME]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "study")]
    pub(crate) out: Option<PathBuf>,
    /// Compare an existing run with the study, instead of measuring
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file(),
          requires = "study", conflicts_with_all = ["quick", "full", "dry_run", "cpu", "seed", "no_wait", "Quiet"])]
    pub(crate) run: Option<PathBuf>,
    /// Ask for your own prediction of each row first; the tables score them
    ///
    /// An empty line leaves a row out, the end of the input (Ctrl+D) all others. The run records the predictions before
    /// anything is measured. With --dry-run: print a form to fill in for --predictions instead.
    #[arg(long, requires = "study", conflicts_with = "run")]
    pub(crate) predict: bool,
    /// The same from a form that is filled in
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "study",
          conflicts_with_all = ["run", "predict"])]
    pub(crate) predictions: Option<PathBuf>,
    /// Write a lab sheet to print to this file, without measuring
    ///
    /// It has what to predict, blanks, and the questions.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "study",
          conflicts_with_all = ["predict", "predictions", "dry_run", "csv", "svg"])]
    pub(crate) sheet: Option<PathBuf>,
    /// Make it the answer key: with the numbers and answers of a run [default: that in the folder]
    #[arg(long, requires = "sheet", hide_short_help = true)]
    pub(crate) key: bool,
    /// Show the runs of a class together, on one page
    ///
    /// Each is a run, its number in the history (@1), or a folder of runs; the page is class.html in the folder of
    /// the results.
    ///
    /// How each row spreads over machines and predictions, where the class was most wrong, which machines stand out.
    #[arg(long, value_name = "RUN", value_hint = ValueHint::AnyPath, requires = "study",
          value_parser = runs(), num_args = 1..,
          conflicts_with_all = ["run", "predict", "predictions", "dry_run", "sheet", "csv", "svg"])]
    pub(crate) collect: Vec<PathBuf>,
    /// Name each machine of --collect by its host name
    #[arg(long, requires = "collect", hide_short_help = true)]
    pub(crate) names: bool,
    /// The folder of its files (dir=/mnt/disk), or a file of another machine
    ///
    /// Such a file is path=nfs://HOST/EXPORT/FILE. The study says the values of all other axes.
    #[arg(long = "set", value_name = "AXIS=PLACE", value_parser = setting, requires = "study",
          conflicts_with = "run")]
    pub(crate) places: Vec<(String, Vec<String>)>,
    /// Write CSV too, into FOLDER/csv: a file for each point, and a summary
    #[arg(long, hide_short_help = true)]
    pub(crate) csv: bool,
    /// Write every plot as SVG too, into FOLDER/svg, those of the study first
    #[arg(long, hide_short_help = true)]
    pub(crate) svg: bool,
    /// Write a report to edit, and its plots, to this folder
    ///
    /// DIR/report.md has the tables and answers.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "study",
          conflicts_with_all = ["sheet", "collect", "dry_run"])]
    pub(crate) markdown: Option<PathBuf>,
    /// Name the mistakes in a study of your own, by line
    #[arg(long, requires = "study",
          conflicts_with_all = ["run", "predict", "predictions", "sheet", "collect", "markdown", "csv", "svg", "dry_run"])]
    pub(crate) check: bool,
    /// Show the points, and the time and space that they take
    #[arg(long)]
    pub(crate) dry_run: bool,
}

//! The options of `costof report` and `costof export`.

use super::values::{export_format, run_file, runs};
use clap::{Args, ValueHint};
use costof_report::export::Format;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "`costof export` writes CSV, Markdown, plots, and the formats of other programs."
)]
pub(crate) struct ReportOptions {
    /// The run: a file, or @1 for the latest one, @2 for the one before [default: the latest]
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) file: Option<PathBuf>,
    /// Write the page to this file, which needs no network [default: named after the run, in this folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// The same as `costof export --format svg --out DIR`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub(crate) svg: Option<PathBuf>,
    /// The same as `costof export --format csv --out FILE`, and for a folder --format csv-launches
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath, hide_short_help = true)]
    pub(crate) csv: Option<PathBuf>,
    /// The same as `costof export --format markdown`
    #[arg(long, hide_short_help = true)]
    pub(crate) markdown: bool,
    /// Leave out host names, addresses and the command line
    #[arg(long)]
    pub(crate) anonymous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// The run: a file, or @1 for the latest one, @2 for the one before [default: the latest]
    ///
    /// The formats otava and superbench take several.
    #[arg(value_name = "RUN|FOLDER", value_hint = ValueHint::AnyPath, value_parser = runs())]
    pub(crate) files: Vec<PathBuf>,
    /// How to write it [default: a run file without its launches, which is small]
    #[arg(long, value_parser = export_format())]
    pub(crate) format: Option<&'static Format>,
    /// For another program: every metric of each point, not only the one that answers its probe's question
    #[arg(long, requires = "format")]
    pub(crate) all_metrics: bool,
    /// Write into this file, or folder if it exists or its name ends in / [default: standard output]
    ///
    /// What was there stays whole until it is replaced.
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) out: Option<PathBuf>,
    /// Leave out host names, addresses and the command line
    #[arg(long)]
    pub(crate) anonymous: bool,
}

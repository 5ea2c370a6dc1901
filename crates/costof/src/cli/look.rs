//! The options of commands that show what there is: `costof runs`, `list` and `explain`.

use super::values::run_file;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RunsOptions {
    /// All of them, not only the latest
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Only these: an id, a layer, a glob, or what has to do with a word (zerocopy)
    #[arg(value_name = "PROBE|WORD")]
    pub(crate) probes: Vec<String>,
    /// Write the probes' full descriptions as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// Which: an id, a layer, a glob, or a word for what it measures (fsync)
    #[arg(value_name = "PROBE|WORD")]
    pub(crate) probe: String,
    /// Show the sums behind this run's predictions [default: those of the latest run in the history
    /// that has measured the probe]
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) run: Option<PathBuf>,
}

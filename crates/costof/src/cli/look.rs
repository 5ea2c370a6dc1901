//! The options of commands that show what there is: `costof runs`, `list` and `explain`.

use super::values::run_file;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct RunsOptions {
    /// Show all runs, not only the latest
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Show only these: an id, a layer, a glob, or a word to search for (zerocopy)
    #[arg(value_name = "PROBE|WORD")]
    pub(crate) probes: Vec<String>,
    /// Print the probes' full descriptions as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// Which probe: an id, a layer, a glob, or a word for what it measures (fsync)
    #[arg(value_name = "PROBE|WORD")]
    pub(crate) probe: String,
    /// Show the sums behind the predictions of this run [default: the latest run in the history that
    /// measured the probe]
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) run: Option<PathBuf>,
}

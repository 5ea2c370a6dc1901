//! The options of `costof qualify`.

use super::Measuring;
use super::gate::{Gate, Required};
use super::values::{change, risk, time};
use clap::{Args, ValueHint};
use costof_model::qualified::Risks;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    mut_arg("quick", |quick| quick.hide(true)),
    mut_arg("full", |full| full.hide(true)),
    mut_arg("until_alone", |until_alone| until_alone.hide(true))
)]
pub(crate) struct QualifyOptions {
    /// The reference, as `costof fleet RUN… --save FILE` wrote it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) against: PathBuf,
    /// How long to measure at most; it stops as soon as it is decided
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time)]
    pub(crate) budget: Duration,
    /// The change that matters
    ///
    /// Rows in which hosts differ too much to show it are not judged.
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = change)]
    pub(crate) change: f64,
    /// The producer's risk: how often a host like those of the reference may fail
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = risk, hide_short_help = true)]
    pub(crate) producer_risk: f64,
    /// The consumer's risk: how often a host that is worse by the change in a row may pass that row
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = risk, hide_short_help = true)]
    pub(crate) consumer_risk: f64,
    /// The reference's cohort with this number [default: the one with this host's facts]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) cohort: Option<usize>,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) required: Required,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// Where to write the run: a file, or a folder (DIR/) for one named after the host [default: the
    /// history]
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) out: Option<PathBuf>,
    /// Print only one line: the verdict and its reason, for a node health check
    #[arg(long, conflicts_with = "json")]
    pub(crate) reason: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl QualifyOptions {
    pub(crate) fn risks(&self) -> Risks {
        Risks { change: self.change, producer: self.producer_risk, consumer: self.consumer_risk }
    }
}

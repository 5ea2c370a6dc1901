//! The options of `costof estimate`.

use super::values::run_file;
use super::{Measuring, Quiet};
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    costof estimate '10 * net.rtt(over lan) + 3 * file.sync + 1MiB / memory.bandwidth'\n  \
    costof estimate --measure 'max(net.rtt(over=udp, size=1KiB), 20us) + 2 * os.syscall'\n\n\
    A probe stands for its primary metric at its defaults; in parentheses, axis=value and over LINK \
    choose another point, the link last. Numbers may have a unit: KiB, MiB, GiB, kB, MB, GB, ns, us, ms, s.")]
pub(crate) struct EstimateOptions {
    /// The expression: numbers, probes, + * / ( ) and max(a, b) for what happens at the same time
    #[arg(required = true, value_name = "EXPRESSION")]
    pub(crate) expression: Vec<String>,
    /// Take measured points from this run [default: the latest runs of this machine in the history]
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) run: Option<PathBuf>,
    /// Measure the points that no run has, first
    #[arg(long)]
    pub(crate) measure: bool,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    /// Write the estimate as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

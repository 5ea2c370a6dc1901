//! The options of `costof estimate`.

use super::Measuring;
use super::values::run_file;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    costof estimate '10 * net.rtt(over lan) + 3 * file.sync + 1MiB / memory.bandwidth'\n  \
    costof estimate --measure 'max(net.rtt(over=udp, size=1KiB), 20us) + 2 * os.syscall'\n\n\
    A probe's name stands for its main metric with default axes. Parentheses choose another point: \
    axis=value, …, and `over LINK` last. An everyday word stands for its probe: fsync, fork, mutex. Numbers \
    may be 10k or 2M, and have a unit: KiB, MiB, GiB, kB, MB, GB, Mbit, Gbit, ns, us, ms, s, and /s.")]
pub(crate) struct EstimateOptions {
    /// The sum: numbers, probes, + * / ( ), and max(a, b) for things that happen at the same time
    #[arg(required = true, value_name = "EXPRESSION")]
    pub(crate) expression: Vec<String>,
    /// Take the costs from this run
    ///
    /// [default: of the latest 30 runs of this machine that have it, the one in which the cost has the best grade, and of
    /// several the newest]
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) run: Option<PathBuf>,
    /// First measure the points that no run has with a usable interval and a grade better than D
    #[arg(long)]
    pub(crate) measure: bool,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// Print the estimate as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

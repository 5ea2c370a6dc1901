//! The options of `costof bill`.

use super::values::{means, run_file, time};
use clap::{Args, ValueHint};
use costof_model::bill::Means;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    override_usage = "costof bill [OPTIONS] -- PROGRAM [ARG…]\n       costof bill [OPTIONS] --pid N\n       \
                      costof bill --diff BEFORE AFTER",
    after_help = "Why is it slow in the kernel, and what would help?\n  \
                  costof bill -- tar -cf /dev/null src\n\
                  Why did the new version get slower? Two commands, or two files of --save:\n  \
                  costof bill --diff './old input' './new input'"
)]
pub(crate) struct BillOptions {
    /// The program with its arguments, started as it is, some times
    #[arg(value_name = "PROGRAM", last = true, required_unless_present_any = ["pid", "diff", "show"],
          conflicts_with_all = ["pid", "diff", "show"], value_hint = ValueHint::CommandWithArguments)]
    pub(crate) argv: Vec<OsString>,
    /// A process that runs already, by its number
    #[arg(long, value_name = "N", conflicts_with_all = ["diff", "show"], value_parser = clap::value_parser!(u32).range(1..=i32::MAX.into()))]
    pub(crate) pid: Option<u32>,
    /// How long to look at the process: a second or more
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = time,
          conflicts_with_all = ["argv", "diff", "show"])]
    pub(crate) how_long: Duration,
    /// Say which counts changed between two bills
    ///
    /// And what that explains of the change in time. Each is a file of --save, or a command.
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    pub(crate) diff: Vec<String>,
    /// How long to run the program, half of it counted
    #[arg(long, value_name = "DURATION", default_value = "4s", value_parser = time, conflicts_with_all = ["pid", "show"])]
    pub(crate) budget: Duration,
    /// How to count: ebpf (root) or ptrace
    ///
    /// [default: ebpf where this user may use it]
    #[arg(long, value_name = "MEANS", value_parser = means(), hide_possible_values = true, conflicts_with = "show")]
    pub(crate) by: Option<Means>,
    /// The file that the program reads [default: /dev/null]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true,
          conflicts_with_all = ["pid", "show"])]
    pub(crate) input: Option<PathBuf>,
    /// Go on if the program fails
    #[arg(short, long, conflicts_with_all = ["pid", "show"])]
    pub(crate) ignore_failure: bool,
    /// Take the prices from this run, and measure none
    ///
    /// [default: of the latest 30 runs of this machine that have it, the one in which the price has the best grade; what they
    /// lack, or have only with grade D, is measured, for at most 20 s]
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file(), conflicts_with = "show")]
    pub(crate) prices: Option<PathBuf>,
    /// Measure no price: what no run has is predicted
    #[arg(long, conflicts_with_all = ["prices", "show"])]
    pub(crate) no_measure: bool,
    /// Add what the counts cost by another machine's run
    ///
    /// May be repeated.
    #[arg(long = "as", value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file(),
          conflicts_with_all = ["diff", "show"])]
    pub(crate) elsewhere: Vec<PathBuf>,
    /// Show every item
    #[arg(long)]
    pub(crate) all: bool,
    /// Save the bill in this file, for --diff and --show
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["diff", "show"])]
    pub(crate) save: Option<PathBuf>,
    /// Show a saved bill
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "diff")]
    pub(crate) show: Option<PathBuf>,
    /// Write a page too: one file that needs no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "diff")]
    pub(crate) html: Option<PathBuf>,
    /// Print Prometheus' text format
    #[arg(long, conflicts_with_all = ["json", "diff"])]
    pub(crate) prometheus: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

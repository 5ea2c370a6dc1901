//! The options of `costof fleet`.

use super::gate::Gate;
use super::values::runs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(mut_arg("junit", |junit| junit.requires("fail_odd")))]
pub(crate) struct FleetOptions {
    /// Runs of many hosts, one or several of each: files, or folders of them
    #[arg(value_name = "RUN|FOLDER", value_hint = ValueHint::AnyPath, value_parser = runs(), required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Compare hosts that are alike in these facts, such as kernel,processor; or none
    /// [default: processor,processors,hypervisor]
    #[arg(long, value_name = "FACT,…", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// Compare the hosts with one value of this fact with those with the other: kernel, microcode, processor …
    #[arg(long, value_name = "FACT")]
    pub(crate) versus: Option<String>,
    /// Print only what --versus found, in three lines for a ticket
    #[arg(long, requires = "versus", conflicts_with = "reason")]
    pub(crate) summary: bool,
    /// Print the summary as Markdown
    #[arg(long, requires = "summary", conflicts_with = "json", hide_short_help = true)]
    pub(crate) markdown: bool,
    /// Save what these hosts cost, for `costof qualify --against FILE` on another host
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) save: Option<PathBuf>,
    /// End with exit code 1 if a host is odd, and with 3 if a host is inconclusive
    #[arg(long)]
    pub(crate) fail_odd: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    /// Write a page too: one file that needs no network, with a heat map of hosts and rows
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print only a line for each odd host: its name and the reason, for a scheduler
    #[arg(long, conflicts_with = "json")]
    pub(crate) reason: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

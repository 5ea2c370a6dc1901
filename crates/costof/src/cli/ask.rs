//! The options of `costof ask`.

use super::values::run_file;
use super::{Measuring, Peer, Remote};
use clap::{ArgGroup, Args, ValueHint};
use costof_lab::host::Host;
use costof_model::Link;
use std::path::PathBuf;

#[derive(Debug, Default, Args)]
#[command(group(ArgGroup::new("path").args(["links", "peer"])))]
pub(crate) struct AskOptions {
    /// Which question: a name from the list, or words of a study's question
    #[arg(value_name = "QUESTION")]
    pub(crate) question: Option<String>,
    /// The size of a message or block, such as 32KiB
    #[arg(long, value_name = "BYTES", requires = "question")]
    pub(crate) size: Option<String>,
    /// How many separately allocated fields a message has
    #[arg(long, value_name = "COUNT", requires = "question")]
    pub(crate) fields: Option<String>,
    /// The path between client and server, as for `costof run`
    #[arg(id = "links", long = "link", value_name = "LINK", requires = "question")]
    pub(crate) link: Option<Link>,
    /// Where to measure, as for `costof run`
    #[arg(long, value_name = "HOST", requires = "question")]
    pub(crate) on: Option<Host>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) remote: Remote,
    /// Answer from an existing run, instead of measuring
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file(),
          requires = "question", conflicts_with_all = ["quick", "full", "cpu", "seed", "no_wait", "Quiet",
          "on", "peer"])]
    pub(crate) run: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

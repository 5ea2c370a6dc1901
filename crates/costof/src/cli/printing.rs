//! The options of every command that prints a run.

use clap::{Args, ColorChoice};

/// How a run is printed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print all notes instead of their count
    ///
    /// Notes are missed predictions, disturbed batches, links, what has no number, findings, and reasons for grades.
    #[arg(long)]
    pub(crate) notes: bool,
    /// Print each row's probe and axes too
    #[arg(long, hide_short_help = true)]
    pub(crate) ids: bool,
    /// Whether to colour grades and missed predictions
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_short_help = true)]
    pub(crate) color: ColorChoice,
    /// Print JSON instead of a table
    ///
    /// Each point has a line, also one without a number.
    #[arg(long)]
    pub(crate) json: bool,
}

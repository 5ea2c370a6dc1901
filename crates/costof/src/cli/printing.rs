//! The options of every command that prints a run.

use clap::{Args, ColorChoice};

/// How a run is printed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print all notes instead of their count: missed predictions, disturbed batches, links, what has
    /// no number, findings, reasons for grades
    #[arg(long)]
    pub(crate) notes: bool,
    /// Print each row's probe and axes too
    #[arg(long)]
    pub(crate) ids: bool,
    /// Whether to colour grades and missed predictions
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// Print JSON instead of a table: one line for each point, also for those without a number
    #[arg(long)]
    pub(crate) json: bool,
}

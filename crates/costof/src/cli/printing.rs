//! The options of every command that prints a run.

use clap::{Args, ColorChoice};

/// How a run is printed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print all notes, instead of their number: missed predictions, disturbed batches, links, what has
    /// no number, findings, what cost a grade
    #[arg(long)]
    pub(crate) notes: bool,
    /// Print each row's probe and axes besides its label
    #[arg(long)]
    pub(crate) ids: bool,
    /// Whether grades and missed predictions are coloured
    #[arg(long, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub(crate) color: ColorChoice,
    /// Write the points, and those that have no number, as JSON, one a line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

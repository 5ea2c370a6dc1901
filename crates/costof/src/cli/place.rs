//! The options of `costof place`.

use super::values::run_file;
use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    after_help = "A reference is a file of `costof fleet RUN… --save FILE`, or of one host: `costof export --anonymous --format reference`."
)]
pub(crate) struct PlaceOptions {
    /// The run of this host: a file, or @1 for the latest one, @2 for the one before [default: the latest]
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) file: Option<PathBuf>,
    /// References to compare with: a file, or a folder of them; may be repeated
    /// [default: the corpus that comes with costof]
    #[arg(long, value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub(crate) among: Vec<PathBuf>,
    /// Show each row, with its position and interval
    #[arg(long, conflicts_with = "json")]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

//! The option that all commands share whose exit code may stop a script or a job.

use clap::{Args, ValueEnum};

/// What a check does that cannot be decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Undecided {
    /// It ends with exit code 3
    #[default]
    Fail,
    /// It passes
    Pass,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Gate {
    /// Exit status when the result is inconclusive: nothing is significantly worse, but not everything could be decided
    #[arg(long, value_name = "WHAT", default_value = "fail")]
    pub(crate) undecided: Undecided,
}

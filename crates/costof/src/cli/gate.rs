//! The options that all commands share whose exit code may stop a script or a job.

use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// The exit codes of every check, short and long.
pub(super) const EXIT_CODES: [&str; 2] = [
    "Exit codes: 0 within the threshold, 1 worse, 2 an error, 3 inconclusive",
    "Exit codes of a check:\n    \
       0  everything is decided, and within the threshold\n    \
       1  something is significantly worse\n    \
       2  the command or an input is wrong\n    \
       3  inconclusive (0 with --undecided pass), or nothing could be measured or compared\n  \
     130  interrupted",
];

/// What a check does that is inconclusive.
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
    /// What an inconclusive result does: fail (exit code 3) or pass (0)
    ///
    /// A result is inconclusive if nothing is significantly worse, but not everything could be decided.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "fail",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub(crate) undecided: Undecided,
    /// Write what was checked for a pipeline, in JUnit's XML
    ///
    /// Each row, host or command is a test case: what failed is a failure, and what is inconclusive an error, or
    /// skipped where it need not be decided.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) junit: Option<PathBuf>,
}

/// What must be decided, of commands that check the rows of probes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Required {
    /// Which probes must be decided: the rows of all others may stay inconclusive
    #[arg(long, value_name = "PROBE,…", value_delimiter = ',', hide_short_help = true)]
    pub(crate) require: Vec<String>,
}

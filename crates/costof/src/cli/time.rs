//! The options of `costof time`. Where hyperfine has the same, it has the same name.

use super::gate::Gate;
use super::values::{count, percent, time};
use clap::{Args, ValueHint};
use costof_measure::command::MetricPattern;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(
    override_usage = "costof time [OPTIONS] CMD [CMD…]\n       costof time [OPTIONS] -- PROGRAM [ARG…]",
    after_help = "Compare two commands, and end with 1 if the second takes more than 2 % more:\n  \
                  costof time --threshold 2% 'gzip -k -f old.txt' 'gzip -k -f new.txt'\n\
                  One command for each value:\n  \
                  costof time -L level 1,6,9 'gzip -{level} -c data'"
)]
pub(crate) struct TimeOptions {
    /// A command line; several are run in turns
    ///
    /// It is run directly if it needs no shell syntax, otherwise by sh.
    #[arg(value_name = "CMD", required_unless_present = "argv")]
    pub(crate) commands: Vec<String>,
    /// A program with its arguments, started as it is
    #[arg(value_name = "PROGRAM", last = true, conflicts_with = "commands", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) argv: Vec<OsString>,
    /// A name for a command, in their order
    #[arg(short = 'n', long = "name", alias = "command-name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Values for {NAME} in the commands
    ///
    /// They stand between commas (`\,` is a comma in a value). Several parameters are crossed.
    #[arg(short = 'L', long, num_args = 2, value_names = ["NAME", "A,B,C"], hide_short_help = true)]
    pub(crate) parameter_list: Vec<String>,
    /// Numbers for {NAME} in the commands, from MIN to MAX
    #[arg(short = 'P', long, num_args = 3, value_names = ["NAME", "MIN", "MAX"], allow_negative_numbers = true,
          hide_short_help = true)]
    pub(crate) parameter_scan: Vec<String>,
    /// The step of --parameter-scan [default: 1]
    #[arg(
        short = 'D',
        long,
        value_name = "STEP",
        requires = "parameter_scan",
        hide_short_help = true
    )]
    pub(crate) parameter_step_size: Option<f64>,
    #[command(flatten)]
    pub(crate) turns: TurnOptions,
}

/// How commands are measured in turns, whatever they are.
#[derive(Debug, Args)]
#[command(mut_arg("junit", |junit| junit.requires("threshold")))]
pub(crate) struct TurnOptions {
    /// Measure for about this long, such as 30s
    ///
    /// [default: 2.5 s for one command, 5 s for each of several]
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) budget: Option<Duration>,
    /// Runs of each command, regardless of the budget
    #[arg(short, long, value_name = "N", value_parser = count(1_u32, 100_000), conflicts_with = "budget")]
    pub(crate) runs: Option<u32>,
    /// Runs of each command before those that count
    ///
    /// With 0 the first run counts too: it is on all CPUs, since it shows whether the command has one thread.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = count(0_u32, 10_000))]
    pub(crate) warmup: u32,
    /// Fail if a command is significantly more than this many percent worse than the first
    ///
    /// The exit code is 1 then, and 3 if that is inconclusive.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) threshold: Option<f64>,
    #[command(flatten)]
    pub(crate) gate: Gate,
    /// What is compared: alone, cpu, wall, or a number that the commands print
    ///
    /// alone is the CPU time with the core in the same state; cpu and wall are the times as the commands ran. A number
    /// that the commands print is given by its name. [default: alone; wall if a command mostly waits]
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// More of the compared metric is better, as of a rate
    #[arg(long, requires = "metric", hide_short_help = true)]
    pub(crate) higher_is_better: bool,
    /// A number that the commands print, by a regular expression with one group. Lines such as
    /// `costof: rate 1250 req/s` are read without it
    #[arg(long, value_name = "NAME=REGEX", value_parser = MetricPattern::parse, hide_short_help = true)]
    pub(crate) metric_regex: Vec<MetricPattern>,
    /// CPUs for the commands, such as 1 or 2,4-6
    ///
    /// [default: all; before each turn, a command of one thread is placed on the CPU whose core is freest]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// The seed of the order within each turn [default: a new one]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// Run before each run of a command; not measured
    ///
    /// One for all, or one for each command.
    #[arg(short, long, value_name = "CMD")]
    pub(crate) prepare: Vec<String>,
    /// Run after each run of a command; not measured. One for all, or one for each command
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub(crate) conclude: Vec<String>,
    /// Run once before everything
    ///
    /// Start servers and daemons (sccache, gradle, bazel) here: background processes that a command leaves are killed
    /// after each run.
    #[arg(short, long, value_name = "CMD")]
    pub(crate) setup: Option<String>,
    /// Run once after everything
    #[arg(short, long, value_name = "CMD")]
    pub(crate) cleanup: Option<String>,
    /// Run every command by this shell (default: sh), or none: then a command is split into words as sh does
    #[arg(short = 'S', long, value_name = "SHELL|default|none", hide_short_help = true)]
    pub(crate) shell: Option<String>,
    /// The same as --shell none
    #[arg(short = 'N', conflicts_with = "shell", hide_short_help = true)]
    pub(crate) no_shell: bool,
    /// The file that the commands read, or null [default: null]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) input: Option<PathBuf>,
    /// Where the commands' output goes: null, inherit, pipe, or a file, such as ./out
    #[arg(long, value_name = "WHERE", default_value = "null", value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub(crate) output: String,
    /// The same as --output inherit
    #[arg(long, hide = true, conflicts_with = "output")]
    pub(crate) show_output: bool,
    /// Go on if a command fails
    #[arg(short, long)]
    pub(crate) ignore_failure: bool,
    /// Write hyperfine's JSON to this file
    #[arg(long, alias = "export-json", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) export: Option<PathBuf>,
    /// Print a table as Markdown, for an issue
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub(crate) markdown: bool,
    /// Print JSON
    ///
    /// It has each run, and all that follows from them.
    #[arg(long)]
    pub(crate) json: bool,
}

impl TurnOptions {
    /// The shell of each command; absent if only those have one that need it.
    pub(crate) fn shell(&self) -> Option<&str> {
        if self.no_shell { Some("none") } else { self.shell.as_deref() }
    }

    /// The file that the commands read; none for `null`.
    pub(crate) fn input(&self) -> Option<&Path> {
        self.input.as_deref().filter(|input| *input != Path::new("null"))
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "The check of a pull request, which ends with 1 if it makes the program significantly slower:\n  \
                  costof against origin/main --build 'make' --threshold 2% -- ./program input"
)]
pub(crate) struct AgainstOptions {
    /// The revision to compare with, such as main, v1.2 or HEAD~1
    #[arg(value_name = "REV")]
    pub(crate) revision: String,
    /// The program with its arguments, started in both work trees
    ///
    /// In each work tree, it starts in the folder that corresponds to the current one.
    #[arg(value_name = "PROGRAM", last = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    pub(crate) argv: Vec<OsString>,
    /// Builds the program; run in both work trees
    ///
    /// What it leaves of an earlier build stays.
    #[arg(long, value_name = "CMD")]
    pub(crate) build: Option<String>,
    #[command(flatten)]
    pub(crate) turns: TurnOptions,
}

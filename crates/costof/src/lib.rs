//! The command line of costof: parsing, plans, progress, exit codes.
//!
//! This crate never computes a result. It is a library, separate from its binary, so that tests can use
//! another table of probes.

mod anonymous;
mod cli;
mod commands;
mod controller;
mod error;
mod file_name;
mod files;
mod history;
mod machine;
mod placement;
mod plan;
mod prediction;
mod preflight;
mod progress;
mod project;
mod record;
mod resume;
mod session;
mod terminal;

use clap::{ArgMatches, FromArgMatches};
use cli::{Cli, Command};
use costof_measure::probe::Probe;
use costof_model::harmless;
use costof_os::process::{stack_limit_bytes, survive_file_size_limit};
use costof_os::sched::real_time;
use error::{Context, Done, Error, Result};
use record::Table;
use std::error::Error as _;
use std::io::Write;
use std::process::ExitCode;

/// A smaller stack could overflow. A process usually has eight times as much.
const MIN_STACK_BYTES: u64 = 1 << 20;

/// The whole program, for this table of probes.
pub fn main(table: &'static [&'static Probe]) -> ExitCode {
    survive_file_size_limit();
    end_by_panic_code();
    if let Some(bytes) = stack_limit_bytes().filter(|bytes| *bytes < MIN_STACK_BYTES) {
        return failed(&error::wrong(format_args!(
            "a stack of {} KiB may be too small: costof needs {} KiB (raise `ulimit -s`)",
            bytes >> 10,
            MIN_STACK_BYTES >> 10
        )));
    }
    let code = match cli::command().try_get_matches() {
        Ok(matches) => ended(execute(table, &matches)),
        Err(error) => match error.source().and_then(|source| source.downcast_ref::<Error>()) {
            Some(own) => failed(own),
            None => helped(&error),
        },
    };
    terminal::write_messages();
    code
}

/// The exit code of a panic, as where it unwinds.
const PANICKED: i32 = 101;

/// Where a panic aborts, as in a release, it ends this process by its exit code too, and not by a signal.
fn end_by_panic_code() {
    if cfg!(panic = "abort") {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            std::process::exit(PANICKED);
        }));
    }
}

fn execute(table: Table, matches: &ArgMatches) -> Done {
    let cli = Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit());
    leave_real_time(&cli.command)?;
    let table = with_own_probes(table, &cli)?;
    match cli.command {
        Command::Run(options) => commands::run::run(table, &options),
        Command::Time(options) => commands::time::run(&options),
        Command::Bill(options) => commands::bill::run(table, &options),
        Command::Against(options) => commands::against::run(&options),
        Command::Show(options) => commands::show::run(table, &options),
        Command::Runs(options) => commands::runs::run(table, &options),
        Command::List(options) => commands::list::run(table, &options),
        Command::Explain(options) => commands::explain::run(table, &options),
        Command::Ask(options) => commands::ask::run(table, &options),
        Command::Estimate(options) => commands::estimate::run(table, &options),
        Command::Doctor(options) => commands::doctor::run(&options),
        Command::Compare(options) => commands::compare::run(table, &options),
        Command::Fleet(options) => commands::fleet::run(table, &options),
        Command::Qualify(options) => commands::qualify::run(table, &options),
        Command::Place(options) => commands::place::run(table, &options),
        Command::History(options) => commands::history::run(table, &options),
        Command::Verify(options) => commands::verify::run(table, &options),
        Command::Study(options) => commands::study::run(table, &options),
        Command::Report(options) => commands::report::run(table, &options),
        Command::Export(options) => commands::export::run(table, &options),
        Command::Completions { shell } => commands::help::completions(shell),
        Command::Man => commands::help::man(),
        Command::Worker { end_with_parent } => commands::worker::run(table, end_with_parent),
        Command::Hold { link } => commands::worker::hold(&link),
        Command::Link { link, seed } => commands::link::run(&link, seed),
        Command::Send(options) => commands::send::run(&options),
    }
}

/// The table, with the project's own probes if the command measures or describes probes. A worker gets the file that its
/// controller has found.
fn with_own_probes(table: Table, cli: &Cli) -> Result<Table> {
    match (&cli.project, &cli.command) {
        (Some(file), _) => project::with_file(table, file),
        (
            None,
            Command::Run(_)
            | Command::List(_)
            | Command::Explain(_)
            | Command::Estimate(_)
            | Command::Compare(_)
            | Command::Qualify(_),
        ) => Ok(project::with_found(table)),
        _ => Ok(table),
    }
}

/// Puts this process, and everything that it starts, under the ordinary scheduling policy: a thread that spins under a
/// real-time one would keep the controller, and everything else, from running on its CPU.
fn leave_real_time(command: &Command) -> Result<()> {
    let what =
        "cannot leave the scheduling policy that costof was started under (start it without chrt)";
    // Workers answer their controller alone.
    let is_quiet = matches!(command, Command::Worker { .. } | Command::Hold { .. });
    if let Some(inherited) = real_time::leave().context(what)?.filter(|_| !is_quiet) {
        terminal::log(format!(
            "started under {inherited}, which is left: costof and its workers run under the ordinary policy, as a \
             thread that spins under a real-time one would stop the machine"
        ));
    }
    Ok(())
}

/// Prints a help text, or what is wrong with the command line, whose words may come from anywhere.
fn helped(error: &clap::Error) -> ExitCode {
    let mut words = std::env::args_os();
    let printed = if words.any(|word| word.to_string_lossy().contains(harmless::is_harmful)) {
        let text = harmless::lines(&error.render().to_string());
        std::io::stderr().write_all(text.as_bytes())
    } else {
        error.print().and_then(|()| std::io::stdout().flush())
    };
    let code = ExitCode::from(error.exit_code() as u8);
    if error.use_stderr() {
        return code;
    }
    ended(printed.map(|()| code).map_err(Error::Output))
}

fn ended(done: Done) -> ExitCode {
    match done {
        Ok(code) => code,
        // The reader of help, or of what has no end, has seen enough; other output ends as if all were read.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// Reports an error once.
fn failed(error: &Error) -> ExitCode {
    terminal::log(error);
    ExitCode::from(error.exit_code())
}

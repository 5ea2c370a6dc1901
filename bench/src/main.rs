//! `costof-bench`: costof beside its peers, interleaved, with a verdict for each
//! comparison. It never measures by itself, but for the ends of `rudp` and `rpc`: costof, its
//! peers and this machine do, and it holds their numbers side by side.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that prints tables for people"
)]

mod bench;
mod commands;
mod compare;
mod contest;
mod contests;
mod copy;
mod costof;
mod crossovers;
mod fleet;
mod grades;
mod history;
mod huge_pages;
mod link;
mod load;
mod machine;
mod neighbours;
mod piped;
mod program;
mod qualify;
mod role;
mod rounds;
mod rpc;
mod rudp;
mod share;
mod speed;
mod stand_still;
mod throttle;
mod variation;
mod verdict;

use crate::bench::{Bench, Options};
use crate::error::Error;
use clap::{Parser, Subcommand};
use costof_peers::{child, error, server};
use std::path::PathBuf;
use std::process::ExitCode;

/// costof against its peers, interleaved. Each comparison prints its rounds, its
/// numbers, and a verdict for each bound.
#[derive(Debug, Parser)]
#[command(
    name = "costof-bench",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "bench/README.md says what each compares and on which definition.\n\n\
                  Exit codes: 0 every verdict holds; 1 one does not, or is inconclusive;\n\
                  2 the bench could not run; 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    comparison: Comparison,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Subcommand)]
enum Comparison {
    #[command(flatten)]
    Pairs(contests::Pairs),
    /// Where sends without a copy begin to pay, into a sink: three runs that agree within 1.5 times
    Crossovers,
    /// A link's delay by ping, idle and beside 50 Mb/s, its losses and its rate by iperf3
    Link,
    /// Runs in a row: by how much each row varies, and the share of grades A and B
    Variation,
    /// `costof run --quick` and `costof run` in turns: how far rows of one CPU stand still, grades, time, share alone
    StandStill,
    /// Seconds and memory of `costof run`, milliseconds of `costof list`
    Speed,
    /// Minutes of `costof run --full`
    Full,
    /// A neighbour's load turns grades to C or D; without it most are A or B
    Grades,
    /// costof and other tools under loads: rows of grade A to C stay within 3 % of their quiet value
    Neighbours {
        /// Under which loads; without, all
        loads: Vec<neighbours::Neighbour>,
    },
    /// costof time against hyperfine on commands with planted truths: coverage, false alarms, what is found, widths
    Commands {
        /// What of it; without, all
        part: Option<commands::Part>,
        #[command(flatten)]
        size: commands::Size,
    },
    /// costof compare against itself: false alarms in at most 5 % of tries, 5 % planted found in at least 90 %
    Compare {
        /// What of it; without, same and planted
        part: Option<compare::Part>,
    },
    /// costof fleet on 1,000 hosts resampled from runs: at most 5 % of those called odd are not; beside fixed rules
    Fleet {
        /// Runs of different minutes or hosts, with their launches
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        #[command(flatten)]
        fleets: fleet::Fleets,
    },
    /// costof qualify on hosts resampled from runs: at most 5 % of those that belong fail, at most 10 % of slowed rows pass
    Qualify {
        /// Runs of different minutes or hosts, with their launches
        #[arg(required = true)]
        runs: Vec<PathBuf>,
    },
    /// costof history against Apache Otava and cargo-bench-history on series made of these runs: false alarms, delays, F1
    History {
        /// Runs of the same on one machine, in their order
        #[arg(required = true)]
        runs: Vec<PathBuf>,
    },
    /// rudp against raw UDP, TCP and quinn on loopback, and what it makes of links that lose
    Rudp {
        /// What of it; without, all
        part: Option<rudp::Part>,
    },
    /// gRPC against Go's and C++'s, Thrift against Apache's C++: at most 1.05 times, streams at least 0.95
    Rpc {
        /// What of it; without, all but `build`
        part: Option<rpc::Part>,
        #[command(flatten)]
        size: rpc::Size,
    },
    /// Play one end of what `rpc` compares
    #[command(hide = true)]
    RpcEnd {
        /// Of which stack, which, and with what
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Play one end of what `rudp` compares
    #[command(hide = true)]
    End {
        /// Which, and with what
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Be a load until standard input closes
    #[command(hide = true)]
    Load {
        /// Which
        #[command(subcommand)]
        load: load::Load,
    },
}

fn main() -> ExitCode {
    let Cli { comparison, options } = Cli::parse();
    match comparison {
        Comparison::RpcEnd { words } => rpc::run_role(&words),
        Comparison::End { words } => rudp::run_role(&words),
        Comparison::Load { load } => load.execute(),
        comparison => match Bench::prepare(options).and_then(|bench| comparison.judge(&bench)) {
            Ok(verdicts) => verdict::exit_code(&verdicts),
            Err(error) => {
                eprintln!("costof-bench: {error}");
                match error {
                    Error::Failed(_) => ExitCode::from(2),
                    Error::Interrupted => ExitCode::from(130),
                }
            }
        },
    }
}

impl Comparison {
    /// The verdicts of a comparison; what the bench starts as a child has none.
    fn judge(self, bench: &Bench) -> error::Result<Vec<verdict::Verdict>> {
        let verdicts = match self {
            Comparison::Pairs(pairs) => contests::compare(bench, pairs),
            Comparison::Crossovers => crossovers::compare(bench),
            Comparison::Link => link::compare(bench),
            Comparison::Variation => variation::compare(bench),
            Comparison::StandStill => stand_still::compare(bench),
            Comparison::Speed => speed::compare(bench),
            Comparison::Full => speed::full(bench),
            Comparison::Grades => grades::compare(bench),
            Comparison::Neighbours { loads } => neighbours::compare(bench, &loads),
            Comparison::Commands { part, size } => commands::compare(bench, part, size),
            Comparison::Compare { part } => compare::compare(bench, part),
            Comparison::Fleet { runs, fleets } => fleet::compare(bench, &runs, &fleets),
            Comparison::Qualify { runs } => qualify::compare(bench, &runs),
            Comparison::History { runs } => history::compare(bench, &runs),
            Comparison::Rudp { part } => rudp::compare(bench, part),
            Comparison::Rpc { part, size } => rpc::compare(bench, part, size),
            Comparison::RpcEnd { .. } | Comparison::End { .. } | Comparison::Load { .. } => {
                Ok(Vec::new())
            }
        };
        bench.conclude();
        verdicts
    }
}

//! The command line: every command and option, described where it is defined.
//! Help, man page and completions come from here.

mod values;

pub(crate) use values::{setting, token};

use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint, value_parser};
use clap_complete::Shell;
use costof_lab::host::Host;
use costof_measure::schedule::Precision;
use costof_model::link::Link;
use costof_probes::interactive::Address;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use values::{SendAxes, address, launches, percent, ports, seconds, time};

/// What does this cost here? A clock read, a system call, a cache miss: measured
/// on this machine, with a 95 % interval, a prediction to compare it with, and a
/// grade that says how far it can be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "costof",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Begin with `costof run`: it measures this machine in under a minute.\n\
                  `costof list` shows what can be measured, `costof explain PROBE` how.\n\n\
                  Exit codes: 0 done; 1 a check failed (regression or problem found); 2 the command \
                  or an input is wrong;\n3 nothing could be measured, or --require-quiet found a busy machine; 130 interrupted, with what was \
                  measured kept."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine. Without arguments: its latency table, in under a minute
    Run(RunOptions),
    /// Show what can be measured
    List(ListOptions),
    /// Say how a probe measures, what it predicts from, and where it comes from
    Explain(ExplainOptions),
    /// Estimate the cost of an expression, such as '10 * net.rtt(over lan) + 3 * file.sync'
    Estimate(EstimateOptions),
    /// Say what here will make numbers worse or missing, and what to do about it
    Doctor(DoctorOptions),
    /// Make a link between two named network namespaces, for people to enter
    #[command(subcommand)]
    Link(LinkCommand),
    /// Send messages interactively, as copy.send does: one terminal listens, others send to it
    Send(SendOptions),
    /// Say what became better or worse from one run to another, and how sure that is
    Compare(CompareOptions),
    /// Compare costof with other installed programs that measure the same, in turns
    Verify(VerifyOptions),
    /// Reproduce a published study on this machine. Without arguments: the list of studies
    Study(StudyOptions),
    /// Make a page of a run, its plots as files, or its numbers as a table
    Report(ReportOptions),
    /// Write a run without its launches: small, and without names if asked
    Export(ExportOptions),
    /// Write completions for a shell
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Write the manual page
    Man,
    /// Measure what a controller asks for on standard input
    #[command(hide = true)]
    Worker {
        /// End when the process that started it ends
        #[arg(long)]
        end_with_parent: bool,
    },
    /// Hold a link for a controller until standard input closes
    #[command(hide = true)]
    Hold {
        /// Which
        link: Link,
        /// Between the namespaces of `costof link`
        #[arg(long)]
        named: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Make it: network namespaces costof-server (10.0.0.1, fd00:c057::1) and costof-client
    /// (10.0.0.2, fd00:c057::2), joined
    Up {
        /// Which: veth, lan, wan, or spelt out, such as delay=10ms,loss=1%,up.rate=100Mbit
        #[arg(default_value = "veth")]
        link: Link,
        /// The seed that decides which packets are lost, late or duplicated
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Say which one is up, and what it has done to packets since
    Status,
    /// Take it away
    Down,
}

/// How a machine is measured, whatever the command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Measuring {
    /// A first look: fewer launches; without a PROBE, the 20 rows that matter most, in at most 20
    /// seconds; for a study less of what takes long
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// More and longer launches: what a result to publish deserves; without a PROBE, of every point
    /// of every probe
    #[arg(long)]
    pub(crate) full: bool,
    /// CPUs to measure on, such as 1 or 2,4-6 [default: one that usually has little else to do]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// The seed of every random choice, such as the order of launches [default: a new one]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End, instead of waiting, where another costof measures the machine
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long a worker may take for one answer before it is ended
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds())]
    pub(crate) timeout: u64,
}

/// What to do where a machine is busy before it is measured.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Quiet {
    /// Wait up to this long, such as 5m, until other processes leave the machine alone; measure
    /// anyway after that
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) wait_quiet: Option<Duration>,
    /// End with exit code 3 instead of measuring a busy machine; with --wait-quiet, after the wait
    #[arg(long)]
    pub(crate) require_quiet: bool,
}

impl Measuring {
    pub(crate) fn precision(&self) -> Precision {
        match (self.quick, self.full) {
            (true, _) => Precision::Quick,
            (_, true) => Precision::Full,
            _ => Precision::Default,
        }
    }

    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// Which points are measured, how often, and over which links.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Chosen {
    /// Launches per point, regardless of the time budget; with four times as many an interval is
    /// about half as wide [default: up to 20, with --quick up to 6]
    #[arg(long, value_name = "N", value_parser = launches())]
    pub(crate) launches: Option<u32>,
    /// Values for an axis instead of the probe's own plan; several axes are crossed
    #[arg(long = "set", value_name = "AXIS=V,V…", value_parser = setting)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// The path between client and server: loopback, veth, lan, wan, or spelt out, such as
    /// delay=10ms,loss=1%,up.rate=100Mbit; sink has the sender's half only, for copy.send;
    /// several are measured in turns
    #[arg(long = "link", value_name = "LINK")]
    pub(crate) links: Vec<Link>,
    /// The costof to start on hosts that ssh reaches [default: the one that a login there finds]
    #[arg(long, value_name = "PATH")]
    pub(crate) remote_costof: Option<String>,
}

#[derive(Clone, Debug, Default, Args)]
#[command(group(ArgGroup::new("path").args(["links", "peer"])))]
pub(crate) struct RunOptions {
    /// What to measure: an id (os.syscall), a layer (os) or a glob ('*.latency')
    /// [default: the latency table, or with --set what has such an axis]
    #[arg(value_name = "PROBE")]
    pub(crate) probes: Vec<String>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// Where to measure: local, netns:NAME, ssh:HOST, ssh:USER@HOST, exec:COMMAND (whose input and
    /// output reach a `costof worker`); several hosts do the same, each with a run of its own
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Vec<Host>,
    /// Where the other peer runs, the server's or receiver's
    #[arg(long, value_name = "HOST")]
    pub(crate) peer: Option<Host>,
    /// The address at which the other peer listens, such as fd00:c057::1 over a link that costof
    /// makes [default: loopback, the one by which ssh came there, or its first]
    #[arg(long, value_name = "ADDRESS", requires = "path", value_parser = address)]
    pub(crate) peer_address: Option<IpAddr>,
    /// The ports on which the other peer may listen, where a firewall lets only some through
    #[arg(long, value_name = "FIRST-LAST", requires = "peer",
          conflicts_with = "links", value_parser = ports)]
    pub(crate) peer_port: Option<(u16, u16)>,
    /// CPUs for the other peer, as --cpu for the leading one
    #[arg(long, value_name = "LIST", requires = "peer", conflicts_with = "links")]
    pub(crate) peer_cpu: Option<String>,
    /// Where the run is kept, with several hosts a folder for one file each
    /// [default: the history, $XDG_STATE_HOME/costof/runs]
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath,
          conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Continue an interrupted run: only what is missing is measured
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "probes", "quick", "full", "cpu", "seed", "Chosen", "on", "peer", "peer_address",
            "peer_port", "peer_cpu"
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Resume although the costof, the host, the CPU model or the kernel differs, or although the
    /// file names commands that start workers
    #[arg(long, requires = "resume")]
    pub(crate) force: bool,
    /// Show the points, and what measuring them takes, without measuring
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    /// Write the points, and those that have no number, as JSON, one a line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunOptions {
    /// Those of `costof run` alone, measured like this into `out`.
    pub(crate) fn new(measuring: Measuring, quiet: Quiet, out: Option<PathBuf>) -> RunOptions {
        RunOptions {
            measuring,
            quiet,
            out,
            ..RunOptions::default()
        }
    }
}

#[derive(Debug, Default, Args)]
pub(crate) struct StudyOptions {
    /// Which: a name of the list, or a file of your own
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) study: Option<String>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    /// The folder for run.jsonl, page.html and study.md [default: study-NAME]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "study")]
    pub(crate) out: Option<PathBuf>,
    /// Show an existing run next to the study, instead of measuring
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "study",
          conflicts_with_all = ["quick", "full", "dry_run", "cpu", "seed", "no_wait", "unoptimised", "Quiet"])]
    pub(crate) run: Option<PathBuf>,
    /// An unoptimised costof (`cargo build` makes target/debug/costof), for the figures that are of
    /// one
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) unoptimised: Option<PathBuf>,
    /// Write comma-separated values too: a file for each point, and a summary, into FOLDER/csv
    #[arg(long)]
    pub(crate) csv: bool,
    /// Show the points, and what measuring them takes, without measuring
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Only these: an id, a layer or a glob
    #[arg(value_name = "PROBE")]
    pub(crate) probes: Vec<String>,
    /// Write the probes' full descriptions as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// Which: an id, a layer or a glob
    #[arg(value_name = "PROBE")]
    pub(crate) probe: String,
    /// Show the sums behind this run's predictions [default: those of the latest run in the history
    /// that has measured the probe]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) run: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    costof estimate '10 * net.rtt(over lan) + 3 * file.sync + 1MiB / memory.bandwidth'\n  \
    costof estimate --measure 'max(net.rtt(over=udp, size=1KiB), 20us) + 2 * os.syscall'\n\n\
    A probe stands for its primary metric at its defaults; in parentheses, axis=value and over LINK \
    choose another point, the link last. Numbers may have a unit: KiB, MiB, GiB, kB, MB, GB, ns, us, ms, s.")]
pub(crate) struct EstimateOptions {
    /// The expression: numbers, probes, + * / ( ) and max(a, b) for what happens at the same time
    #[arg(required = true, value_name = "EXPRESSION")]
    pub(crate) expression: Vec<String>,
    /// Take measured points from this run [default: the latest runs of this machine in the history]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) run: Option<PathBuf>,
    /// Measure the points that no run has, first
    #[arg(long)]
    pub(crate) measure: bool,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    /// Write the estimate as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Write what was found as JSON, one finding a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("mode").args(["listen", "to"]).required(true)),
          after_help = "In one terminal:  costof send --listen 127.0.0.1:7000\n\
                        In another one, with the token that the first one shows:\n  \
                        COSTOF_TOKEN=… costof send --to 127.0.0.1:7000 --primitive zero_copy\n\n\
                        `costof explain copy.send` says what is sent and measured, and how.")]
pub(crate) struct SendOptions {
    /// Listen, until Ctrl-C: HOST:PORT (an IPv6 address in brackets, port 0 for any), or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Address>,
    /// Send to the receiver that listens there
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: Option<Address>,
    /// Connections without this token are refused [default: COSTOF_TOKEN or a file; a receiver
    /// generates one and shows it]
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(crate) token: Option<String>,
    /// The file that holds the token; a receiver writes one there if there is none, and removes it
    /// at its end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Accept every sender, without a token
    #[arg(long, conflicts_with_all = ["to", "token", "token_file"])]
    pub(crate) open: bool,
    /// How many senders may be served at a time
    #[arg(long, value_name = "N", conflicts_with = "to", default_value = "16",
          value_parser = value_parser!(u16).range(1..=256))]
    pub(crate) max_clients: u16,
    /// The ports on which messages may come, where a firewall lets only some through
    #[arg(long, value_name = "FIRST-LAST", conflicts_with = "to", value_parser = ports)]
    pub(crate) data_port: Option<(u16, u16)>,
    #[command(flatten)]
    pub(crate) axes: SendAxes,
    #[command(flatten)]
    pub(crate) sending: SendingOptions,
    /// Write what was measured as JSON, one object a line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of senders only.
#[derive(Debug, Args)]
#[group(requires = "to")]
#[command(next_help_heading = values::SENDING)]
pub(crate) struct SendingOptions {
    /// End after so many messages of each connection
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after this time, such as 500ms or 1min [default without --count: 10s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) duration: Option<Duration>,
    /// A value on any axis of copy.send, such as source=cold
    #[arg(long = "set", value_name = "AXIS=V", value_parser = setting)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "costof compare [OPTIONS] BEFORE AFTER…\n       \
                            costof compare [OPTIONS] --interleave HOST HOST [PROBE]…",
    after_help = "Two builds of costof, launch beside launch, and a page of it:\n  \
                        costof compare --interleave 'exec:old/costof worker' 'exec:new/costof worker' \
                        os --html page.html",
    mut_group("Measuring", |group| group.requires("interleave")),
    mut_group("Quiet", |group| group.requires("interleave")),
    mut_group("Chosen", |group| group.requires("interleave"))
)]
pub(crate) struct CompareOptions {
    /// The baseline run and those to compare with it, each by itself; with --interleave what to
    /// measure, as `costof run` takes it
    #[arg(value_name = "FILE|PROBE", value_hint = ValueHint::AnyPath)]
    pub(crate) what: Vec<PathBuf>,
    /// Measure two hosts in one go, launch beside launch, and compare the second with the first:
    /// hosts as `costof run --on` takes them, such as local and 'exec:/old/costof worker'
    #[arg(long, value_names = ["HOST", "HOST"], num_args = 2)]
    pub(crate) interleave: Vec<Host>,
    /// Compare every metric, not only those that answer the probes' questions
    #[arg(long)]
    pub(crate) all_metrics: bool,
    /// End with exit code 1 if anything surely became worse by more than this, in percent, or has no
    /// number any more
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// Write JSON, one object for each run after the first, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page too: one file that needs no network, with plots of both
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    #[command(
        flatten,
        next_help_heading = "Options of --interleave, as of `costof run`"
    )]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    /// A folder for before.jsonl and after.jsonl, the runs [default: the history]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "interleave")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools: perf, sysbench, stress-ng, mbw, fio, iperf3, sockperf, ping, lmbench. \
                        One that is not installed is named with its Debian package.\n\n\
                        Exit codes beside the usual: 0 whatever could be compared was; 1 with \
                        --threshold, a ratio surely lies further from what is expected, or a tool that \
                        is here gave no number; 3 nothing could be compared."
)]
pub(crate) struct VerifyOptions {
    /// Which: tools (perf) or probes, by an id (os.syscall), a layer (os) or a glob [default: all]
    #[arg(value_name = "TOOL|PROBE")]
    pub(crate) which: Vec<String>,
    /// How often both sides of each comparison are measured; an interval takes three
    #[arg(long, value_name = "N", default_value = "6",
          value_parser = value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// CPUs to measure on, such as 1 or 2,4-6: the first is measured, the second serves the other
    /// peer
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// End with exit code 1 if a ratio surely lies further than this, in percent, from the range that
    /// is expected of it, or a tool that is here gave no number
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// How long a tool, or costof beside it, may take for one number before it is ended, and how long
    /// another costof that measures this machine is waited for before
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds())]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    /// Write JSON, one object for each comparison, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// The run [default: the latest of the history]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Write the page there: one file that needs no network. Without this and the others, it goes
    /// into the current folder, by the name of the run file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Write every plot into this folder as SVG, for a paper
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) svg: Option<PathBuf>,
    /// Write comma-separated values: into a file, a row for each point and metric; into a folder
    /// (which is there, or whose name ends in /), a file for each point with all that its launches
    /// measured, and a summary
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) csv: Option<PathBuf>,
    /// Print the table as Markdown, for a README or an issue
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Leave out host names, addresses and the command line
    #[arg(long)]
    pub(crate) anonymous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// The run
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Leave out host names, addresses and the command line
    #[arg(long)]
    pub(crate) anonymous: bool,
}

//! The command line: every command and option, described where it is defined.
//! Help, man page and completions come from here.

mod ask;
mod bill;
mod estimate;
mod export;
mod fleet;
pub(crate) mod gate;
mod groups;
mod look;
mod peer;
mod place;
pub(crate) mod printing;
mod qualify;
mod send;
mod study;
mod time;
mod values;

pub(crate) use ask::AskOptions;
pub(crate) use bill::BillOptions;
pub(crate) use costof_model::plan::setting;
pub(crate) use estimate::EstimateOptions;
pub(crate) use export::{ExportOptions, ReportOptions};
pub(crate) use fleet::FleetOptions;
pub(crate) use groups::command;
pub(crate) use look::{ExplainOptions, ListOptions, RunsOptions};
pub(crate) use peer::Peer;
pub(crate) use place::PlaceOptions;
pub(crate) use printing::Printing;
pub(crate) use qualify::QualifyOptions;
pub(crate) use send::SendOptions;
pub(crate) use study::StudyOptions;
pub(crate) use time::{AgainstOptions, TimeOptions, TurnOptions};
pub(crate) use values::token;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint, value_parser};
use clap_complete::Shell;
use costof_lab::host::{Host, HostSet};
use costof_measure::schedule::Precision;
use costof_model::Link;
use gate::{Gate, Required};
use std::path::PathBuf;
use std::time::Duration;
use values::{change, count, launches, percent, run_file, runs, seconds, time};

/// What does this cost here? A clock read, a system call, a cache miss: measured
/// on this machine, with a 95 % interval, a prediction to compare it with, and a
/// grade that says how far it can be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "costof",
    version = env!("COSTOF_VERSION"),
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = include_str!("cli/after_help.txt")
)]
pub(crate) struct Cli {
    /// The file that defines your own probes [default: costof.toml here or above, within the repository]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, global = true, hide_short_help = true,
          display_order = 998)]
    pub(crate) project: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this machine. Without arguments: its latency table
    Run(RunOptions),
    /// Measure your own command, or compare several
    Time(TimeOptions),
    /// Show what your program pays in the kernel, and what would help
    Bill(BillOptions),
    /// Compare your program with another revision of it, such as main
    Against(AgainstOptions),
    /// Print the table of a run again
    Show(ShowOptions),
    /// List the runs, the latest first
    Runs(RunsOptions),
    /// Show what can be measured, or search it for a word
    List(ListOptions),
    /// Draw how a thing works, and explain how it is measured
    Explain(ExplainOptions),
    /// Answer a question by measuring. Without arguments: the list
    Ask(AskOptions),
    /// Estimate a sum of costs, such as '10 * net.rtt + 3 * file.sync'
    Estimate(EstimateOptions),
    /// Find what spoils measurements on this machine, and how to fix it
    Doctor(DoctorOptions),
    /// Make a link between two network namespaces, for your own tools
    ///
    /// It joins the network namespaces costof-server (10.0.0.1, fd00:c057::1) and costof-client (10.0.0.2,
    /// fd00:c057::2) until Ctrl-C. An emulated link then says what it did to packets.
    Link {
        /// Which link: veth, lan, wan, or spelt out, such as delay=10ms,loss=1%,up.rate=100Mbit
        #[arg(default_value = "veth")]
        link: Link,
        /// The seed that decides which packets the link loses, delays or duplicates
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Send messages between two terminals, as copy.send does
    Send(SendOptions),
    /// Show what became better or worse between runs
    Compare(CompareOptions),
    /// Find the outliers among many hosts, from their runs
    Fleet(FleetOptions),
    /// Check this host's health, compared with a fleet of good ones
    Qualify(QualifyOptions),
    /// Show where a run lies among machines like this one
    Place(PlaceOptions),
    /// Show what changed for good over a series of runs
    History(HistoryOptions),
    /// Compare costof with other programs that measure the same
    Verify(VerifyOptions),
    /// Reproduce a published study. Without arguments: the list
    Study(StudyOptions),
    /// Turn a run into a page
    Report(ReportOptions),
    /// Write a run as CSV, Markdown or plots, or for another program
    Export(ExportOptions),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
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
    },
}

/// How a machine is measured, whatever the command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Measuring {
    /// A first look: fewer launches, and less of what takes long
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// More and longer launches, for results to publish
    #[arg(long)]
    pub(crate) full: bool,
    /// CPUs to measure on, such as 1 or 2,4-6
    ///
    /// Rows of one CPU stay on the first one. [default: for each launch one that is alone on its core]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// The seed of every random choice, such as the order of launches [default: a new one]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) seed: Option<u64>,
    /// If another costof is measuring the machine, end instead of waiting
    #[arg(long, hide_short_help = true)]
    pub(crate) no_wait: bool,
    /// Measure up to this much longer, such as 2m, the rows for which the core was never alone for long enough; without it,
    /// for what is left of the announced time, or a tenth more
    #[arg(long, value_name = "DURATION", value_parser = time, hide_short_help = true)]
    pub(crate) until_alone: Option<Duration>,
    /// How long a worker may take to answer before it is killed; longer for points that take long
    /// by themselves, and at least 10 s to describe its machine
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, hide_short_help = true)]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
}

/// What to do where a machine is busy before it is measured.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Quiet {
    /// Wait up to this long for a quiet machine
    ///
    /// If other processes still use it then, such as after 5m, it is measured anyway.
    #[arg(long, value_name = "DURATION", value_parser = time)]
    pub(crate) wait_quiet: Option<Duration>,
    /// End with exit code 3 instead of measuring a busy machine; with --wait-quiet, after the wait
    #[arg(long, hide_short_help = true)]
    pub(crate) require_quiet: bool,
}

/// What `--quick` and `--full` of `costof run` do.
const QUICK: [&str; 2] = [
    "A first look: 20 rows in about 20 seconds",
    "A first look: fewer launches, without the points that take long. Without a PROBE: the 20 rows that matter most, in \
     about 20 seconds",
];
const FULL: [&str; 2] = [
    "Everything, with narrow intervals",
    "More and longer launches, for results to publish. Without a PROBE: every point of every probe",
];

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
    /// Launches per point, regardless of the time budget; four times as many halve the width of an
    /// interval [default: up to 20, with --quick up to 6]
    #[arg(long, value_name = "N", value_parser = launches(), hide_short_help = true)]
    pub(crate) launches: Option<u32>,
    /// Measure for at most this long, such as 30s or 5m
    ///
    /// Points for which the time is too short are left out, and named. [default: 50 s, with --quick 15 s, and what
    /// long probes need]
    #[arg(long, value_name = "DURATION", value_parser = time, conflicts_with = "launches")]
    pub(crate) budget: Option<Duration>,
    /// Values of an axis; several axes are crossed
    ///
    /// Only these are measured, with the defaults of the other axes.
    #[arg(long = "set", value_name = "AXIS=V,V…", value_parser = setting)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// Measure nothing that only predictions need
    #[arg(long)]
    pub(crate) only: bool,
    /// The path between two ends: lan, wan, delay=10ms
    ///
    /// A name (loopback, veth, lan, wan), or spelt out, such as delay=10ms,loss=1%,up.rate=100Mbit; for copy.send also
    /// sink, which has only the sender's half. Several links take turns.
    #[arg(long = "link", value_name = "LINK")]
    pub(crate) links: Vec<Link>,
}

/// Which costof measures on hosts that ssh reaches.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Remote {
    /// The costof to start on ssh: hosts [default: the one in the PATH of a login there if it has this
    /// version, else a static build that is copied there, into ~/.cache/costof]
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub(crate) remote_costof: Option<String>,
    /// Remove the copies of costof from ssh: hosts afterwards
    #[arg(long, conflicts_with = "remote_costof", hide_short_help = true)]
    pub(crate) clean: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(
    group(ArgGroup::new("path").args(["links", "peer", "to"])),
    mut_arg("quick", |quick| quick.help(QUICK[0]).long_help(QUICK[1])),
    mut_arg("full", |full| full.help(FULL[0]).long_help(FULL[1]))
)]
pub(crate) struct RunOptions {
    /// What to measure: an id (os.syscall), a layer (os), a glob ('*.latency') or a word (fsync)
    ///
    /// [default: the latency table; with --set, every probe with such an axis]
    #[arg(value_name = "PROBE")]
    pub(crate) probes: Vec<String>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    #[command(flatten)]
    pub(crate) remote: Remote,
    /// Where: ssh:HOST, ssh:node[01-16], exec:COMMAND
    ///
    /// local, netns:NAME, ssh:HOST, ssh:USER@HOST, ssh:node[01-16,20] or exec:COMMAND (which starts a `costof worker`).
    /// Each of several hosts measures the same, into a run of its own.
    #[arg(long = "on", id = "on", value_name = "HOST")]
    pub(crate) sets: Vec<HostSet>,
    /// The hosts of these sets.
    #[arg(skip)]
    pub(crate) on: Vec<Host>,
    /// Measure on at most this many hosts at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u16).range(1..),
          hide_short_help = true)]
    pub(crate) fanout: u16,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// For net.ping: a host that has no costof, by its name or address, as for ping(8)
    #[arg(long, value_name = "HOST", conflicts_with_all = ["peer_address", "on"], hide_short_help = true)]
    pub(crate) to: Option<String>,
    /// Where the run goes: a file, or a folder (DIR/)
    ///
    /// In a folder, each host has a file named after it. `-` is standard output, instead of the table. [default: the history, $XDG_STATE_HOME/costof/runs]
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath,
          conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Continue an interrupted run
    ///
    /// Only what is missing is measured.
    #[arg(
        long,
        value_name = "RUN",
        value_hint = ValueHint::FilePath,
        value_parser = run_file(),
        conflicts_with_all = [
            "probes", "quick", "full", "cpu", "seed", "Chosen", "Remote", "on", "peer", "peer_address",
            "peer_port", "peer_cpu", "to"
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Resume even if costof, the host, the CPU model or the kernel has changed, or if the file names
    /// commands that start workers
    #[arg(long, requires = "resume", hide_short_help = true)]
    pub(crate) force: bool,
    /// Wait after each launch until the disk has it, so that no power failure costs more than one
    /// [default: after each block]
    #[arg(long, hide_short_help = true)]
    pub(crate) sync: bool,
    /// Show what is measured, and how long it takes
    ///
    /// Nothing is measured. The points are shown, and the time and space that they take.
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    /// Say at the end what changed for good against your earlier runs of the host, as `costof history`
    /// finds it
    #[arg(long, conflicts_with_all = ["dry_run", "json"], hide_short_help = true)]
    pub(crate) history: bool,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// The run [default: the latest of the history]
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath, value_parser = run_file())]
    pub(crate) file: Option<PathBuf>,
    /// Show these metrics too, such as cpu_sender,latency
    #[arg(long, value_name = "METRICS", value_delimiter = ',', conflicts_with = "json")]
    pub(crate) metrics: Vec<String>,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

impl RunOptions {
    /// Those of `costof run` alone, measured like this into `out`.
    pub(crate) fn new(measuring: Measuring, out: Option<PathBuf>) -> RunOptions {
        RunOptions { measuring, out, ..RunOptions::default() }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no problem, or fit; 1 a problem; 2 an error; 3 with --ci: not fit, skip the check"
)]
pub(crate) struct DoctorOptions {
    /// In five seconds: is this machine fit to judge a change, as in CI?
    ///
    /// A program that computes is compared with itself, in turns. The first line says whether a check would see the change in
    /// time. Below are the machine's class, who else used its cores, and the smallest change that shows in how long. The exit
    /// code is 3 where a check should be skipped.
    #[arg(long)]
    pub(crate) ci: bool,
    /// The change that the check should see
    #[arg(long = "for", value_name = "PERCENT", default_value = "2", value_parser = change, requires = "ci")]
    pub(crate) change: f64,
    /// How long the check may take
    #[arg(long, value_name = "DURATION", default_value = "10min", value_parser = time, requires = "ci")]
    pub(crate) budget: Duration,
    /// Print JSON: one line for each finding, or one object with --ci
    #[arg(long)]
    pub(crate) json: bool,
    /// Do this much of the work that --ci compares with itself.
    #[arg(long, hide = true, exclusive = true)]
    pub(crate) work: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "costof compare [OPTIONS] [BEFORE AFTER…]\n       \
                            costof compare [OPTIONS] BEFORE… --with AFTER…\n       \
                            costof compare [OPTIONS] --interleave HOST HOST [PROBE]…",
    after_help = "Compare two builds of costof in turns, and write a page:\n  \
                        costof compare --interleave 'exec:old/costof worker' 'exec:new/costof worker' \
                        os --html page.html",
    // A group with another one in it has no arguments of its own for clap.
    group(ArgGroup::new("measured")
        .args(["quick", "full", "cpu", "seed", "no_wait", "until_alone", "timeout"])
        .multiple(true)
        .requires("interleave")),
    mut_group("Quiet", |group| group.requires("interleave")),
    mut_group("Chosen", |group| group.requires("interleave")),
    mut_group("Remote", |group| group.requires("interleave")),
    mut_arg("junit", |junit| junit.requires("threshold")),
    mut_arg("require", |require| require.requires("threshold"))
)]
pub(crate) struct CompareOptions {
    /// The baseline run and those to compare with it
    ///
    /// Each later run is compared with the first. With --interleave: what to measure, as for `costof run`. [default:
    /// the latest run, and of those before it the one that has most points in common with it]
    #[arg(value_name = "RUN|PROBE", value_hint = ValueHint::AnyPath, value_parser = runs())]
    pub(crate) what: Vec<PathBuf>,
    /// Compare the runs before this option, all together, with these
    ///
    /// Any number of runs, boots and hosts a side: files, or folders of them. Two folders need no --with.
    #[arg(long, value_name = "RUN", value_hint = ValueHint::AnyPath, value_parser = runs(), num_args = 1.., conflicts_with = "interleave", requires = "what")]
    pub(crate) with: Vec<PathBuf>,
    /// Measure two hosts in turns, and compare the second with the first
    ///
    /// They take turns launch by launch. Hosts are as for `costof run --on`, such as local and 'exec:/old/costof
    /// worker'. --help has the options of a measurement.
    #[arg(long, value_names = ["HOST", "HOST"], num_args = 2)]
    pub(crate) interleave: Vec<Host>,
    /// Compare every metric, not only those that answer the probes' questions
    #[arg(long, hide_short_help = true)]
    pub(crate) all_metrics: bool,
    /// Show all rows, also the unchanged and the inconclusive ones
    #[arg(long)]
    pub(crate) all: bool,
    /// Print only three lines, for a ticket: the layers, the rows that changed most, and what cannot be told
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print the summary as Markdown
    #[arg(long, requires = "summary", conflicts_with = "json", hide_short_help = true)]
    pub(crate) markdown: bool,
    /// Fail if anything is significantly more than this many percent worse
    ///
    /// The output begins with PASS, FAIL or INCONCLUSIVE and the reason. The exit code is 1 if anything is significantly
    /// more than this many percent worse, and 3 if a row could not show that. Without it, 5 % is the smallest change
    /// that matters.
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) required: Required,
    /// Print JSON instead of a table: one object for each run after the first
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page of two runs or groups too: one file that needs no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Options of --interleave, as for `costof run`")]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
    #[command(flatten)]
    pub(crate) remote: Remote,
    /// A folder for the two runs, before.jsonl and after.jsonl [default: the history]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "interleave")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools: perf, sysbench, stress-ng, mbw, fio, iperf3, sockperf, ping, openssl, pg_test_fsync, cc, lmbench. \
                        For a tool that is not installed, the output names its Debian package.",
    mut_arg("junit", |junit| junit.requires("threshold"))
)]
pub(crate) struct VerifyOptions {
    /// What to compare: tools (perf), or probes by id (os.syscall), layer (os) or glob [default: all]
    #[arg(value_name = "TOOL|PROBE")]
    pub(crate) which: Vec<String>,
    /// How often to measure both sides of each comparison; an interval needs three rounds
    #[arg(long, value_name = "N", default_value = "6",
          value_parser = value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// CPUs to measure on, such as 1 or 2,4-6: the first is measured, the other peer runs on the
    /// second
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// End with exit code 1 if a ratio surely lies more than this many percent outside its expected
    /// range, or if an installed tool gave no number; and with 3 if a ratio may lie outside
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    #[command(flatten)]
    pub(crate) gate: Gate,
    /// How long a tool, or costof, may take for one number before it is killed; also how long to wait
    /// for another costof that measures this machine
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) quiet: Quiet,
    /// Print JSON instead of text: one object for each comparison
    #[arg(long)]
    pub(crate) json: bool,
}

/// One false alarm in this many runs, unless the user says otherwise.
pub(crate) const FALSE_ALARM_RUNS: u32 = 1000;

#[derive(Debug, Args)]
#[command(
    mut_arg("junit", |junit| junit.requires("fail_changed")),
    mut_arg("require", |require| require.requires("fail_changed"))
)]
pub(crate) struct HistoryOptions {
    /// The runs of one host, or of hosts that are alike: files, or folders of them [default: your own]
    #[arg(value_name = "RUN|FOLDER", value_hint = ValueHint::AnyPath, value_parser = runs())]
    pub(crate) runs: Vec<PathBuf>,
    /// Allow one false alarm in this many runs, over all rows
    #[arg(long, value_name = "RUNS", default_value_t = FALSE_ALARM_RUNS, value_parser = count(10, u32::MAX))]
    pub(crate) false_alarm_runs: u32,
    /// End with exit code 1 if the latest run shows a change, and with 3 if too few runs could show one
    #[arg(long)]
    pub(crate) fail_changed: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) required: Required,
    /// Write a page too: one file that needs no network, with the changes and each row over time
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

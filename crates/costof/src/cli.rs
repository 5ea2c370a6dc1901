//! The command line: every command and option, described where it is defined.
//! Help, man page and completions come from here.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use costof_lab::host::Host;
use costof_measure::schedule::{LEAST_LAUNCHES, MOST_LAUNCHES};
use costof_model::axis::{AxisValue, Domain};
use costof_model::link::Link;
use costof_probes::by_hand::{self, Address};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What does this cost here? A clock read, a system call, a cache miss: measured
/// on this machine, with a 95 % interval, a prediction to hold it against, and a
/// grade that says how far it can be trusted.
#[derive(Debug, Parser)]
#[command(
    name = "costof",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Begin with `costof run`: it measures this machine in under a minute.\n\
                  `costof list` shows what can be measured, `costof explain PROBE` how.\n\n\
                  Exit codes: 0 done; 1 a check found what it looks for; 2 the command or an \
                  input is wrong;\n3 nothing could be measured; 130 interrupted, with what was \
                  measured kept."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure: alone, the latency table of this machine in under a minute
    Run(RunOptions),
    /// Show what can be measured
    List(ListOptions),
    /// Say how a probe measures, what it predicts from, and where it comes from
    Explain(ExplainOptions),
    /// Say what here will make numbers worse or missing, and what to do about it
    Doctor(DoctorOptions),
    /// Make a link between two named network namespaces, for people to enter
    #[command(subcommand)]
    Link(LinkCommand),
    /// Send messages by hand, as copy.send does: one terminal listens, others send to it
    Send(SendOptions),
    /// Say what became better or worse from one run to another, and how sure that is
    Compare(CompareOptions),
    /// Hold costof against other programs that are installed and measure the same, in turns
    Verify(VerifyOptions),
    /// Hold what a course or a paper published beside what this machine gives; alone, the list
    Study(StudyOptions),
    /// Make a page of a run, its plots as files, or its numbers as a table
    Report(ReportOptions),
    /// Write a run without its launches: small, and without names if asked
    Export(ExportOptions),
    /// Write completions for a shell
    Completions(CompletionsOptions),
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
        /// Draws which packets are lost, or late, or go twice
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Say which one is up, and what it has done to packets since
    Status,
    /// Take it away
    Down,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunOptions {
    /// What to measure: an id (os.syscall), a layer (os) or a glob ('*.latency');
    /// without, the latency table, or with --set what has such an axis
    #[arg(value_name = "PROBE")]
    pub(crate) probes: Vec<String>,
    /// Fewer launches: a first look
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// More and longer launches: what a result to publish deserves; alone, of every point of
    /// every probe
    #[arg(long)]
    pub(crate) full: bool,
    /// So many launches of each point, whatever time they take: with four times as many an interval is
    /// about half as wide; without, up to 6 with --quick, else 20, as their time allows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(launches()))]
    pub(crate) launches: Option<u32>,
    /// Values for an axis instead of the probe's own plan; several axes are crossed
    #[arg(long = "set", value_name = "AXIS=V,V…", value_parser = setting)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// Processors to measure on, such as 1 or 2,4-6; without, one that usually has
    /// little else to do
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// The path between the two ends of what has two: loopback, veth, lan, wan, or spelt out, such as
    /// delay=10ms,loss=1%,up.rate=100Mbit; sink has the sender's half only, for copy.send;
    /// several are measured in turns
    #[arg(long = "link", value_name = "LINK", group = "path")]
    pub(crate) links: Vec<Link>,
    /// Where to measure: local, netns:NAME, ssh:HOST, ssh:USER@HOST, exec:COMMAND (whose input and
    /// output reach a `costof worker`); several hosts do the same, each with a run of its own
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Vec<Host>,
    /// Where the other end runs of what has two, the server's or receiver's
    #[arg(long, value_name = "HOST", conflicts_with = "links", group = "path")]
    pub(crate) peer: Option<Host>,
    /// The address at which the other end listens, such as fd00:c057::1 over a link that costof
    /// makes; without, loopback, the one by which ssh came there, or its first
    #[arg(long, value_name = "ADDRESS", requires = "path", value_parser = address)]
    pub(crate) peer_address: Option<IpAddr>,
    /// The ports on which the other end may listen, where a firewall lets only some through
    #[arg(long, value_name = "FIRST-LAST", requires = "peer",
          conflicts_with = "links", value_parser = ports)]
    pub(crate) peer_port: Option<(u16, u16)>,
    /// Processors for the other end, as --cpu says them for the leading one
    #[arg(long, value_name = "LIST", requires = "peer", conflicts_with = "links")]
    pub(crate) peer_cpu: Option<String>,
    /// The costof to start on hosts that ssh reaches; without, the one that a login there finds
    #[arg(long, value_name = "PATH")]
    pub(crate) remote_costof: Option<String>,
    /// End, instead of waiting, where another costof measures the machine
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Where the run is kept, with several hosts a folder for one file each; without, in the history:
    /// $XDG_STATE_HOME/costof/runs
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath,
          conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with an interrupted run: only what is missing is measured
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "probes", "quick", "full", "launches", "settings", "cpu", "links", "seed", "on", "peer",
            "peer_address", "peer_port", "peer_cpu", "remote_costof"
        ]
    )]
    pub(crate) resume: Option<PathBuf>,
    /// Resume although the costof, the host, the processor or the kernel is another one, or although
    /// the file names commands that start workers
    #[arg(long, requires = "resume")]
    pub(crate) force: bool,
    /// Draws the order of launches and whatever else is drawn; without, a new one
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Show the points, and what measuring them takes, without measuring
    #[arg(long, conflicts_with = "resume")]
    pub(crate) dry_run: bool,
    /// Write the points, and those that have no number, as JSON, one a line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// How long a worker may take for one answer before it is ended
    #[arg(long, value_name = "SECONDS", default_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct StudyOptions {
    /// Which: a name of the list, or a file of your own
    #[arg(value_name = "NAME|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) study: Option<String>,
    /// Fewer launches, and less of what takes long: under six minutes
    #[arg(long, conflicts_with_all = ["full", "run"])]
    pub(crate) quick: bool,
    /// More and longer launches
    #[arg(long, conflicts_with = "run")]
    pub(crate) full: bool,
    /// The folder for run.jsonl, page.html and study.md; without, study-NAME
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "study")]
    pub(crate) out: Option<PathBuf>,
    /// Hold a run that is there beside the study, instead of measuring
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "study",
          conflicts_with_all = ["dry_run", "cpu", "seed", "no_wait", "unoptimised"])]
    pub(crate) run: Option<PathBuf>,
    /// An unoptimised costof (`cargo build` makes target/debug/costof), for the figures that are of
    /// one
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) unoptimised: Option<PathBuf>,
    /// Write comma-separated values too: a file for each point, and a summary, into FOLDER/csv
    #[arg(long)]
    pub(crate) csv: bool,
    /// Processors to measure on, as `costof run` takes them
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// Draws the order of launches and whatever else is drawn; without, a new one
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End, instead of waiting, where another costof measures the machine
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Show the points, and what measuring them takes, without measuring
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long a worker may take for one answer before it is ended
    #[arg(long, value_name = "SECONDS", default_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

impl RunOptions {
    /// Those of `costof run` alone.
    pub(crate) fn bare() -> RunOptions {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Bare {
            #[command(flatten)]
            options: RunOptions,
        }
        Bare::parse_from([""; 0]).options
    }
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
    /// Show the sums behind this run's predictions; without, those of the latest
    /// run in the history that has measured the probe
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) run: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Write what was found as JSON, one finding a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("end").args(["listen", "to"]).required(true)),
          after_help = "In one terminal:  costof send --listen 127.0.0.1:7000\n\
                        In another one, with the token that the first one shows:\n  \
                        COSTOF_TOKEN=… costof send --to 127.0.0.1:7000 --primitive zero_copy\n\n\
                        `costof explain copy.send` says what is sent and measured, and how.")]
pub(crate) struct SendOptions {
    /// Listen, until Ctrl-C: HOST:PORT (an IPv6 address in brackets, port 0 for any), or unix:PATH
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Address>,
    /// Send to who listens there
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: Option<Address>,
    /// What a sender must say before anything else; without, COSTOF_TOKEN or a file, and who
    /// listens draws one and shows it
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(crate) token: Option<String>,
    /// The file that holds the token; who listens writes one there if there is none, and takes it
    /// away at its end
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// Listen to whoever calls, without a token
    #[arg(long, conflicts_with_all = ["to", "token", "token_file"])]
    pub(crate) open: bool,
    /// How many senders may be served at a time
    #[arg(long, value_name = "N", conflicts_with = "to", default_value = "16",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) max_clients: u16,
    /// The ports on which messages may come, where a firewall lets only some through
    #[arg(long, value_name = "FIRST-LAST", conflicts_with = "to", value_parser = ports)]
    pub(crate) data_port: Option<(u16, u16)>,
    #[arg(long, value_name = "WORD", requires = "to", value_parser = word("primitive"), help = about("primitive"),
          help_heading = SENDING)]
    pub(crate) primitive: Option<AxisValue>,
    #[arg(long, value_name = "BYTES", requires = "to", value_parser = value("size"), help = about("size"),
          help_heading = SENDING)]
    pub(crate) size: Option<AxisValue>,
    /// End after so many messages of each connection
    #[arg(long, value_name = "N", requires = "to",
          value_parser = clap::value_parser!(u64).range(1..), help_heading = SENDING)]
    pub(crate) count: Option<u64>,
    /// End after this time, such as 500ms or 1min; without, and without --count, 10s
    #[arg(long, value_name = "TIME", requires = "to", value_parser = time,
          help_heading = SENDING)]
    pub(crate) duration: Option<Duration>,
    #[arg(long, value_name = "N", requires = "to", value_parser = value("threads"), help = about("threads"),
          help_heading = SENDING)]
    pub(crate) threads: Option<AxisValue>,
    #[arg(long, value_name = "WORD", requires = "to", value_parser = word("pattern"), help = about("pattern"),
          help_heading = SENDING)]
    pub(crate) pattern: Option<AxisValue>,
    #[arg(long, value_name = "N", requires = "to", value_parser = value("in_flight"), help = about("in_flight"),
          help_heading = SENDING)]
    pub(crate) in_flight: Option<AxisValue>,
    #[arg(long, value_name = "N", requires = "to", value_parser = value("fields"), help = about("fields"),
          help_heading = SENDING)]
    pub(crate) fields: Option<AxisValue>,
    #[arg(long, value_name = "WORD", requires = "to", value_parser = word("buffers"), help = about("buffers"),
          help_heading = SENDING)]
    pub(crate) buffers: Option<AxisValue>,
    #[arg(long, value_name = "WORD", requires = "to", value_parser = word("over"), help = about("over"),
          help_heading = SENDING)]
    pub(crate) over: Option<AxisValue>,
    /// A value on any axis of copy.send, such as source=cold
    #[arg(long = "set", value_name = "AXIS=V", requires = "to", value_parser = setting,
          help_heading = SENDING)]
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// Write what was measured as JSON, one object a line, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What only who sends may say.
const SENDING: &str = "Options of --to";

#[derive(Debug, Args)]
#[command(
    override_usage = "costof compare [OPTIONS] BEFORE AFTER…\n       \
                            costof compare [OPTIONS] --interleave HOST HOST [PROBE]…",
    after_help = "Two builds of costof, launch beside launch, and a page of it:\n  \
                        costof compare --interleave 'exec:old/costof worker' 'exec:new/costof worker' \
                        os --html page.html"
)]
pub(crate) struct CompareOptions {
    /// The run that others are held against, and those others, each by itself; with --interleave what
    /// to measure, as `costof run` takes it
    #[arg(value_name = "FILE|PROBE", value_hint = ValueHint::AnyPath)]
    pub(crate) what: Vec<PathBuf>,
    /// Measure two hosts in one go, launch beside launch, and hold the second against the first: hosts
    /// as `costof run --on` takes them, such as local and 'exec:/old/costof worker'
    #[arg(long, value_names = ["HOST", "HOST"], num_args = 2)]
    pub(crate) interleave: Vec<Host>,
    /// Compare every metric, not only those that answer the probes' questions
    #[arg(long)]
    pub(crate) all_metrics: bool,
    /// End with exit code 1 if anything surely became worse by more than this, in percent, or has no number any more
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// Write JSON, one object for each run after the first, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page too: one file that needs no network, with plots of both
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) in_turns: InTurns,
}

/// How two hosts are measured: what `costof run` takes too.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of --interleave, as of `costof run`")]
pub(crate) struct InTurns {
    /// Fewer launches: a first look, 6 of each instead of 20
    #[arg(long, requires = "interleave", conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Longer launches, and time for 20 of each
    #[arg(long, requires = "interleave")]
    pub(crate) full: bool,
    /// So many launches of each, whatever time they take; one more where that is odd
    #[arg(long, value_name = "N", requires = "interleave",
          value_parser = clap::value_parser!(u32).range(launches()))]
    pub(crate) launches: Option<u32>,
    /// Values for an axis instead of the probe's own plan; several axes are crossed
    #[arg(long = "set", value_name = "AXIS=V,V…", value_parser = setting, requires = "interleave")]
    pub(crate) settings: Vec<(String, Vec<String>)>,
    /// Processors to measure on, such as 1 or 2,4-6, on both hosts
    #[arg(long, value_name = "LIST", requires = "interleave")]
    pub(crate) cpu: Option<String>,
    /// The path between the two ends of what has two
    #[arg(long = "link", value_name = "LINK", requires = "interleave")]
    pub(crate) links: Vec<Link>,
    /// The costof to start on hosts that ssh reaches
    #[arg(long, value_name = "PATH", requires = "interleave")]
    pub(crate) remote_costof: Option<String>,
    /// End, instead of waiting, where another costof measures the machine
    #[arg(long, requires = "interleave")]
    pub(crate) no_wait: bool,
    /// A folder for before.jsonl and after.jsonl, the runs; without, they are kept in the history
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "interleave")]
    pub(crate) out: Option<PathBuf>,
    /// Draws which host begins each block of four launches, and whatever else is drawn
    #[arg(long, value_name = "N", requires = "interleave")]
    pub(crate) seed: Option<u64>,
    /// How long a worker may take for one answer before it is ended
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "interleave",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

/// How many launches of each may be asked for.
fn launches() -> RangeInclusive<i64> {
    LEAST_LAUNCHES.into()..=MOST_LAUNCHES.into()
}

/// A share in percent, as `5` or `5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent),
        _ => Err("a number of percent that is not below zero, such as 5".to_owned()),
    }
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
    /// Which: tools (perf) or probes, by an id (os.syscall), a layer (os) or a glob; without, all
    #[arg(value_name = "TOOL|PROBE")]
    pub(crate) which: Vec<String>,
    /// How often both sides of each comparison are measured; an interval takes three
    #[arg(long, value_name = "N", default_value = "6",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rounds: u16,
    /// Processors to measure on, such as 1 or 2,4-6: the first is measured, the second serves what
    /// has two ends
    #[arg(long, value_name = "LIST")]
    pub(crate) cpu: Option<String>,
    /// End with exit code 1 if a ratio surely lies further than this, in percent, from the range that
    /// is expected of it, or a tool that is here gave no number
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,
    /// How long a tool, or costof beside it, may take for one number before it is ended, and how long
    /// another costof that measures this machine is waited for before
    #[arg(long, value_name = "SECONDS", default_value = "60",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Write JSON, one object for each comparison, instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// The run; without, the latest of the history
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

#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// For which shell
    pub(crate) shell: Shell,
}

/// What an axis of copy.send is about.
fn about(axis: &'static str) -> String {
    let found = by_hand::axes().iter().find(|found| found.name == axis);
    found.map_or_else(String::new, |axis| axis.about.to_string())
}

/// A word on an axis of copy.send, which has them once, for completions and help too.
fn word(axis: &'static str) -> impl TypedValueParser<Value = AxisValue> {
    let found = by_hand::axes().iter().find(|found| found.name == axis);
    let words = match found.map(|axis| &axis.domain) {
        Some(Domain::Choice(choices)) => choices.iter(),
        _ => [].iter(),
    };
    let words = words
        .map(|choice| PossibleValue::new(choice.value.to_string()).help(choice.about.to_string()));
    PossibleValuesParser::new(words).try_map(move |word| by_hand::value(axis, &word))
}

/// A number on an axis of copy.send.
fn value(axis: &'static str) -> impl TypedValueParser<Value = AxisValue> {
    move |text: &str| by_hand::value(axis, text)
}

fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|time| !time.is_zero() && *time <= Duration::from_secs(86_400))
        .ok_or_else(|| format!("`{text}` is no time of up to a day, such as 500ms, 10s or 1min"))
}

/// A token goes in one line, and on a command line.
pub(crate) fn token(text: &str) -> Result<String, String> {
    const MOST: usize = 256;
    match text.len() {
        1..=MOST if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(text.to_owned()),
        _ => Err(format!(
            "a token is 1 to {MOST} letters, digits and signs of ASCII without blanks"
        )),
    }
}

/// An address at which one end can be called. Link-local ones would need an interface too.
fn address(text: &str) -> Result<IpAddr, String> {
    let is_link_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    text.parse()
        .ok()
        .filter(|address: &IpAddr| {
            !address.is_unspecified() && !address.is_multicast() && !is_link_local(address)
        })
        .ok_or_else(|| {
            format!(
                "`{text}` is no address of one host, such as 192.0.2.1 or 2001:db8::1 (nor can it \
                 be a link-local one)"
            )
        })
}

/// `FIRST-LAST`, or one port.
fn ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first @ 1..), Ok(last)) if first <= last => Ok((first, last)),
        _ => Err(format!(
            "`{text}` is no range of ports from 1 to 65535, such as 5000-5010"
        )),
    }
}

/// `AXIS=V,V…` as an axis and its values.
pub(crate) fn setting(text: &str) -> Result<(String, Vec<String>), String> {
    let (axis, values) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not AXIS=V,V… (such as size=16KiB,1MiB)"))?;
    let values: Vec<String> = values
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect();
    if axis.is_empty() || values.iter().any(String::is_empty) {
        return Err(format!("`{text}` names no axis, or an empty value"));
    }
    Ok((axis.trim().to_owned(), values))
}

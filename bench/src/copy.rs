//! `copy.send` beside programs that send, and its sends without a copy beside its own
//! with one.
//!
//! A stream over TCP on loopback beside iperf3, an exchange beside `sockperf ping-pong`,
//! both as far as they go the same way: the same congestion control, the same processors,
//! the same bytes. Nothing else sends registered buffers into a sink: there costof's own
//! plain send is the other side, and both are measured in the same launches.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::costof::{self, failures};
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::net::SECONDS as IPERF3_SECONDS;
use crate::rounds::ratio;
use crate::rtt::SECONDS as SOCKPERF_SECONDS;
use crate::verdict::{Bounds, Verdict};
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_peers::costof::settings;
use costof_peers::tool::words;
use costof_peers::tools::{iperf3, sockperf};
use costof_stats::{median, ratio_interval};

const PROBE: &str = "copy.send";
const ECHO_BYTES: u32 = 64;
/// As fast as registered buffers must be at least, in times of a copying send.
const WITHOUT_A_COPY: Bounds = Bounds {
    low: 1.4,
    high: f64::INFINITY,
};
const SINK_ROUNDS: usize = 9;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contests = vec![stream(), echo("one_copy", 1), echo("two_copy", 8)];
    let what = "copy.send beside iperf3 and sockperf ping-pong, and without a copy beside with one";
    let mut verdicts = contest::hold(bench, what, contests)?;
    for pages in ["4KiB", "2MiB"] {
        verdicts.push(registered(bench, pages)?);
    }
    Ok(verdicts)
}

/// Eight fields of 16 KiB in one sendmsg(2); iperf3 writes one buffer of 128 KiB.
fn stream() -> Contest<'static> {
    let axes =
        "primitive=one_copy size=128KiB pattern=stream over=tcp congestion_control=cubic nagle=on";
    Contest {
        processors: 2,
        // The first half second of a connection may be slower than what follows, here by a third or
        // more: iperf3 leaves its first second out.
        full: true,
        rounds: 31,
        ..Contest::throughput(
            PROBE,
            words(axes),
            vec![iperf3::tcp("cubic", IPERF3_SECONDS)],
        )
    }
}

/// Both ends block in recv(2), as sockperf's do unless they are told not to. sockperf's message lies in
/// one piece, and so does a field; eight of them are put together first, or are eight entries of an I/O
/// vector, which take either end half a microsecond that sockperf does not have.
fn echo(primitive: &str, fields: u32) -> Contest<'static> {
    let axes = words(&format!(
        "primitive={primitive} size={ECHO_BYTES} fields={fields} pattern=echo over=tcp"
    ));
    let peer = sockperf::ping_pong("tcp", false, ECHO_BYTES, SOCKPERF_SECONDS);
    Contest {
        processors: 2,
        // What it takes to wake a processor that sleeps differs more than anything else here.
        awake: true,
        rounds: 81,
        ..Contest::time(PROBE, "latency", axes, vec![peer])
    }
}

/// One contiguous message that stays in the caches, as datagrams into a sink: from
/// registered buffers, and copied by one sendmsg(2).
fn registered(bench: &Bench, pages: &str) -> Result<Verdict> {
    let point = format!("over=udp size=65000 fields=1 source=hot pages={pages}");
    let ways = "primitive=one_copy,uring_zero_copy buffers=plain,registered";
    let axes = words(&format!("{point} {ways}"));
    let cpus = bench.cpu_list();
    let mut arguments = vec![PROBE, "--link", "sink", "--quick", "--cpu", &cpus];
    arguments.extend(settings(&axes));
    println!("copy.send {point} over sink: throughput in GB/s");
    println!("round  registered     one_copy   ratio  copied  ratio of cpu_sender");
    let watch = Watch::start();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds(SINK_ROUNDS) {
        let run = costof::run(
            bench,
            &format!("registered-{pages}-{round}.jsonl"),
            &arguments,
        )?;
        let registered = Sent::of(&run, "uring_zero_copy", "registered")?;
        let copied = Sent::of(&run, "one_copy", "plain")?;
        println!(
            "{round:>5}  {:>10.2}  {:>11.2}  {:>6.3}  {:>4.0} %  {:>19.3}",
            registered.throughput / 1e9,
            copied.throughput / 1e9,
            registered.throughput / copied.throughput,
            100.0 * registered.copied.unwrap_or(f64::NAN),
            registered.cpu / copied.cpu,
        );
        without.push(registered.throughput);
        with.push(copied.throughput);
    }
    let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN) / 1e9;
    println!(
        "\nmedian over rounds: registered {:.2} GB/s, one_copy {:.2}; the one over the other: {}; \
         bound: {WITHOUT_A_COPY}",
        middle(&without),
        middle(&with),
        ratio(&without, &with)
    );
    // Both sides are in the same launches: what disturbs them disturbs both.
    machine::was_quiet(&watch);
    let verdict = WITHOUT_A_COPY.judge(ratio_interval(&without, &with));
    println!("verdict on registered buffers into a sink, pages={pages}: {verdict}\n");
    Ok(verdict)
}

/// What a way of sending came to in a run.
#[derive(Debug, PartialEq)]
struct Sent {
    /// Bytes a second.
    throughput: f64,
    /// Processor time of the sender for 1 KiB, in nanoseconds.
    cpu: f64,
    /// Share of the sends that were copied after all, where they asked for no copy.
    copied: Option<f64>,
}

impl Sent {
    fn of(run: &Run, primitive: &str, buffers: &str) -> Result<Sent> {
        let is = |row: &&PointRow| {
            row.axes().find_word("primitive") == Some(primitive)
                && row.axes().find_word("buffers") == Some(buffers)
        };
        let row = run.points.iter().find(is);
        let value = |metric| Some(row?.estimate(metric)?.median);
        let sent = || {
            Some(Sent {
                throughput: value("throughput")?,
                cpu: value("cpu_sender")?,
                copied: value("copied"),
            })
        };
        sent().ok_or_else(|| {
            failed(format!(
                "costof has no number of {primitive} with buffers={buffers}{}",
                failures(run)
            ))
        })
    }
}

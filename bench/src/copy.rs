//! `copy.send` against programs that send, and its sends without a copy against its own with one.
//!
//! A stream over TCP on loopback against iperf3, an exchange against `sockperf ping-pong`, both as far as they
//! do the same: the same congestion control, the same CPUs, the same bytes. No other program sends registered
//! buffers into a sink: there costof's own plain send is the other side, measured in the same launches.

use crate::bench::{Bench, settings};
use crate::contest::Contest;
use crate::contests::check;
use crate::costof::failures;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::{self, Verdict};
use costof_model::run_file::Run;
use costof_peers::agreement::{Agreement, Band};
use costof_peers::checks::Effort;

const PROBE: &str = "copy.send";
/// As fast as registered buffers must be at least, in times of a copying send.
const WITHOUT_A_COPY: Band = crate::verdict::at_least(1.4);
const SINK_ROUNDS: usize = 9;

pub(crate) fn contests(effort: Effort) -> Vec<Contest> {
    let contest = |axes: &str| Contest::new(check(&format!("{PROBE} {axes}"), effort));
    // What it takes to wake a CPU that sleeps varies more than anything else here.
    let echo = |axes| contest(axes).rounds(81);
    vec![
        // The first half second of a connection may be slower than what follows, here by a third or more: iperf3
        // leaves its first second out.
        contest("primitive=sendmsg size=128KiB").rounds(31).full(),
        echo("primitive=sendmsg size=64 fields=1"),
        echo("primitive=copy_and_send size=64 fields=8"),
    ]
}

/// One contiguous message that stays in the caches, as datagrams into a sink: from registered buffers, and
/// copied by one sendmsg(2).
pub(crate) fn registered_buffers(bench: &Bench) -> Result<Vec<Verdict>> {
    ["4KiB", "2MiB"].into_iter().map(|pages| registered(bench, pages)).collect()
}

fn registered(bench: &Bench, pages: &str) -> Result<Verdict> {
    let point = format!("over=udp size=65000 fields=1 source=hot pages={pages}");
    let axes = format!("{point} primitive=sendmsg,io_uring_send_zc buffers=plain,registered");
    let cpus = bench.cpu_list();
    let arguments = format!("{PROBE} --link sink --quick --cpu {cpus} {}", settings(&axes));
    println!("copy.send {point} over sink: throughput in GB/s");
    println!("round  registered      sendmsg   ratio  copied  ratio of cpu_sender");
    let watch = Watch::start();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=bench.rounds(SINK_ROUNDS) {
        let run = bench.run(&format!("registered-{pages}-{round}.jsonl"), &arguments)?;
        let median = |primitive, buffers, metric| median(&run, primitive, buffers, metric);
        let registered = |metric| median("io_uring_send_zc", "registered", metric);
        let plain = |metric| median("sendmsg", "plain", metric);
        let (ours, theirs) = (registered("throughput")?, plain("throughput")?);
        println!(
            "{round:>5}  {:>10.2}  {:>11.2}  {:>6.3}  {:>4.0} %  {:>19.3}",
            ours / 1e9,
            theirs / 1e9,
            ours / theirs,
            100.0 * registered("copied").unwrap_or(f64::NAN),
            registered("cpu_sender")? / plain("cpu_sender")?,
        );
        without.push(ours);
        with.push(theirs);
    }
    let agreement = Agreement::new(without, with).ok_or_else(|| failed("there was no round"))?;
    let (ours, theirs) = agreement.medians();
    println!(
        "\nmedian over rounds: registered {:.2} GB/s, sendmsg {:.2}; the one over the other: {}; \
         bound: {WITHOUT_A_COPY}",
        ours / 1e9,
        theirs / 1e9,
        verdict::ratio_text(&agreement),
    );
    // Both sides are in the same launches: what disturbs them disturbs both.
    machine::was_quiet(&watch);
    let verdict = verdict::judge(WITHOUT_A_COPY, agreement.interval);
    Ok(verdict.report(&format!("registered buffers into a sink, pages={pages}")))
}

/// The median of a metric of one way to send.
fn median(run: &Run, primitive: &str, buffers: &str, metric: &str) -> Result<f64> {
    let row = run.points.iter().find(|row| {
        let is = |axis: &str, word: &str| row.axes().find_word(axis) == Some(word);
        is("primitive", primitive) && is("buffers", buffers)
    });
    let estimate = row.and_then(|row| row.estimate(metric));
    estimate.map(|estimate| estimate.median).ok_or_else(|| {
        let failures = failures(run);
        failed(format!("costof has no {metric} of {primitive} with buffers={buffers}{failures}"))
    })
}

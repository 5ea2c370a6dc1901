//! `rpc.stream`: how many bytes of messages a second a stream of calls carries.

use super::axes::{GRPC, THRIFT};
use super::expect::streamed;
use crate::derived;
use crate::expect::throughput;
use crate::literal::{list, metric, text, word, words};
use crate::net::both_ends::{joined, take};
use crate::rudp::roles::{Asks, BYTES, CPU_OF_ALL, Receiving, Sending, least_ns};
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::axis::{Axis, Domain};
use costof_model::facts::Facts;
use costof_model::metric::{Data, MetricInfo};
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Report;
use costof_model::unit::{Better, Unit};
use std::sync::LazyLock;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rpc.stream"),
        method: 2,
        question: text("How many bytes of messages a second does a stream of calls carry?"),
        axes: list![
            words(
                "stack",
                "what carries the messages",
                list![
                    GRPC,
                    THRIFT,
                    word("tcp", "the socket beneath: a write for each message"),
                    word("rudp", "the library rudp: reliable datagrams"),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of a message, the stack's own not counted"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: 4 << 20,
                    usual: list![64 << 10, 1, 64, 1024, 8 << 10, 512 << 10, 4 << 20],
                },
            },
        ],
        crossings: list![list![text("stack"), text("size")]],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes of messages in the second half of the time, stalls included: that arrived, by the receiver's clock; of calls, that the stack took, which waits where the other end is slower",
            ),
            metric(
                "rate",
                Unit::One,
                Better::Higher,
                "messages a second, by the throughput",
            ),
            metric(
                "start_up",
                Unit::Nanoseconds,
                Better::Lower,
                "from the first message that came until a tenth of the time goes at nine tenths of that rate, to a fortieth of the time",
            ),
            ns(
                "cpu_sender",
                "processor time of the sending thread for 1 KiB in that half"
            ),
            ns(
                "cpu_receiver",
                "processor time of the receiving thread for 1 KiB in that half; of calls, in all of the time"
            ),
            share(
                "sender_running",
                "share of that half for which the sending thread ran: 1 where its processor is what limits"
            ),
            share(
                "receiver_running",
                "share of that half for which the receiving thread ran; not of calls"
            ),
            metric(
                "retransmissions",
                Unit::One,
                Better::Lower,
                "what was sent again or taken for lost, as a share of all that was sent: bytes of TCP, datagrams of rudp",
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "of rudp: datagrams that did not arrive, those still under way at the end among them, as a share of those sent",
            ),
            metric(
                "lost_in_queue",
                Unit::One,
                Better::Lower,
                "of rudp: of which the receiver's socket had no room for, as a share of those sent",
            ),
            metric(
                "mtu",
                Unit::Bytes,
                Better::Neither,
                "the largest packet of the way, IP header included",
            ),
        ],
        how: text(
            "One end sends messages of one size over one connection for 300 ms, or 40 times the \
             link's delay, or what 20 of them take at its rate, as fast as the stack takes them; in the end the other one says how much \
             has come, which is what was sent. The second half of the time counts. gRPC: a client stream, closed by one answer, with \
             HTTP/2's usual windows. Thrift has no streams: its messages are one-way calls, which \
             nobody answers, and the last call is answered. stack=tcp and rudp are what \
             rudp.bandwidth measures, with messages of any length: TCP's are a write each, and it \
             keeps no ends of them. One thread at each end, on a processor of its own where there \
             are two.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 3: client streaming by message size, gRPC and Thrift, local and over a LAN, beside its reliable UDP's 19,284 and 663 Mib/s"
            ),
            text("RFC 9113, section 5.2, flow control; gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md"),
            text("Apache Thrift, doc/specs/thrift-rpc.md, on oneway"),
        ],
        predicted_from: text(
            "system calls as os.syscall has measured them for each message, and no more than net.bandwidth's TCP of the run, or the link's rate less headers",
        ),
        after: list![text("os.syscall"), text("net.bandwidth")],
        needs: list![],
        roles: list![text("receiver"), text("sender")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| least_ns(point, Asks::Stream),
    memory_bytes: |point| 8 * point.axes.number("size") + (128 << 20),
    processors: |_| 2,
    headlines,
    more_points: |_| Vec::new(),
    budget: Some(budget),
    predict,
    roles: &[
        |launch| Ok(Box::new(Receiving::start(launch, Asks::Stream)?)),
        |launch| Ok(Box::new(Sending::start(launch, Asks::Stream)?)),
    ],
    derive,
};

const fn ns(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

const fn share(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::One, Better::Neither, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "remote procedure calls: a stream of 64 KiB messages by gRPC",
        PROBE.info.defaults(),
    )]
}

/// With what its predictions build on.
fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(40),
        Precision::Default => Duration::from_secs(80),
        Precision::Full => Duration::ZERO,
    }
}

fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    let all = take(&mut report, CPU_OF_ALL).zip(take(&mut report, BYTES));
    if let Some((cpu_ns, bytes)) = all {
        let kib = (bytes / 1024.0).max(1.0);
        derived::add(&mut report, "cpu_receiver", cpu_ns / kib);
    }
    let found = report
        .metrics
        .iter()
        .find(|metric| metric.name == "throughput");
    if let Some(Data::Value(throughput)) = found.map(|metric| &metric.data) {
        let rate = throughput / point.axes.number("size") as f64;
        derived::add(&mut report, "rate", rate);
    }
    report
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = streamed(point, known)?;
    throughput(low, high, because)
}

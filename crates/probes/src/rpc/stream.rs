//! `rpc.stream`: how many bytes of messages a stream of calls carries per second.

use crate::derived;
use crate::net::peer_reports::{joined, take};
use crate::os::syscall;
use crate::prelude::*;
use crate::rudp::order::{Purpose, least_ns};
use crate::rudp::predict::limit;
use crate::rudp::roles::{BYTES, CPU_OF_ALL, ROLE_NAMES, Receiving, Sending, metrics_after};
use crate::rudp::transfer::Transfer;
use crate::two_ends::over::Over;
use costof_model::link::Link;

pub(crate) static PROBE: Probe = Probe::new::<Stream>();

point! {
    /// How many bytes of messages does a stream of calls carry per second?
    ///
    /// The sender sends messages of one size over one connection, as fast as the stack takes them,
    /// for 300 ms, or 40 times the link's delay, or as long as 20 messages take at its rate. At the
    /// end the receiver reports how much has arrived, which must be what was sent. The second half
    /// of the time counts. gRPC: a client stream, closed by one answer, with HTTP/2's default
    /// windows. Thrift has no streams: its messages are one-way calls, and the last call has an
    /// answer. stack=tcp and rudp are what rudp.bandwidth measures, with messages of any length:
    /// TCP makes a write for each, and has no message boundaries. Each end has one thread, on a CPU
    /// of its own if there are two.
    ///
    /// # Predicted from
    /// the system calls for each message (os.syscall), and at most the run's TCP throughput
    /// (net.bandwidth) or the link's rate less headers
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 3: client streaming by message size, gRPC and Thrift, local
    ///   and over a LAN, and its reliable UDP's 19,284 and 663 Mib/s
    /// - RFC 9113, section 5.2, flow control; gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md
    /// - Apache Thrift, doc/specs/thrift-rpc.md, on oneway
    pub(crate) struct Stream of "rpc.stream" {
        /// what carries the messages
        stack: Over = words_of(&[Over::Grpc, Over::Thrift, Over::Tcp, Over::Rudp]),
        /// bytes of a message, the stack's own not counted
        size: usize = bytes(1..=4 << 20, &[64 << 10, 1, 64, 1024, 8 << 10, 512 << 10, 4 << 20]),
    }
}

impl From<&Stream> for Transfer {
    fn from(point: &Stream) -> Transfer {
        Transfer::new(point.stack, point.size)
    }
}

impl Measure for Stream {
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = &metrics_after::<12>(metrics! {
        /// bytes of messages per second in the second half of the time, stalls included: of a
        /// socket or rudp, those that arrived, by the receiver's clock; of calls, those that the
        /// stack took, which waits where the other end is slower
        throughput: BytesPerSecond Higher,
        /// messages per second, from the throughput
        rate: One Higher,
        /// from the first message that arrived until 90 % of that rate are reached for a tenth of
        /// the time, to a fortieth of the time
        start_up: Nanoseconds Lower,
    });
    const AFTER: &'static [&'static str] = &["os.syscall", "net.bandwidth"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["stack", "size"]];
    const ROLE_NAMES: &'static [&'static str] = ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stream>(Receiving::start(launch, Purpose::Stream)?),
        |launch| role::<Stream>(Sending::start(launch, Purpose::Stream)?),
    ];
    const BUDGET: Option<Budget> = Some(Budget::seconds(40, 80, 0));

    fn least_ns(point: &At<Stream>) -> f64 {
        least_ns(&point.to(), Purpose::Stream)
    }

    fn processors(_: &At<Stream>) -> usize {
        2
    }

    fn memory_bytes(point: &At<Stream>) -> u64 {
        8 * point.size as u64 + (128 << 20)
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "remote procedure calls: a stream of 64 KiB messages by gRPC",
            Stream::default(),
        )]
    }

    fn predict(point: &At<Stream>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let cost = message(point, measured)?;
        let prediction = cost.predict_throughput(point.size as f64)?;
        match point.link.parse().ok()? {
            Link::Loopback | Link::Veth => {
                let over = [("over", Over::Tcp.word())];
                let tcp = measured.primary_over(&point.link, "net.bandwidth", &over);
                Some(match tcp {
                    Some(tcp) => prediction.at_most(1.5 * tcp, 0.7, "1.5 times net.bandwidth"),
                    None => prediction,
                })
            }
            // TCP's congestion control decides the throughput under loss.
            Link::Emulated { up, .. } if up.loss == 0.0 => {
                let (limit, why) = limit(&(&point.axes).into(), &up)?;
                Some(prediction.at_most(limit, 0.7, why))
            }
            Link::Emulated { .. } | Link::Remote | Link::Sink => None,
        }
    }

    fn derive(point: &At<Stream>, reports: Vec<Report>) -> Report {
        derive(point, reports)
    }
}

/// Time of the busier thread for a message, in reads, and for copying its bytes at a rate in GB/s.
fn message(point: &Stream, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let (reads, rate, what) = match point.stack {
        // Many small ones go into one write.
        Over::Grpc => {
            ((0.3, 20.0), (0.5, 10.0), "a frame of HTTP/2, a buffer and a task that wakes another")
        }
        Over::Thrift => ((1.0, 15.0), (0.5, 10.0), "a call in a frame, written at once"),
        Over::Tcp => ((0.7, 12.0), (1.0, 20.0), "a write through TCP"),
        Over::Rudp | Over::Study | Over::Quic | Over::Udp | Over::UdpGso | Over::Unix => {
            ((0.1, 15.0), (0.4, 10.0), "a message in packets with a tag each")
        }
    };
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    Some((read * reads).named(what) + Cost::bytes(point.size as f64, rate, "copied"))
}

fn derive(point: &Stream, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    let all = take(&mut report, CPU_OF_ALL).zip(take(&mut report, BYTES));
    if let Some((cpu_ns, bytes)) = all {
        let kib = (bytes / 1024.0).max(1.0);
        derived::add(&mut report, "cpu_receiver", cpu_ns / kib);
    }
    if let Some(throughput) = derived::value(&report, "throughput") {
        derived::add(&mut report, "rate", throughput / point.size as f64);
    }
    report
}

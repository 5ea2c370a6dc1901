//! `net.stream`: bytes of messages per second, by each transport that carries streams of messages.

use crate::prelude::*;
use crate::two_ends::axes::window_axis;
use crate::two_ends::transfer::order::least_ns;
use crate::two_ends::transfer::predict::{limit, predict};
use crate::two_ends::transfer::roles::{ROLE_NAMES, Receiving, Sending, metrics_after};
use crate::two_ends::{CongestionControl, Control, Over, Transfer, joined};
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;

pub(crate) static PROBE: Probe = Probe::new::<Stream>();

point! {
    /// How many bytes of messages per second does a stream deliver, by TCP, QUIC, rudp, gRPC and Thrift?
    ///
    /// The sender connects and sends messages of one size, as many as the transport takes or the window
    /// allows. The time begins when the connection is established: 300 ms or 40 round trips,
    /// whichever is more (QUIC at least 1 s, the study 2.4 s). The receiver records its progress at
    /// most every quarter of a millisecond. Only the second half of the time counts, from one
    /// arrival to another; in the first half the rate settles. The sender announces the duration.
    /// Each end has one thread, on a CPU of its own where there are two. Each message begins with
    /// its number, and none is delivered twice; the first 64 bytes and the last 8 of each are
    /// compared.
    /// QUIC encrypts and authenticates every packet (TLS 1.3, AES-256-GCM, a key made for
    /// the launch), and its CPU time includes that, as gRPC over TLS does; the others do not encrypt. quinn sends one
    /// stream, on a runtime of one thread at each end; its windows are those of rudp, 32 MiB, and
    /// both size datagrams by the path's MTU. TCP's buffers have the kernel's default sizes, and it
    /// has no message boundaries. With a window, the receiver of TCP and QUIC reports the number of
    /// messages received, in 8 B each time; the acknowledgements of rudp and the study's protocol
    /// already say so. The study's protocol retransmits a message that was not answered within a
    /// second. rudp and the study's protocol keep a copy of each message until it is acknowledged,
    /// and copy it into a datagram behind a header. A program that keeps the header in front of its
    /// only buffer copies nothing: of 65,499 B, one at a time, it sent a fifth more (Zen 4).
    /// gRPC: a client stream, closed by one answer, with HTTP/2's default windows; grpc_gzip compresses each
    /// message, all of which are the same bytes counted up, and compress well. Thrift has no
    /// streams: its messages are one-way calls, and the last call has an answer. At the end the receiver
    /// reports how much has arrived, which must be what was sent. Messages of calls, and any that are too
    /// short for a header or longer than 1 MiB, have no header: both ends know the duration, which is
    /// as long as 20 messages take at the link's rate if that is more.
    ///
    /// # Predicted from
    /// with a window that limits: window times size over the round trip (net.rtt, or the link's
    /// delays); over a link with a rate: that rate less headers, and less the share lost if the
    /// sender sends no faster than the rate; on loopback: the run's net.bandwidth over UDP, or over
    /// TCP; without a header, the system calls for each message (os.syscall)
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: 20,000 B datagrams one at a time, 8473 Mib/s on one
    ///   machine, 61.9 over a 1 Gb/s LAN, 0.80 over its WAN; 28.4 with a sliding window
    /// - CS 739 mini-project 1, part 3: client streaming by message size, gRPC and Thrift, local
    ///   and over a LAN, and its reliable UDP's 19,284 and 663 Mib/s
    /// - RFC 9438, CUBIC; RFC 9002, QUIC loss detection and congestion control
    /// - RFC 9113, section 5.2, flow control; gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md
    /// - Apache Thrift, doc/specs/thrift-rpc.md, on oneway
    /// - quinn, perf: one stream of bytes; iperf3(1)
    ///
    /// # Needs
    /// - over=quic or grpc_tls: a build with quinn and rustls, the default (--features quic)
    /// - congestion_control: a kernel that has it, and allows this user to choose it
    pub(crate) struct Stream of "net.stream" {
        /// what carries the messages
        over: Over = Over::that(Over::Tcp, |_, it| it.open.is_some()),
        /// bytes of a message, a transport's own not counted; with over=study at most 65499, in one
        /// datagram
        size: usize = bytes(1..=4 << 20, &[64 << 10, 1, 64, 1024, 8 << 10, 512 << 10, 4 << 20]),
        window: u64 = window_axis(&[0]),
        control: Control = Control::axis(),
        congestion_control: CongestionControl = CongestionControl::axis(),
    }
}

impl From<&Stream> for Transfer {
    fn from(point: &Stream) -> Transfer {
        let transfer = Transfer::new(point.over, point.size);
        transfer.controlled(point.window, point.control, point.congestion_control)
    }
}

impl Measure for Stream {
    const METRICS: &'static [Metric] = &metrics_after::<12>(metrics! {
        /// bytes of messages per second, stalls included, in the second half of the time, or in all of
        /// it if that half is one stall: those that arrived, each counted once, by the receiver's
        /// clock; of calls, those that the stack took, which waits where the other end is slower
        throughput: BytesPerSecond Higher,
        /// messages per second, from the throughput
        rate: One Higher,
        /// from the first byte that arrived until the rate has been nine tenths of the throughput
        /// for a tenth of the time, to a precision of a fortieth of the time
        start_up: Nanoseconds Lower,
    });
    const AFTER: NameList = &["os.syscall", "net.rtt", "net.bandwidth"];
    const CROSSINGS: &'static [NameList] = &[&["over", "size"]];
    const PROCESSORS: usize = 2;
    const ROLE_NAMES: NameList = ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stream>(Receiving::start(launch)?),
        |launch| role::<Stream>(Sending::start(launch)?),
    ];
    const BUDGET: Option<Budget> = Some(Budget::seconds(40, 120, 0));

    fn aliases() -> Vec<Alias> {
        let of = |probe: &str, method, over: &[Over]| {
            let alias = |over: &Over| {
                let word = over.word();
                let was = format!("{probe}(stack={word})");
                Alias::new(was, format!("net.stream(over={word})")).of_method(method, 1)
            };
            over.iter().map(alias).collect::<Vec<_>>()
        };
        let messages = [Over::Rudp, Over::Study, Over::Quic, Over::Tcp];
        let calls = [Over::Grpc, Over::Thrift, Over::Tcp, Over::Rudp];
        [of("rudp.bandwidth", 3, &messages), of("rpc.stream", 2, &calls)].concat()
    }

    fn least_ns(point: &At<Self>) -> f64 {
        least_ns(&point.to())
    }

    fn check_axes(point: &At<Self>) -> Result {
        Transfer::from(&point.axes).check_axes()
    }

    /// The windows of both ends, and what is in flight.
    fn memory_bytes(point: &At<Self>) -> u64 {
        8 * (point.size as u64) + (256 << 20)
    }

    headlines! {
        "reliable datagrams: rudp on loopback, 64 KiB messages": { over: Over::Rudp },
        "remote procedure calls: a stream of 64 KiB messages by gRPC": { over: Over::Grpc },
    }

    /// The study's protocol at its sizes, windows, and the congestion controls that are compared.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let rudp =
            |window, control| Stream { over: Over::Rudp, window, control, ..Stream::default() };
        let study = |size, window| Stream { over: Over::Study, size, window, ..Stream::default() };
        let tcp = |congestion_control| Stream { congestion_control, ..Stream::default() };
        Planned::all([
            study(1400, 1),
            study(20_000, 1),
            study(20_000, 8),
            study(MAX_MESSAGE_BYTES, 0),
            rudp(1, Control::Cubic),
            rudp(8, Control::Cubic),
            rudp(64, Control::Cubic),
            rudp(8, Control::Fixed),
            rudp(0, Control::Rate),
            tcp(CongestionControl::Cubic),
            tcp(CongestionControl::Bbr),
        ])
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        /// The shortest message of TCP of which the kernel's work for its bytes is most.
        const LONG: usize = 8 << 10;
        let is_short = point.over == Over::Tcp && point.window == 0 && point.size < LONG;
        if !is_short && Transfer::from(&point.axes).has_header() {
            return predict(&point.to(), measured);
        }
        let prediction = message(point, measured)?.predict_throughput(point.size as f64)?;
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

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = joined(reports);
        if let Some(throughput) = derived::value(&report, "throughput") {
            derived::add(&mut report, "rate", throughput / point.size as f64);
        }
        report
    }
}

/// Time of the busier thread for a message, in reads, and for copying its bytes at a rate in GB/s.
fn message(point: &Stream, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let (reads, rate, what) = point.over.description().message;
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    Some((read * reads).named(what) + Cost::bytes(point.size as f64, rate, "copied"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(point: &Stream) -> Option<String> {
        let failure = Transfer::from(point).check().err();
        failure.map(|failure| failure.reason)
    }

    #[test]
    fn what_is_planned_besides_one_axis_at_a_time_can_be() {
        let own = Stream::headlines(&Facts::default()).into_iter().map(|headline| headline.axes);
        let more = Stream::more_points(&Facts::default()).into_iter().map(|planned| planned.axes);
        for axes in more.chain(own) {
            let point = Stream::read(&axes).expect("it has all axes");
            assert_eq!(refusal(&point), None, "{axes}");
        }
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        let at = |over, control, congestion_control| {
            refusal(&Stream { over, control, congestion_control, ..Stream::default() })
        };
        let bbr = |over| at(over, Control::Cubic, CongestionControl::Bbr);
        let rate = |over| at(over, Control::Rate, CongestionControl::Default);
        let long = refusal(&Stream { over: Over::Study, ..Stream::default() });
        let window = refusal(&Stream { over: Over::Grpc, window: 8, ..Stream::default() });
        for (reason, says) in [
            (rate(Over::Tcp), "control=cubic"),
            (bbr(Over::Rudp), "congestion_control=default"),
            (bbr(Over::Grpc), "congestion_control=default"),
            (long, "size=65499"),
            (window, "window=0"),
        ] {
            let reason = reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
        assert_eq!(bbr(Over::Tcp), None);
    }
}

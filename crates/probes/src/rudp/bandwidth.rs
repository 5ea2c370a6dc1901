//! `rudp.bandwidth`: bytes of messages per second, by rudp and the stacks that it is compared with.

use super::axes::{Control, size_axis, stack_axis, window_axis};
use super::order::{Purpose, least_ns};
use super::predict::predict;
use super::roles::{ROLE_NAMES, Receiving, Sending, metrics_after};
use super::transfer::Transfer;
use crate::net::congestion_control::CongestionControl;
use crate::net::peer_reports::joined;
use crate::prelude::*;
use crate::two_ends::over::Over;
use costof_exchange::transport::study::MAX_MESSAGE_BYTES;

pub(crate) static PROBE: Probe = Probe::new::<Bandwidth>();

point! {
    /// How many bytes of messages per second do rudp, TCP, QUIC and the study's protocol deliver?
    ///
    /// The sender connects and sends messages of one size, as many as the stack takes or the window
    /// allows. The time begins when the connection is established: 300 ms or 40 round trips,
    /// whichever is more (QUIC at least 1 s, the study 2.4 s). The receiver records its progress at
    /// most every quarter of a millisecond. Only the second half of the time counts, from one
    /// arrival to another; in the first half the rate settles. The sender announces the duration.
    /// Each end has one thread, on a CPU of its own where there are two. Each message begins with
    /// its number, and none is delivered twice; the first 64 bytes and the last 8 of each are
    /// compared.
    /// QUIC encrypts and authenticates every packet (TLS 1.3, AES-256-GCM, a key made for
    /// the launch), and its CPU time includes that; the others do not encrypt. quinn sends one
    /// stream, on a runtime of one thread at each end; its windows are those of rudp, 32 MiB, and
    /// both size datagrams by the path's MTU. TCP's buffers have the kernel's default sizes, and it
    /// has no message boundaries. With a window, the receiver of TCP and QUIC reports the number of
    /// messages received, in 8 B each time; the acknowledgements of rudp and the study's protocol
    /// already say so. The study's protocol retransmits a message that was not answered within a
    /// second. rudp and the study's protocol keep a copy of each message until it is acknowledged,
    /// and copy it into a datagram behind a header. A program that keeps the header in front of its
    /// only buffer copies nothing: of 65,499 B, one at a time, it sent a fifth more (Zen 4).
    ///
    /// # Predicted from
    /// with a window that limits: window times size over the round trip (net.rtt, or the link's
    /// delays); over a link with a rate: that rate less headers, and less the share lost if the
    /// sender sends no faster than the rate; on loopback: the run's net.bandwidth over UDP, or over
    /// TCP
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: 20,000 B datagrams one at a time, 8473 Mib/s on one
    ///   machine, 61.9 over a 1 Gb/s LAN, 0.80 over its WAN; 28.4 with a sliding window
    /// - RFC 9438, CUBIC; RFC 9002, QUIC loss detection and congestion control
    /// - quinn, perf: one stream of bytes; iperf3(1)
    ///
    /// # Needs
    /// - stack=quic: a build with quinn, the default (--features quic)
    /// - congestion_control: a kernel that has it, and allows this user to choose it
    pub(crate) struct Bandwidth of "rudp.bandwidth" {
        stack: Over = stack_axis(),
        size: usize = size_axis(&[MAX_MESSAGE_BYTES as u64, 1400, 20_000, 64 << 10, 1 << 20]),
        window: u64 = window_axis(&[0, 1, 8, 64]),
        control: Control = Control::axis(),
        congestion_control: CongestionControl = CongestionControl::axis(),
    }
}

impl From<&Bandwidth> for Transfer {
    fn from(point: &Bandwidth) -> Transfer {
        let transfer = Transfer::new(point.stack, point.size);
        transfer.controlled(point.window, point.control, point.congestion_control)
    }
}

impl Measure for Bandwidth {
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = &metrics_after::<11>(metrics! {
        /// bytes of messages that arrived, each counted once, by the receiver's clock, stalls
        /// included: in the second half of the time, or in all of it if that half is one stall
        throughput: BytesPerSecond Higher,
        /// from the first byte that arrived until the rate has been nine tenths of the throughput
        /// for a tenth of the time, to a precision of a fortieth of the time
        start_up: Nanoseconds Lower,
    });
    const AFTER: &'static [&'static str] = &["net.rtt", "net.bandwidth"];
    const ROLE_NAMES: &'static [&'static str] = ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Bandwidth>(Receiving::start(launch, Purpose::Rate)?),
        |launch| role::<Bandwidth>(Sending::start(launch, Purpose::Rate)?),
    ];
    const BUDGET: Option<Budget> = Some(Budget::seconds(40, 80, 0));

    fn least_ns(point: &At<Bandwidth>) -> f64 {
        least_ns(&point.to(), Purpose::Rate)
    }

    fn processors(_: &At<Bandwidth>) -> usize {
        2
    }

    fn check_axes(point: &At<Bandwidth>) -> Result<(), Failure> {
        Transfer::from(&point.axes).check_axes()
    }

    /// The windows of both ends, and what is in flight.
    fn memory_bytes(point: &At<Bandwidth>) -> u64 {
        4 * (point.size as u64) + (256 << 20)
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        let long = Bandwidth { size: 64 << 10, ..Bandwidth::default() };
        vec![Headline::new("reliable datagrams: rudp on loopback, 64 KiB messages", long)]
    }

    /// Besides one axis at a time: the study's protocol at its sizes and windows, and the
    /// congestion controls that are compared.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let study =
            |size, window| Bandwidth { stack: Over::Study, size, window, ..Bandwidth::default() };
        let fixed = Bandwidth { control: Control::Fixed, window: 8, ..Bandwidth::default() };
        let tcp = |congestion_control| Bandwidth {
            stack: Over::Tcp,
            congestion_control,
            ..Bandwidth::default()
        };
        let points = [
            study(1400, 1),
            study(20_000, 1),
            study(20_000, 8),
            fixed,
            tcp(CongestionControl::Cubic),
            tcp(CongestionControl::Bbr),
        ];
        Planned::all(points)
    }

    fn predict(
        point: &At<Bandwidth>,
        _: &Facts,
        measured: &MeasuredRows<'_>,
    ) -> Option<Prediction> {
        predict(&point.to(), measured)
    }

    fn derive(_: &At<Bandwidth>, reports: Vec<Report>) -> Report {
        joined(reports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(point: &Bandwidth) -> Option<String> {
        let failure = Transfer::from(point).check().err();
        failure.map(|failure| failure.reason)
    }

    #[test]
    fn what_is_planned_besides_one_axis_at_a_time_can_be() {
        let own = Bandwidth::headlines(&Facts::default()).into_iter().map(|headline| headline.axes);
        let more =
            Bandwidth::more_points(&Facts::default()).into_iter().map(|planned| planned.axes);
        for axes in more.chain(own) {
            let point = Bandwidth::read(&axes).expect("it has all axes");
            assert_eq!(refusal(&point), None, "{axes}");
        }
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        let at = |stack, control, congestion_control| {
            refusal(&Bandwidth { stack, control, congestion_control, ..Bandwidth::default() })
        };
        let bbr = |stack| at(stack, Control::Cubic, CongestionControl::Bbr);
        let rate = |stack| at(stack, Control::Rate, CongestionControl::Default);
        let long =
            refusal(&Bandwidth { stack: Over::Study, size: 64 << 10, ..Bandwidth::default() });
        for (reason, says) in [
            (rate(Over::Tcp), "control=cubic"),
            (bbr(Over::Rudp), "congestion_control=default"),
            (bbr(Over::Study), "congestion_control=default"),
            (long, "size=65499"),
        ] {
            let reason = reason.unwrap();
            assert!(reason.contains(says), "{reason}");
        }
        assert_eq!(bbr(Over::Tcp), None);
    }
}

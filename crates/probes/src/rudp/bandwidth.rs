//! `rudp.bandwidth`: how many bytes of messages a second reach the other end, by rudp and by what it
//! is held against.

use super::axes::{CONTROL, STACK, STUDY_MOST_BYTES, size, size_axis, window_axis};
use super::predict::predict;
use super::roles::{Asks, Receiving, Sending, least_ns};
use crate::literal::{list, metric, text};
use crate::net::both_ends::joined;
use crate::net::congestion_control::CONGESTION_CONTROL;
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::facts::Facts;
use costof_model::point::{Headline, Planned};
use costof_model::probe_info::ProbeInfo;
use costof_model::unit::{Better, Unit};
use std::sync::LazyLock;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rudp.bandwidth"),
        method: 2,
        question: text(
            "How many bytes of messages a second reach the other end, by rudp, TCP, QUIC and the study's protocol?",
        ),
        axes: list![
            STACK,
            size_axis(list![STUDY_MOST_BYTES, 1400, 20_000, 64 << 10, 1 << 20]),
            window_axis(list![0, 1, 8, 64]),
            CONTROL,
            CONGESTION_CONTROL,
        ],
        crossings: list![],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes of messages that arrived, each once, by the receiver's clock, in the second half of the time, stalls included; in all of it where that half is one stall",
            ),
            metric(
                "start_up",
                Unit::Nanoseconds,
                Better::Lower,
                "from the first byte that came until a tenth of the time goes at nine tenths of that rate, to a fortieth of the time",
            ),
            metric(
                "cpu_sender",
                Unit::Nanoseconds,
                Better::Lower,
                "processor time of the sending thread for 1 KiB in that half",
            ),
            metric(
                "cpu_receiver",
                Unit::Nanoseconds,
                Better::Lower,
                "processor time of the receiving thread for 1 KiB in that half",
            ),
            metric(
                "sender_running",
                Unit::One,
                Better::Neither,
                "share of that half for which the sending thread ran: 1 where its processor is what limits",
            ),
            metric(
                "receiver_running",
                Unit::One,
                Better::Neither,
                "share of that half for which the receiving thread ran",
            ),
            metric(
                "retransmissions",
                Unit::One,
                Better::Lower,
                "what was sent again or taken for lost, as a share of all that was sent: bytes of TCP, datagrams of the others",
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "datagrams that did not arrive, those still under way at the end among them, as a share of those sent",
            ),
            metric(
                "lost_in_queue",
                Unit::One,
                Better::Lower,
                "of which the receiver's socket had no room for, as a share of those sent; of several that came at once it counts one",
            ),
            metric(
                "mtu",
                Unit::Bytes,
                Better::Neither,
                "the largest packet of the way, IP header included; rudp and QUIC send datagrams as long as that allows",
            ),
        ],
        how: text(
            "One end connects and hands over messages of one size, as many as the stack takes or \
             the window allows; the other takes them. The time, 300 ms or 40 round trips if that is \
             more (QUIC 1 s, the study 2.4 s at least), begins when the connection is there. The \
             receiver notes every quarter of a millisecond or more seldom how much has come, and \
             counts the second half of the time, which the sender tells it, from one arrival to \
             another; the first is there to settle in. One thread at each end, on a processor of \
             its own where there are two. Each message begins with its number, and none comes \
             twice; the first 64 bytes and the last 8 of each are compared. QUIC encrypts and \
             authenticates every packet (TLS 1.3, AES-256-GCM, a certificate made for the launch), \
             which the others do not: its processor time has that in it. quinn sends one stream, on \
             a runtime of one thread at each end; its windows are those of rudp, 32 MiB, its \
             datagrams as long as the path's MTU allows, like rudp's. TCP's buffers are the \
             kernel's usual ones, and it has bytes without ends. With a window, TCP's and QUIC's \
             receiver sends back how many messages it has, in 8 B each time; rudp's and the study's \
             acknowledgements say so by themselves. The study's protocol sends what was not \
             answered for a second again.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 2: 20,000 B datagrams one at a time, 8473 Mib/s on one machine, 61.9 over a 1 Gb/s LAN, 0.80 over its WAN; 28.4 with a sliding window"
            ),
            text("RFC 9438, CUBIC; RFC 9002, QUIC loss detection and congestion control"),
            text("quinn, perf: one stream of bytes; iperf3(1)"),
        ],
        predicted_from: text(
            "where a window limits, window times size over the round trip, as net.rtt has measured it or the link's delays give it; over a link with a rate, that rate less headers, of which who sends no more than that loses the share that is lost; on loopback, net.bandwidth's UDP of the run, or its TCP",
        ),
        after: list![text("net.rtt"), text("net.bandwidth")],
        needs: list![
            text("stack=quic: a build with quinn, as is usual (--features quic)"),
            text("congestion_control: that the kernel has it, and lets this user choose it"),
        ],
        roles: list![text("receiver"), text("sender")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| least_ns(point, Asks::Rate),
    // Windows of both ends, and what lies between them.
    memory_bytes: |point| 4 * (size(point) as u64) + (256 << 20),
    processors: |_| 2,
    headlines,
    more_points: |_| more_points(),
    budget: Some(budget),
    predict,
    roles: &[
        |launch| Ok(Box::new(Receiving::start(launch, Asks::Rate)?)),
        |launch| Ok(Box::new(Sending::start(launch, Asks::Rate)?)),
    ],
    derive: |_, reports| joined(reports),
};

/// With what every run has.
fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(40),
        Precision::Default => Duration::from_secs(80),
        Precision::Full => Duration::ZERO,
    }
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "reliable datagrams: rudp on loopback, 64 KiB messages",
        PROBE.info.defaults().with("size", 64 << 10),
    )]
}

/// Beside one axis at a time: the study's protocol at the sizes and windows of its table, and the
/// congestion controls that are compared.
fn more_points() -> Vec<Planned> {
    let defaults = || PROBE.info.defaults();
    let study = |size: u64, window: u64| {
        let axes = defaults().with("stack", "study");
        axes.with("size", size).with("window", window)
    };
    Planned::anywhere(vec![
        study(1400, 1),
        study(20_000, 1),
        study(20_000, 8),
        defaults().with("control", "fixed").with("window", 8),
        defaults()
            .with("stack", "tcp")
            .with("congestion_control", "cubic"),
        defaults()
            .with("stack", "tcp")
            .with("congestion_control", "bbr"),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::axes::check;
    use super::*;
    use crate::literal::point;

    #[test]
    fn what_is_planned_beside_one_axis_at_a_time_can_be() {
        let headlines = headlines(&Facts::default());
        let own = headlines.into_iter().map(|headline| headline.axes);
        for axes in more_points()
            .into_iter()
            .map(|planned| planned.axes)
            .chain(own)
        {
            assert_eq!(check(&point(&PROBE, axes.clone())), Ok(()), "{axes}");
        }
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        let refused = |name: &'static str, value: &'static str, stack: &'static str| {
            let axes = PROBE.info.defaults().with("stack", stack);
            let point = point(&PROBE, axes.with(name, value));
            check(&point).map_err(|failure| failure.reason)
        };
        for (name, value, stack, says) in [
            ("control", "rate", "tcp", "control=cubic"),
            (
                "congestion_control",
                "bbr",
                "rudp",
                "congestion_control=default",
            ),
            (
                "congestion_control",
                "bbr",
                "study",
                "congestion_control=default",
            ),
        ] {
            let reason = refused(name, value, stack).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
        let long = PROBE
            .info
            .defaults()
            .with("stack", "study")
            .with("size", 64 << 10);
        let reason = check(&point(&PROBE, long)).unwrap_err().reason;
        assert!(reason.contains("size=65499"), "{reason}");
        assert_eq!(refused("congestion_control", "bbr", "tcp"), Ok(()));
    }
}

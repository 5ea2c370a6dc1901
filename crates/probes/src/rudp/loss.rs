//! `rudp.loss`: what a link that loses packets does to messages, by rudp and by what it is held
//! against.

use super::axes::{CONTROL, STACK, size, size_axis, window_axis};
use super::predict::predict;
use super::roles::{Asks, Receiving, Sending, least_ns};
use crate::derived;
use crate::literal::{latency, list, metric, text};
use crate::net::both_ends::joined;
use crate::net::congestion_control::CONGESTION_CONTROL;
use costof_measure::probe::Probe;
use costof_measure::schedule::Precision;
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::metric::Data;
use costof_model::point::{Headline, Planned, Point};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Report;
use costof_model::unit::{Better, Unit};
use std::sync::LazyLock;
use std::time::Duration;

/// The share of packets that is lost on their way to the receiver, as the study had it, over a link
/// without and with a long way.
const SHORT: [&str; 5] = [
    "rate=100Mbit",
    "rate=100Mbit,up.loss=1%",
    "rate=100Mbit,up.loss=10%",
    "rate=100Mbit,up.loss=20%",
    "rate=100Mbit,up.loss=30%",
];
const LONG: [&str; 5] = [
    "wan",
    "delay=95ms,rate=100Mbit,up.loss=1%",
    "delay=95ms,rate=100Mbit,up.loss=10%",
    "delay=95ms,rate=100Mbit,up.loss=20%",
    "delay=95ms,rate=100Mbit,up.loss=30%",
];

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rudp.loss"),
        method: 2,
        question: text(
            "What does a link that loses packets do to messages, by rudp, TCP, QUIC and the study's protocol?",
        ),
        axes: list![
            STACK,
            CONTROL,
            CONGESTION_CONTROL,
            size_axis(list![1400]),
            window_axis(list![10]),
        ],
        crossings: list![],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes of messages that arrived, each once, by the receiver's clock, stalls included; with a window, after the first window of them; without, in the second half of the time",
            ),
            metric(
                "goodput_share",
                Unit::One,
                Better::Higher,
                "that as a share of the link's rate times the share of packets that it does not lose, headers included; more than 1 where more is sent than the rate, since what is lost is lost before it",
            ),
            metric(
                "start_up",
                Unit::Nanoseconds,
                Better::Lower,
                "without a window: until a tenth of the time goes at nine tenths of that rate",
            ),
            latency(
                "with a window: from when a message is handed over until it is known to have arrived",
            ),
            metric(
                "starved",
                Unit::One,
                Better::Lower,
                "of messages with a window, the share that takes a second or more, those without an answer among them",
            ),
            metric(
                "starved_count",
                Unit::One,
                Better::Lower,
                "how many those are in a launch",
            ),
            metric(
                "unanswered",
                Unit::One,
                Better::Lower,
                "the share that had no answer when the time was over",
            ),
            metric(
                "asked",
                Unit::One,
                Better::Neither,
                "how many messages there were in a launch",
            ),
            metric(
                "cpu_sender",
                Unit::Nanoseconds,
                Better::Lower,
                "without a window: processor time of the sending thread for 1 KiB",
            ),
            metric(
                "cpu_receiver",
                Unit::Nanoseconds,
                Better::Lower,
                "without a window: processor time of the receiving thread for 1 KiB",
            ),
            metric(
                "sender_running",
                Unit::One,
                Better::Neither,
                "share of the time for which the sending thread ran",
            ),
            metric(
                "receiver_running",
                Unit::One,
                Better::Neither,
                "share of the time for which the receiving thread ran",
            ),
            metric(
                "retransmissions",
                Unit::One,
                Better::Lower,
                "what was sent again or taken for lost, as a share of all that was sent",
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "datagrams that did not arrive, as a share of those sent",
            ),
            metric(
                "lost_in_queue",
                Unit::One,
                Better::Lower,
                "of which the receiver's socket had no room for, as a share of those sent",
            ),
            metric(
                "mtu",
                Unit::Bytes,
                Better::Neither,
                "the largest packet of the way, IP header included",
            ),
        ],
        how: text(
            "The transfer of rudp.bandwidth over a link that loses packets (--link \
             rate=100Mbit,up.loss=10% and so on; up. is the data's direction). With a window, a \
             hundred messages or more, and four windows or more, are sent, so many at a time, and \
             each is stamped when it is handed over and when its sender knows that it has \
             arrived; how many is fixed before, and 12 s are given them. What has no answer by \
             then is counted as such, and as starved where it has waited for a second. With \
             window=0 the stack sends what it can for 40 round trips, of which the second half \
             counts. QUIC encrypts every packet, which the others do not. Its own plan is over \
             the study's losses, 0 to 30 % of the data's packets, on a short way with a window of \
             ten and on a long way with none.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 2: of 100 packets with 0, 10, 20, 30 % dropped, 0, 10, 20, 27 round trips above 1 s"
            ),
            text("RFC 9438, section 5, on CUBIC's rate at a loss; RFC 6298, on TCP's timeouts"),
            text("N. Cardwell and others, BBR: Congestion-Based Congestion Control, 2016"),
        ],
        predicted_from: text(
            "the link's rate less headers, of which who sends no more than that loses the share that is lost; where a window limits, window times size over the round trip with the retries of the share that is lost; CUBIC's rate at a loss by RFC 9438",
        ),
        after: list![],
        needs: list![
            text("a link that loses packets: netem, or the right to make a TUN device"),
            text("stack=quic: a build with quinn, as is usual (--features quic)"),
            text("congestion_control: that the kernel has it, and lets this user choose it"),
        ],
        roles: list![text("receiver"), text("sender")],
    }),
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| least_ns(point, Asks::RoundTrips),
    memory_bytes: |point| 4 * (size(point) as u64) + (256 << 20),
    processors: |_| 2,
    headlines,
    more_points: |_: &Facts| more_points(),
    budget: Some(budget),
    predict,
    roles: &[
        |launch| Ok(Box::new(Receiving::start(launch, Asks::RoundTrips)?)),
        |launch| Ok(Box::new(Sending::start(launch, Asks::RoundTrips)?)),
    ],
    derive,
};

fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(60),
        Precision::Default => Duration::from_secs(800),
        Precision::Full => Duration::ZERO,
    }
}

fn headlines(_: &Facts) -> Vec<Headline> {
    let headline = Headline::new(
        "ten messages of 1400 B under way by rudp, a tenth of packets lost",
        PROBE.info.defaults(),
    );
    vec![headline.over("rate=100Mbit,up.loss=10%")]
}

/// What is compared.
fn contenders() -> Vec<Axes> {
    let defaults = || PROBE.info.defaults();
    let tcp = |control| {
        let axes = defaults().with("stack", "tcp");
        axes.with("congestion_control", control)
    };
    vec![
        defaults(),
        defaults().with("control", "rate"),
        defaults().with("stack", "study"),
        defaults().with("stack", "quic"),
        tcp("cubic"),
        tcp("bbr"),
    ]
}

fn more_points() -> Vec<Planned> {
    let mut points = Vec::new();
    for axes in contenders() {
        for link in SHORT {
            points.push(Planned::over(axes.clone(), link));
        }
        // What has no window of its own would have one message under way.
        let window = match axes.word("stack") {
            "study" => 64,
            _ => 0,
        };
        for link in LONG {
            points.push(Planned::over(axes.clone().with("window", window), link));
        }
    }
    points
}

/// What both report, and what share of the link the throughput is.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    let throughput = report.metrics.iter().find_map(|measured| {
        match (&*measured.name == "throughput", &measured.data) {
            (true, Data::Value(value)) => Some(*value),
            _ => None,
        }
    });
    if let (Some(throughput), Some(carries)) = (throughput, carries(point)) {
        derived::add(&mut report, "goodput_share", throughput / carries);
    }
    report
}

/// The rate of the point's link times what it does not lose, in bytes per second; none where it has no rate.
fn carries(point: &Point) -> Option<f64> {
    match point.link.parse().ok()? {
        Link::Emulated { up, .. } => Some(up.rate? / 8.0 * (1.0 - up.loss)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::axes::check;
    use super::*;
    use crate::literal;
    use costof_model::rows::State;

    #[test]
    fn what_is_planned_can_be_and_its_links_have_their_names() {
        let points = more_points();
        assert_eq!(
            points.len(),
            contenders().len() * (SHORT.len() + LONG.len())
        );
        for (position, planned) in points.iter().enumerate() {
            assert!(!points[..position].contains(planned), "{planned:?}");
            let link = planned.link.expect("each is over a link");
            let parsed: Link = link.parse().unwrap();
            assert_eq!(parsed.to_string(), link);
            let mut point = literal::point(&PROBE, planned.axes.clone());
            point.link = text(link);
            assert_eq!(check(&point), Ok(()), "{point}");
        }
    }

    #[test]
    fn the_share_is_of_what_the_link_does_not_lose() {
        let report = |throughput: f64| {
            let mut report = Report {
                state: State::Ok,
                allocations: 0,
                metrics: Vec::new(),
            };
            derived::add(&mut report, "throughput", throughput);
            report
        };
        let share = |link: &'static str| {
            let mut point = literal::point(&PROBE, PROBE.info.defaults());
            point.link = text(link);
            let sender = Report {
                metrics: Vec::new(),
                ..report(0.0)
            };
            let report = derive(&point, vec![report(9e6), sender]);
            let found = report
                .metrics
                .iter()
                .find(|one| one.name == "goodput_share");
            found.map(|measured| measured.data.clone())
        };
        assert_eq!(share("rate=100Mbit,up.loss=10%"), Some(Data::Value(0.8)));
        assert_eq!(share("rate=80Mbit"), Some(Data::Value(0.9)));
        assert_eq!(share("delay=1ms"), None);
        assert_eq!(share("loopback"), None);
    }
}

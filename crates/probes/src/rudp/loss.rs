//! `rudp.loss`: messages over a link that loses packets, by rudp and what it is compared with.

use crate::prelude::*;
use crate::two_ends::axes::window_axis;
use crate::two_ends::transfer::order::least_ns;
use crate::two_ends::transfer::predict::predict;
use crate::two_ends::transfer::roles::{ROLE_NAMES, Receiving, Sending, metrics_after};
use crate::two_ends::{CongestionControl, Control, Over, Transfer, joined};
use costof_exchange::stream::MIN_MESSAGE_BYTES;

/// The study's losses, of packets to the receiver: on a short path, and on a long one.
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

pub(crate) static PROBE: Probe = Probe::new::<Loss>();

point! {
    /// How fast are messages of rudp, TCP, QUIC and the study's protocol over a link that loses
    /// packets?
    ///
    /// The stream of net.stream over a link that loses packets, such as --link
    /// rate=100Mbit,up.loss=10% (up. is the data's direction). With a window, a hundred messages or
    /// more are sent, and three windows or more. Each is timed from its send until its sender knows
    /// that it has arrived. Their number is fixed beforehand, and all are waited for, however long
    /// that takes: a measurement that stops when its time is over tends to stop at a loss. Only on
    /// a link that delivers almost nothing does it end after some minutes; messages without an
    /// answer by then count as unanswered, and as starved if they have waited for a second. With
    /// window=0 the transport sends what it can for 40 round trips, of which the second half counts.
    /// Only QUIC encrypts its packets. The probe's own plan has the study's losses, 0 to 30 % of
    /// the data packets, on a short path with a window of ten and on a long path with none. By
    /// hand, between two terminals: `costof send --over rudp` and `--over study-datagrams`, with
    /// `--set window=`, `--retry` and `--drop`.
    ///
    /// # Predicted from
    /// the link's rate less headers, and less the share lost if the sender sends no faster than the
    /// rate; with a window that limits: window times size over the round trip and the
    /// retransmissions; CUBIC's rate under loss by RFC 9438
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: with 0, 10, 20, 30 % of packets dropped, 0, 10, 20, 27 of
    ///   100 round trips took more than 1 s
    /// - RFC 9438, section 5, on CUBIC's rate under loss; RFC 6298, on TCP's timeouts
    /// - N. Cardwell and others, BBR: Congestion-Based Congestion Control, 2016
    ///
    /// # Needs
    /// - a link that loses packets: permission to make a TUN device
    /// - over=quic: a build with quinn, the default (--features quic)
    /// - congestion_control: a kernel that has it, and allows this user to choose it
    pub(crate) struct Loss of "rudp.loss" {
        /// what carries the messages
        over: Over = Over::that(Over::Rudp, |_, it| it.open.is_some() && !it.sender_counts),
        control: Control = Control::axis(),
        congestion_control: CongestionControl = CongestionControl::axis(),
        /// bytes of a message; with over=study at most 65499, in one datagram
        size: usize = bytes(MIN_MESSAGE_BYTES as u64..=1 << 20, &[1400]),
        window: u64 = window_axis(&[10]),
    }
}

impl From<&Loss> for Transfer {
    fn from(point: &Loss) -> Transfer {
        let transfer = Transfer { timed: true, ..Transfer::new(point.over, point.size) };
        transfer.controlled(point.window, point.control, point.congestion_control)
    }
}

impl Measure for Loss {
    const METHOD: u32 = 3;
    const METRICS: &'static [Metric] = &metrics_after::<18>(metrics! {
        /// bytes of messages that arrived, each counted once, by the receiver's clock, stalls
        /// included; with a window, after the first window; without one, in the second half of the
        /// time
        throughput: BytesPerSecond Higher,
        /// the throughput with headers as a share of the link's rate less its loss; more than 1 if
        /// the sender sends faster than the rate, because the link loses packets before its rate
        /// limit
        goodput_share: One Higher,
        /// without a window: until the rate has been nine tenths of the throughput for a tenth of
        /// the time
        start_up: Nanoseconds Lower,
        /// with a window: from a message's send until its sender knows that it has arrived; of more
        /// than a million messages, as by hand, those of the first million
        latency: Nanoseconds Lower,
        /// with a window: from the start until the sender knows that the last message has arrived
        elapsed: Nanoseconds Lower,
        /// with a window: the share of messages that took a second or more, including those without
        /// an answer
        starved: One Lower,
        /// their number in a launch
        starved_count: One Lower,
        /// the share of messages without an answer when the time was over
        unanswered: One Lower,
        /// messages sent in a launch
        asked: One Neither,
    });
    const AFTER: NameList = &["net.rtt", "net.bandwidth"];
    const PROCESSORS: usize = 2;
    const ROLE_NAMES: NameList = ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Loss>(Receiving::start(launch)?),
        |launch| role::<Loss>(Sending::start(launch)?),
    ];
    const BUDGET: Option<Budget> = Some(Budget::seconds(60, 800, 0));

    fn aliases() -> Vec<Alias> {
        Over::was_stack(Loss::PROBE)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        least_ns(&point.to())
    }

    fn check_axes(point: &At<Self>) -> Result {
        Transfer::from(&point.axes).check_axes()
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        4 * (point.size as u64) + (256 << 20)
    }

    headlines! {
        "rudp: ten messages of 1400 B in flight, 10 % of packets lost": {} over "rate=100Mbit,up.loss=10%",
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        let mut points = Vec::new();
        for short in contenders() {
            // A transport without a window of its own would have one message in flight.
            let has_fixed_rto = short.over.description().fixed_rto.is_some();
            let window = if has_fixed_rto { 64 } else { 0 };
            let long = Loss { window, ..short.clone() };
            let on = |point: &Loss, link| Planned::over(point.clone().into(), link);
            points.extend(SHORT.map(|link| on(&short, link)));
            points.extend(LONG.map(|link| on(&long, link)));
        }
        points
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict(&point.to(), measured)
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derive(point, reports)
    }
}

fn contenders() -> [Loss; 6] {
    let tcp = |congestion_control| Loss { over: Over::Tcp, congestion_control, ..Loss::default() };
    let of = |over| Loss { over, ..Loss::default() };
    let rate = Loss { control: Control::Rate, ..Loss::default() };
    [
        Loss::default(),
        rate,
        of(Over::Study),
        of(Over::Quic),
        tcp(CongestionControl::Cubic),
        tcp(CongestionControl::Bbr),
    ]
}

/// Both ends' reports, and the throughput as a share of the link's rate.
fn derive(point: &At<Loss>, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    let throughput = derived::value(&report, "throughput");
    if let (Some(throughput), Some(carries)) = (throughput, carries(point)) {
        derived::add(&mut report, "goodput_share", throughput / carries);
    }
    report
}

/// The rate of the point's link less its loss, in bytes per second; none if the link has no rate.
fn carries(point: &At<Loss>) -> Option<f64> {
    let Link::Emulated { up, .. } = point.link.parse().ok()? else {
        return None;
    };
    Some(up.rate? / 8.0 * (1.0 - up.loss))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::rows::State;

    #[test]
    fn what_is_planned_can_be_and_its_links_have_their_names() {
        let points = Loss::more_points(&Facts::default());
        assert_eq!(points.len(), contenders().len() * (SHORT.len() + LONG.len()));
        for (position, planned) in points.iter().enumerate() {
            assert!(!points[..position].contains(planned), "{planned:?}");
            let link = planned.link.expect("each is over a link");
            let parsed: Link = link.parse().unwrap();
            assert_eq!(parsed.to_string(), link);
            let point = Loss::read(&planned.axes).expect("it has all axes");
            assert_eq!(Transfer::from(&point).check(), Ok(()), "{point:?}");
        }
    }

    #[test]
    fn the_share_is_of_what_the_link_does_not_lose() {
        let report = |throughput: f64| {
            let mut report = Report { state: State::Ok, allocations: 0, metrics: Vec::new() };
            derived::add(&mut report, "throughput", throughput);
            report
        };
        let share = |link: &'static str| {
            let (axes, link) = (Loss::default(), link.into());
            let point = At { axes, link };
            let sender = Report { metrics: Vec::new(), ..report(0.0) };
            let report = derive(&point, vec![report(9e6), sender]);
            derived::value(&report, "goodput_share")
        };
        assert_eq!(share("rate=100Mbit,up.loss=10%"), Some(0.8));
        assert_eq!(share("rate=80Mbit"), Some(0.9));
        assert_eq!(share("delay=1ms"), None);
        assert_eq!(share("loopback"), None);
    }
}

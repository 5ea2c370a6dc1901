//! Predictions of transfers of messages.

use super::Transfer;
use super::order::timed_least;
use crate::expect::throughput;
use crate::prelude::*;
use crate::two_ends::over::{Reaction, Share};
use crate::two_ends::path::{IP_HEADER, MTU, delays_ns};
use crate::two_ends::{Control, Over, Wait};
use costof_exchange::rendezvous::TIMEOUT;
use costof_model::link::Emulation;

/// Copies by one CPU, in bytes per nanosecond: lowest and highest.
const COPIES: (f64, f64) = (2.5, 20.0);
/// The lowest rate at which both ends of QUIC encrypt and decrypt, in bytes per nanosecond: AES-GCM
/// with AES-NI, and quinn's work for a packet.
const ENCRYPTS: f64 = 0.25;
/// The most that an emulated link and both ends' wake-ups add to a round trip besides the link's
/// delays, in nanoseconds.
const EMULATED_NS: f64 = 600e3;
/// The highest loss for which CUBIC's response function holds: it ignores timeouts.
const MAX_CUBIC_LOSS: f64 = 0.05;

pub(crate) fn predict(point: &At<Transfer>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let link = point.link.parse().ok()?;
    match (link, point.in_flight()) {
        (Link::Loopback | Link::Veth, Some(window)) => within_the_machine(point, window, measured),
        (Link::Loopback, None) => as_net_bandwidth(point, measured),
        // How few bytes are left for the link is not known.
        (Link::Emulated { .. }, _) if point.over == Over::GrpcGzip => None,
        (Link::Emulated { up, down }, Some(window)) => over_a_delay(point, window, &up, &down),
        (Link::Emulated { up, .. }, None) => at_a_rate(point, &up),
        (Link::Veth, None) | (Link::Remote | Link::Sink, _) => None,
    }
}

/// A message's packets on Ethernet.
struct Packets {
    count: f64,
    wire_bytes: f64,
    /// The lowest and highest payload of this many bytes on the wire.
    payload: (f64, f64),
}

impl Packets {
    fn new(point: &Transfer) -> Packets {
        let size = point.size as u64;
        let (headers, limit) = (point.carrier().headers, point.carrier().datagram_limit);
        let is_datagram = limit.is_some();
        let count = if is_datagram {
            // A number, and IP fragments.
            (size + 16).div_ceil(MTU - IP_HEADER)
        } else {
            // A transport outside the kernel has 20 to 40 B of headers of its own.
            size.div_ceil(MTU - headers)
        };
        let wire = size + count * headers;
        let (payload, packet) = if is_datagram { (size, wire) } else { (MTU - headers, MTU) };
        Packets {
            count: count as f64,
            wire_bytes: wire as f64,
            payload: (payload as f64, packet as f64),
        }
    }
}

fn shown(bytes_per_second: f64) -> String {
    Unit::BytesPerSecond.display(bytes_per_second)
}

fn within_the_machine(
    point: &At<Transfer>,
    window: u64,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let waits = [("over", Over::Tcp.word()), ("wait", Wait::Block.word())];
    let rtt = measured.primary_over(&point.link, "net.rtt", &waits)?;
    let bytes = point.size as f64;
    let mut cost = Cost::new(rtt, "for a round trip of a small message (net.rtt)") * (0.7, 4.0);
    let copies = (2.0 * bytes / COPIES.1, 8.0 * bytes / COPIES.0);
    cost += Cost::new(copies, format!("for 2 to 8 copies of {bytes} B"));
    if point.carrier().is_encrypted {
        cost += Cost::new((0.0, bytes / ENCRYPTS), "for encryption and decryption");
    }
    // The window takes as long as one message alone, or up to as long as all in sequence.
    cost.named(format!("{window} × {bytes} B in flight per round trip"))
        .predict_throughput((bytes, window as f64 * bytes))
}

/// CPU-bound transfers: relative to what net.bandwidth measured of the kernel alone.
fn as_net_bandwidth(point: &At<Transfer>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let Share { over, range, why } = point.carrier().share.as_ref()?;
    let (low, high) = range;
    let (over, rate) = over.iter().find_map(|over| {
        let over = over.word();
        let rate = measured.primary_over(&point.link, "net.bandwidth", &[("over", over)])?;
        Some((over, rate))
    })?;
    let measured = format!("{} that net.bandwidth measured over {over}", shown(rate));
    let because = format!("{low} to {high} times the {measured}: {why}");
    throughput(low * rate, high * rate, because)
}

/// The rate of a link, in bytes of messages. Packets are lost before the rate limit, and use none
/// of it.
pub(crate) fn limit(point: &Transfer, up: &Emulation) -> Option<(f64, String)> {
    let rate = up.rate? / 8.0;
    let (payload, packet) = Packets::new(point).payload;
    let why =
        format!("the link's {}, with at most {payload} B of payload in {packet}", shown(rate));
    Some((rate * payload / packet, why))
}

fn over_a_delay(
    point: &At<Transfer>,
    window: u64,
    up: &Emulation,
    down: &Emulation,
) -> Option<Prediction> {
    if up.reorder + up.duplicate + down.reorder + down.duplicate > 0.0 {
        return None;
    }
    let packets = Packets::new(point);
    let jitter = up.jitter_ns + down.jitter_ns;
    let sending = up.rate.map_or(0.0, |rate| packets.wire_bytes * 8e9 / rate);
    let delays = delays_ns(&point.link);
    let mut cost = Cost::new(((delays - jitter).max(0.0), delays + jitter), "of delays")
        + Cost::new(sending, "to send a message")
        + Cost::new((0.0, EMULATED_NS), "for the link's emulator and wake-ups");
    let lost = lost(point, packets.count);
    let fixed_rto = point.carrier().fixed_rto;
    if lost > 0.0 {
        // For other transports, the time to detect a loss dominates and is not known.
        let rto = fixed_rto.filter(|_| lost <= 0.9)?;
        cost += retried(lost, window, rto);
    }
    let is_controlled = fixed_rto.is_none() && point.control != Control::Fixed;
    if is_controlled && window as f64 * packets.count > 1.0 {
        cost += Cost::new(
            (0.0, delays + jitter),
            "over which congestion control paces several packets",
        );
    }
    let least_ns = cost.range.0.max(1.0);
    let name = format!("{window} × {} B in flight per round trip", point.size);
    let bytes = window as f64 * point.size as f64;
    let prediction = cost.at_least(least_ns).named(name).predict_throughput(bytes)?;
    Some(match limit(point, up) {
        Some((limit, why)) => prediction.at_most(limit, 0.8, why),
        None => prediction,
    })
}

/// What retransmissions after a fixed timeout add to a window. `lost` is the share of messages of
/// which the message or its answer is lost.
fn retried(lost: f64, window: u64, rto: Duration) -> Cost {
    let retry = rto.as_nanos() as f64;
    // The message of the window that is lost most often delays the others.
    let (each, longest) = (retries(lost, 1), retries(lost, window));
    // Two standard deviations either way, of the number of transmissions of the message that is
    // lost most often.
    let windows = (timed_least(window) / window) as f64;
    let by_chance = |mean: f64, times: f64| 2.0 * (mean * (1.0 + each) / times).sqrt();
    let least = (each - by_chance(each, windows * window as f64)).max(0.0);
    let most = longest + by_chance(longest, windows);
    let name = format!(
        "for retries after a second: {each:.2} per message, {longest:.2} of a window's worst \
         message, since {:.1} % of messages or answers are lost",
        100.0 * lost
    );
    Cost::new((least * retry, most * retry), name)
}

/// The mean number of retransmissions of the message that is retransmitted most often, out of
/// `messages`.
fn retries(lost: f64, messages: u64) -> f64 {
    /// No transfer lasts this many retransmission timeouts of a second.
    const MAX: i32 = 100;
    let once_more = |times| 1.0 - (1.0 - lost.powi(times)).powf(messages as f64);
    (1..=MAX).map(once_more).sum()
}

/// How long losses delay a window of messages, in nanoseconds, where the retransmission timeout is
/// fixed.
pub(super) fn held_up_ns(point: &At<Transfer>, window: u64) -> f64 {
    let rto = point.carrier().fixed_rto;
    let retries = retries(lost(point, Packets::new(point).count), window);
    rto.map_or(0.0, |rto| retries * rto.as_nanos() as f64)
}

/// How long lost packets of so many messages hold up a transport that notices a loss by later packets, in
/// nanoseconds: it waits for a timeout where a retransmission is lost too. With 300 messages, ten in flight, TCP
/// took 0.1, 3.4 and 8.6 s at 10, 20 and 30 % (0.7, 3 and 7.7 by this).
pub(super) fn timeouts_ns(point: &At<Transfer>, messages: u64) -> f64 {
    let lost = lost(point, 1.0);
    let packets = Packets::new(point).count * messages as f64;
    packets * lost * lost / (1.0 - lost).max(0.01) * point.carrier().min_rto.as_nanos() as f64
}

/// How long lost packets hold up the beginning of a connection, on average, in nanoseconds: its handshake,
/// and then one more exchange, before which no round-trip time is known.
pub(super) fn connecting_ns(point: &At<Transfer>) -> f64 {
    let (lost, rto) = (lost(point, 1.0), point.carrier().first_rto);
    let waits = (0..)
        .map(|times| (rto * (1 << times), lost.powi(times + 1)))
        .take_while(|(wait, _)| !wait.is_zero() && *wait < TIMEOUT);
    2.0 * waits.map(|(wait, share)| share * wait.as_nanos() as f64).sum::<f64>()
}

/// The share of so many packets in a row, or their answers, that the link loses.
fn lost(point: &At<Transfer>, packets: f64) -> f64 {
    match point.link.parse() {
        Ok(Link::Emulated { up, down }) => 1.0 - (1.0 - up.loss).powf(packets) * (1.0 - down.loss),
        _ => 0.0,
    }
}

/// The share of a link's rate that a congestion control uses.
fn at_a_rate(point: &At<Transfer>, up: &Emulation) -> Option<Prediction> {
    if up.jitter_ns + up.reorder + up.duplicate > 0.0 {
        return None;
    }
    let (limit, why) = limit(point, up)?;
    let loss = format!("{:.3} % of loss", 100.0 * up.loss);
    let round_trip_ns = delays_ns(&point.link);
    match reaction(point, up.loss)? {
        // Packets are lost before the rate limit: a sender that exceeds the rate may fill the link.
        Reaction::Keeps { share, max_loss } if up.loss <= max_loss => throughput(
            share * (1.0 - up.loss) * limit,
            limit,
            format!("{why}, less up to {loss}; at least {share} of the rest is used"),
        ),
        Reaction::Cubic if up.loss <= MAX_CUBIC_LOSS && round_trip_ns > 0.0 => {
            let seconds = round_trip_ns / 1e9;
            let packets = cubic_window(up.loss, seconds);
            let rate = packets * Packets::new(point).payload.0 / seconds;
            let because = format!(
                "0.3–2 × {}, CUBIC's mean window of {packets:.1} packets at {loss} (RFC 9438, \
                 equation 5, or NewReno's where that is more) in a round trip of {}",
                shown(rate),
                Unit::Nanoseconds.display(round_trip_ns),
            );
            Some(throughput(0.3 * rate, 2.0 * rate, because)?.at_most(limit, 0.3, why))
        }
        Reaction::Keeps { .. } | Reaction::Cubic => None,
    }
}

fn reaction(point: &Transfer, loss: f64) -> Option<Reaction> {
    if loss > 0.0 {
        return (point.carrier().reaction)(point);
    }
    Some(Reaction::Keeps { share: 0.8, max_loss: 0.0 })
}

/// CUBIC's mean window in packets at this loss and round trip in seconds, by RFC 9438 section 5.1
/// with its constants (C = 0.4, beta = 0.7), or NewReno's of section 5 if that is larger.
fn cubic_window(loss: f64, round_trip: f64) -> f64 {
    let cubic = (0.4_f64 * 3.7 / (4.0 * 0.3)).powf(0.25) * round_trip.powf(0.75) / loss.powf(0.75);
    let reno = (1.5 / loss).sqrt();
    cubic.max(reno)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net;
    use crate::net::stream::Stream;
    use crate::rudp::loss::Loss;
    use crate::testing::{measured_over_loopback, text};
    use crate::two_ends::congestion_control::CongestionControl;
    use costof_exchange::transport::study::MAX_MESSAGE_BYTES;
    use costof_measure::probe::Measure;
    use costof_model::facts::Facts;

    fn of(link: &'static str, by: Over, window: u64) -> Option<Prediction> {
        let point = Loss { over: by, window, ..Loss::default() };
        over(link, point)
    }

    fn over(link: &'static str, axes: Loss) -> Option<Prediction> {
        let link = link.into();
        Loss::predict(&At { axes, link }, &Facts::default(), &MeasuredRows::new(&[]))
    }

    fn megabytes(prediction: Option<Prediction>) -> Option<(f64, f64)> {
        let round = |value: f64| (value / 1e3).round() / 1e3;
        prediction.map(|prediction| (round(prediction.low), round(prediction.high)))
    }

    #[test]
    fn one_under_way_is_its_size_over_the_round_trip() {
        // 1428 B at 100 Mbit/s take 114 us, in addition to 190 ms.
        let stop_and_wait = of("wan", Over::Rudp, 1).unwrap();
        assert!((stop_and_wait.high - 1400.0 / 0.190_114).abs() < 1.0, "{stop_and_wait:?}");
        assert!(stop_and_wait.low > 0.99 * stop_and_wait.high);
        assert!(stop_and_wait.because.contains("1 × 1400 B"), "{stop_and_wait:?}");
        // Messages of several packets may be paced over a round trip; the study's are not.
        let long = |by| Loss { over: by, window: 1, size: 20_000, ..Loss::default() };
        let paced = over("wan", long(Over::Rudp)).unwrap();
        assert!((paced.high - 20_000.0 / 0.191_630).abs() < 10.0, "{paced:?}");
        assert!(paced.low > 0.49 * paced.high && paced.low < 0.51 * paced.high);
        let study = over("wan", long(Over::Study)).unwrap();
        assert!(study.low > 0.99 * study.high, "{study:?}");
        // The link's rate is the limit.
        let many = of("wan", Over::Rudp, 4096).unwrap();
        assert!(many.high < 12.5e6, "{many:?}");
    }

    #[test]
    fn a_retry_of_the_study_takes_a_second() {
        let link = "rate=100Mbit,up.loss=20%";
        let study = |window| of(link, Over::Study, window).unwrap();
        // A quarter of a retry per message: 5.6 kB/s.
        let one = study(1);
        assert!(one.low < 5.6e3 && one.high > 5.6e3, "{one:?}");
        assert!(one.high < 20e3, "{one:?}");
        let ten = study(10);
        assert!(ten.low < 56e3 && ten.high > 56e3, "{ten:?}");
        assert_eq!(over(link, Loss::default()), None);
    }

    #[test]
    fn of_several_messages_one_is_lost_most_often() {
        // A second transmission with probability 0.2, a third with 0.04, and so on; of two
        // messages, at least one is retransmitted with 0.36.
        assert!((retries(0.2, 1) - 0.25).abs() < 1e-9);
        assert!((retries(0.2, 2) - 0.458).abs() < 1e-3);
        assert!(retries(0.2, 64) > 2.0 && retries(0.2, 64) < 3.0);
        assert_eq!((retries(0.0, 64), retries(1.0, 64)), (0.0, 100.0));
    }

    #[test]
    fn what_a_link_lets_through_is_its_rate_less_headers_whatever_is_lost_before() {
        let stream = || Loss { window: 0, ..Loss::default() };
        let rate = Loss { control: Control::Rate, ..stream() };
        let bbr =
            || Loss { over: Over::Tcp, congestion_control: CongestionControl::Bbr, ..stream() };
        let lossy = "delay=95ms,rate=100Mbit,up.loss=10%";
        // 12.5 MB/s, of which 1472 B in 1500 and TCP's 1448 are payload.
        assert_eq!(megabytes(over("wan", stream())), Some((9.813, 12.267)));
        // Packets are lost before the rate limit: a sender that exceeds the rate fills the link.
        assert_eq!(megabytes(over(lossy, rate)), Some((8.832, 12.267)));
        assert_eq!(megabytes(over(lossy, bbr())), Some((5.43, 12.067)));
        assert_eq!(over("delay=95ms,rate=100Mbit,up.loss=30%", bbr()), None);
        assert_eq!(over(lossy, stream()), None);
        assert_eq!(over("delay=10ms,jitter=1ms,rate=8Mbit", stream()), None);
    }

    #[test]
    fn cubic_at_a_loss_has_the_window_of_the_rfc() {
        // At a round trip of 0.1 s NewReno's is larger down to one packet of a thousand.
        assert!((cubic_window(0.01, 0.1) - 12.2).abs() < 0.5);
        assert!((cubic_window(0.001, 0.1) - 38.7).abs() < 1.0);
        assert!((cubic_window(1e-4, 0.1) - 187.0).abs() < 3.0);
        let starved = of("delay=95ms,rate=100Mbit,up.loss=1%", Over::Rudp, 0);
        let (low, high) = megabytes(starved).unwrap();
        assert!(low > 0.01 && high < 0.3, "{low} {high}");
    }

    #[test]
    fn loopback_is_held_beside_the_kernels_own() {
        let mut rows = vec![measured_over_loopback(net::bandwidth::Bandwidth::default(), 4e9)];
        let predicted = |over, window, rows: &[_]| {
            let size = MAX_MESSAGE_BYTES;
            let axes = Stream { over, size, window, ..Stream::default() };
            let link = text("loopback");
            Stream::predict(&At { axes, link }, &Facts::default(), &MeasuredRows::new(rows))
        };
        assert_eq!(megabytes(predicted(Over::Tcp, 0, &rows)), Some((2400.0, 4800.0)));
        assert_eq!(megabytes(predicted(Over::Rudp, 0, &rows)), Some((800.0, 4000.0)));
        assert_eq!(predicted(Over::Rudp, 1, &rows), None);
        rows.push(measured_over_loopback(net::rtt::Rtt::default(), 20e3));
        let one = predicted(Over::Rudp, 1, &rows).unwrap();
        assert!(one.low < 65499.0 / 60e-6 && one.high > 65499.0 / 60e-6, "{one:?}");
        assert!(predicted(Over::Study, 0, &rows).is_some());
    }
}

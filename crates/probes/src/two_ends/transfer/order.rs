//! How long a transfer lasts and how many messages it has, by what it measures.

use super::Transfer;
use super::predict::{connecting_ns, held_up_ns, timeouts_ns};
use crate::prelude::*;
use crate::two_ends::flows::{self, MAX_DURATION};
use crate::two_ends::path;
use costof_exchange::stream::Order;

/// The fewest messages of a stream over a link with a rate.
const MIN_STREAMED: u64 = 20;
/// The most messages that are timed, apart from those that complete the last window.
const MAX_TIMED: u64 = 100_000;
/// The most over a link that loses packets. For a transport with a fixed retransmission timeout it
/// is also the fewest.
const MAX_TIMED_LOSSY: u64 = 300;
/// How long the timed messages should take at most.
const MAX_EXPECTED: Duration = Duration::from_secs(120);
/// A transfer ends after three times the expected time and this margin, since losses are random.
/// The limit is for links on which nothing arrives any more: a measurement that stops earlier tends
/// to stop at a loss.
const TIMED_MARGIN: Duration = Duration::from_secs(30);

/// The usual time for which a point is measured, in nanoseconds.
const USUAL_NS: f64 = 10e6;

/// The expected time of a point, in nanoseconds: to connect, and then until all messages have arrived, or
/// until its time and the grace after it are over.
pub(crate) fn least_ns(point: &At<Transfer>) -> f64 {
    let round_trip_ns = path::delays_ns(&point.link);
    let grace = grace(point, Duration::from_nanos(round_trip_ns as u64));
    let lasts = match point.timed_window() {
        Some(window) => timed_duration(point, window) + timeouts(point, window),
        None if !point.has_header() => stream_duration(point) + grace,
        None => duration_of_link(point) + grace,
    };
    lasts.as_nanos() as f64 + 2.0 * round_trip_ns + connecting_ns(point)
}

/// How long lost packets hold up messages that are timed, where no retransmission timeout is fixed.
fn timeouts(point: &At<Transfer>, window: u64) -> Duration {
    let round_trip = Duration::from_nanos(path::delays_ns(&point.link) as u64);
    let messages = timed_messages(point, window, USUAL_NS, round_trip);
    let most = 2 * timed_duration(point, window) + TIMED_MARGIN;
    Duration::from_nanos(timeouts_ns(point, messages) as u64).min(most)
}

/// The fewest messages timed: whole windows, and several of them, since the rate excludes the
/// first.
pub(super) fn timed_least(window: u64) -> u64 {
    const MESSAGES: u64 = 100;
    const WINDOWS: u64 = 3;
    MESSAGES.max(WINDOWS * window).next_multiple_of(window)
}

/// How long the timed messages should take, by the link's delays and its loss.
fn timed_duration(point: &At<Transfer>, window: u64) -> Duration {
    let windows = timed_least(window) / window;
    let each_ns = path::delays_ns(&point.link) + held_up_ns(point, window);
    Duration::from_nanos((windows as f64 * each_ns) as u64).min(MAX_EXPECTED)
}

fn duration_of_link(point: &At<Transfer>) -> Duration {
    let round_trip = Duration::from_nanos(path::delays_ns(&point.link) as u64);
    duration(point, 0.0, round_trip)
}

/// The duration of a stream, as both its ends know it: long enough for some messages to cross the
/// link.
pub(super) fn stream_duration(point: &At<Transfer>) -> Duration {
    let bytes = MIN_STREAMED * point.size as u64;
    let sending = Duration::from_nanos(path::sending_ns(&point.link, bytes) as u64);
    duration_of_link(point).max(sending).min(MAX_DURATION)
}

fn duration(point: &Transfer, point_ns: f64, round_trip: Duration) -> Duration {
    let least = point.carrier().min_duration;
    flows::duration(point_ns, least, round_trip)
}

/// How many messages are timed, fixed before the first is sent.
fn timed_messages(point: &At<Transfer>, window: u64, point_ns: f64, round_trip: Duration) -> u64 {
    let each_ns = (round_trip.as_nanos() as f64).max(1.0);
    let fit = point_ns / each_ns * window as f64;
    let most = if point.carrier().fixed_rto.is_some() {
        0
    } else if path::loses(&point.link) {
        MAX_TIMED_LOSSY
    } else {
        MAX_TIMED
    };
    let messages = (fit as u64).min(most).max(timed_least(window));
    messages.next_multiple_of(window)
}

/// How long it is sent beyond the duration.
fn grace(point: &At<Transfer>, round_trip: Duration) -> Duration {
    grace_round_trips(point) * round_trip + Duration::from_millis(20)
}

/// Round trips added to the duration. The receiver's time begins with the first message, which may
/// be retransmitted on a lossy link; the last message needs as long to arrive.
fn grace_round_trips(point: &At<Transfer>) -> u32 {
    if path::loses(&point.link) { 8 } else { 2 }
}

/// The order for a point that is to be measured for `point_ns`.
pub(super) fn order(point: &At<Transfer>, point_ns: f64, round_trip: Duration) -> Order {
    let (duration, messages) = match point.timed_window() {
        Some(window) => {
            let messages = timed_messages(point, window, point_ns, round_trip);
            let duration = 3 * timed_duration(point, window) + TIMED_MARGIN;
            (duration, Some(messages))
        }
        None if !point.has_header() => (stream_duration(point), None),
        None => (duration(point, point_ns, round_trip), None),
    };
    Order {
        size: point.size,
        window: point.in_flight(),
        duration,
        grace: grace(point, round_trip),
        messages,
        has_header: point.has_header(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::stream::Stream;
    use crate::rudp::loss::Loss;
    use crate::two_ends::flows::MIN_DURATION;
    use crate::two_ends::over::Over;
    use ::rudp::{Time, study};

    fn stream(link: &'static str, over: Over, size: usize) -> At<Transfer> {
        let point = Stream { over, size, ..Stream::default() };
        let (axes, link) = (Transfer::from(&point), link.into());
        At { axes, link }
    }

    fn loss(link: &'static str, over: Over, window: u64) -> At<Transfer> {
        let point = Loss { over, window, ..Loss::default() };
        let (axes, link) = (Transfer::from(&point), link.into());
        At { axes, link }
    }

    const RTT: Duration = Duration::from_millis(190);

    #[test]
    fn a_rate_is_found_in_some_round_trips() {
        let over = |link, over| stream(link, over, 1400);
        let lasts = |point: &At<Transfer>, round_trip| order(point, 10e6, round_trip).duration;
        assert_eq!(lasts(&over("loopback", Over::Rudp), Duration::ZERO), MIN_DURATION);
        assert_eq!(lasts(&over("wan", Over::Tcp), RTT), 40 * RTT);
        assert_eq!(lasts(&over("delay=2s", Over::Tcp), 20 * RTT), MAX_DURATION);
        // The second half lasts a second, long enough for a retransmission.
        assert!(lasts(&over("loopback", Over::Study), Duration::ZERO) >= Duration::from_secs(2));
        let grace = |link| order(&over(link, Over::Rudp), 10e6, RTT).grace;
        assert!(grace("wan") < 3 * RTT && grace("delay=95ms,up.loss=30%") > 8 * RTT);
        let least_ms = |link| least_ns(&over(link, Over::Rudp)) / 1e6;
        // With what follows the time, and two round trips to connect.
        assert_eq!((least_ms("loopback"), least_ms("wan")), (320.0, 8380.0));
    }

    #[test]
    fn a_stream_lasts_as_long_at_both_ends_and_twenty_long_messages() {
        let ms = |link, size, point_ns, round_trip| {
            let point = stream(link, Over::Tcp, size);
            let lasts = order(&point, point_ns, round_trip).duration;
            assert_eq!(lasts, stream_duration(&point));
            lasts.as_millis()
        };
        assert_eq!(ms("loopback", 4 << 20, 1e9, RTT), 300);
        assert_eq!(ms("lan", 1, 1e9, RTT), 300);
        assert_eq!(ms("rate=100Mbit", 4 << 20, 0.0, Duration::ZERO), 6710);
        assert_eq!(ms("rate=1Mbit", 4 << 20, 0.0, Duration::ZERO), 15_000);
    }

    #[test]
    fn how_many_messages_are_timed_is_known_before() {
        let order = |link, over, round_trip| {
            let point = loss(link, over, 10);
            order(&point, 30e6, round_trip)
        };
        let short = Duration::from_micros(50);
        assert_eq!(order("loopback", Over::Rudp, short).messages, Some(6000));
        assert_eq!(order("wan", Over::Rudp, RTT).messages, Some(100));
        let lossy = "rate=100Mbit,up.loss=10%";
        assert_eq!(order(lossy, Over::Rudp, short).messages, Some(MAX_TIMED_LOSSY));
        assert_eq!(order(lossy, Over::Study, short).messages, Some(100));
    }

    /// The study's protocol in virtual time, one message at a time, over a link with this loss: how
    /// many messages took a second or more, and how long all took together.
    fn transferred(messages: u64, loss: f64, seed: u64) -> (u64, Duration) {
        let (mut sender, mut receiver) = (study::Sender::new(1), study::Receiver::default());
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        let mut random = fastrand::Rng::with_seed(seed);
        let begin = Time::from_nanos(0);
        let (mut now, mut starved) = (begin, 0);
        for _ in 0..messages {
            let sent_at = now;
            sender.send(vec![0]);
            while sender.poll_acknowledged().is_none() {
                assert!(sender.poll_transmit(now, &mut request));
                if random.f64() < loss {
                    now = sender.poll_timeout().expect("one is in flight");
                } else {
                    receiver.handle_datagram(&request, &mut answer);
                    sender.handle_datagram(&answer);
                }
            }
            starved += u64::from(now.since(sent_at) >= study::RETRY);
        }
        (starved, now.since(begin))
    }

    #[test]
    fn a_hundred_messages_are_sent_whatever_is_lost() {
        const RUNS: u32 = 500;
        for percent in [10_u8, 20, 30] {
            let share = f64::from(percent) / 100.0;
            let point = Loss { over: Over::Study, window: 1, ..Loss::default() };
            let point = At {
                axes: Transfer::from(&point),
                link: format!("rate=100Mbit,up.loss={percent}%").into(),
            };
            let order = order(&point, 30e6, Duration::ZERO);
            assert_eq!(order.messages, Some(100));
            let runs = (0..RUNS).map(|seed| transferred(100, share, seed.into()));
            let (starved, took): (Vec<u64>, Vec<Duration>) = runs.unzip();
            let longest = took.iter().max();
            assert!(longest < Some(&order.duration), "{longest:?} {order:?}");
            let mean = starved.iter().sum::<u64>() as f64 / f64::from(RUNS);
            assert!((mean - 100.0 * share).abs() < 1.0, "{mean} of {percent} %");
            let mean = took.iter().sum::<Duration>() / RUNS;
            let announced = least_ns(&point) / 1e9;
            assert!((mean.as_secs_f64() / announced - 1.0).abs() < 0.05, "{mean:?}");
        }
    }

    #[test]
    fn what_is_timed_is_whole_windows_and_several_of_them() {
        let messages = |window: u64| {
            let point = loss("wan", Over::Study, window);
            let messages = order(&point, 30e6, RTT).messages;
            let round_trips = least_ns(&point) / RTT.as_nanos() as f64;
            (messages, round_trips.round())
        };
        // Two round trips are for connecting.
        assert_eq!(messages(1), (Some(100), 102.0));
        assert_eq!(messages(10), (Some(100), 12.0));
        assert_eq!(messages(30), (Some(120), 6.0));
        assert_eq!(messages(64), (Some(192), 5.0));
        // Losses are waited for, but not forever.
        let lasts_s = |link| {
            let study = loss(link, Over::Study, 10);
            least_ns(&study) / 1e9
        };
        assert_eq!(lasts_s("rate=100Mbit"), 0.0);
        let tenth = lasts_s("rate=100Mbit,up.loss=10%");
        assert!(tenth > 5.0 && tenth < 10.0, "{tenth}");
        assert_eq!(lasts_s("rate=100Mbit,loss=90%"), 120.0);
    }

    #[test]
    fn lost_handshakes_and_timeouts_are_announced() {
        let seconds = |over, percent: u32, window| {
            let mut point = loss("loopback", over, window);
            point.link = format!("rate=100Mbit,up.loss={percent}%").into();
            least_ns(&point) / 1e9
        };
        for (over, percent, window, from, to) in [
            (Over::Tcp, 0, 10, 0.0, 0.0),
            (Over::Tcp, 1, 10, 0.0, 0.1),
            (Over::Tcp, 10, 10, 0.6, 1.5),
            (Over::Tcp, 30, 10, 7.0, 12.0),
            // Who waits for this much longer ends by time.
            (Over::Tcp, 90, 10, 30.0, 60.0),
            (Over::Quic, 30, 10, 2.0, 3.5),
            (Over::Rudp, 30, 10, 0.4, 1.2),
            // 0.3 s, 20 ms after it, and two exchanges of which each third is lost.
            (Over::Rudp, 30, 0, 0.5, 0.9),
            (Over::Tcp, 30, 0, 1.3, 2.0),
        ] {
            let lasts = seconds(over, percent, window);
            assert!(from <= lasts && lasts <= to, "{over:?} {percent} % {window}: {lasts}");
        }
    }

    #[test]
    fn a_transport_with_a_window_of_its_own_is_measured_for_its_rate() {
        let stream = loss("wan", Over::Rudp, 0);
        assert!(stream.timed_window().is_none());
        let order = order(&stream, 30e6, RTT);
        assert_eq!((order.messages, order.duration), (None, 40 * RTT));
    }
}

//! The two ends of a transfer of messages, whatever carries them.

use super::axes::{Carrier, TIMED, Transfer, timed_least};
use super::incoming::Incoming;
use super::outgoing::{Order, Outgoing};
use super::predict::held_up_ns;
use super::stacks::{self, Ready, Sends};
use super::steady::steady;
use crate::net::both_ends::{ARRIVED, DROPPED, SENT};
use crate::net::congestion_control::refused;
use crate::net::flows::{Processors, each};
use crate::net::meeting::{self, broken, cannot_reach};
use crate::net::path;
use crate::net::windows;
use costof_exchange::rendezvous::{Address, Listener};
use costof_measure::meter::Meter;
use costof_measure::probe::RoleAt;
use costof_model::failure::Failure;
use costof_model::protocol::{Launch, Meeting, Offers};
use costof_model::typed::At;
use std::io;
use std::time::Duration;

/// How long a transfer lasts at least.
const LEAST: Duration = Duration::from_millis(300);
/// And where what is lost is sent again after a second: its half has one such second at least.
const LEAST_WITH_RETRIES: Duration = Duration::from_millis(2400);
/// And of QUIC, which first looks for the longest datagram that the path carries.
const LEAST_OF_QUIC: Duration = Duration::from_secs(1);
/// In round trips: what the first half of them is there for is to find the rate.
const ROUND_TRIPS: u32 = 40;
/// And at most.
const MOST: Duration = Duration::from_secs(15);
/// Of a stream of long messages, so many go over a link with a rate.
const STREAMED_LEAST: u64 = 20;
/// Of messages that are timed, so many at most, and what makes the last window whole.
const TIMED_MOST: u64 = 100_000;
/// And no more over a link that loses some; of the study's protocol, which waits a second for each that
/// is lost, the least.
const LOSSY_MOST: u64 = 300;
/// The time from which a round trip counts as starved, in nanoseconds: the study's retry.
const STARVED_NS: u64 = 1_000_000_000;

/// What the ends of calls count for each other: the processor time of all threads of the end that is
/// called, in nanoseconds, and the bytes of a stream's sender.
pub(crate) const CPU_OF_ALL: &str = "cpu_of_all";
pub(crate) const BYTES: &str = "bytes";

/// What is asked of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// How fast it is.
    Rate,
    /// How long each message takes, too, where a window says how many are under way.
    RoundTrips,
    /// How fast it is with messages of any size, of which nothing can be asked: how long it lasts follows
    /// from the point.
    Stream,
}

impl Asks {
    /// The window of messages of which each is timed.
    fn timed(self, point: &Transfer) -> Option<u64> {
        let window = point.under_way();
        window.filter(|_| self == Asks::RoundTrips)
    }
}

/// How long a point lasts at least, in nanoseconds.
pub(crate) fn least_ns(point: &At<Transfer>, asks: Asks) -> f64 {
    let round_trip_ns = path::delays_ns(&point.link);
    let lasts = match asks.timed(point) {
        Some(window) => {
            let windows = timed_least(window) / window;
            let each_ns = round_trip_ns + held_up_ns(point, window);
            Duration::from_nanos((windows as f64 * each_ns) as u64).min(TIMED)
        }
        None if asks == Asks::Stream => streams(point),
        None => lasts_by_itself(point),
    };
    lasts.as_nanos() as f64 + 2.0 * round_trip_ns
}

/// As far as the point alone says.
fn lasts_by_itself(point: &At<Transfer>) -> Duration {
    lasts(
        point,
        0.0,
        Duration::from_nanos(path::delays_ns(&point.link) as u64),
    )
}

/// A stream of calls, as both its ends know: until so many messages are over the link.
fn streams(point: &At<Transfer>) -> Duration {
    let bytes = STREAMED_LEAST * point.size as u64;
    let over_ns = path::sending_ns(&point.link, bytes);
    lasts_by_itself(point)
        .max(Duration::from_nanos(over_ns as u64))
        .min(MOST)
}

fn lasts(point: &At<Transfer>, point_ns: f64, round_trip: Duration) -> Duration {
    let asked = Duration::from_nanos(point_ns as u64);
    let least = match point.carrier {
        Carrier::Study => LEAST_WITH_RETRIES,
        Carrier::Quic => LEAST_OF_QUIC,
        Carrier::Rudp | Carrier::Tcp | Carrier::Calls(_) => LEAST,
    };
    asked.max(least).max(ROUND_TRIPS * round_trip).min(MOST)
}

fn order(point: &At<Transfer>, asks: Asks, point_ns: f64, round_trip: Duration) -> Order {
    let (lasts, messages) = match asks.timed(point) {
        Some(window) => {
            // How many is fixed before the first of them, since whoever stops when the time is over
            // most likely stops at a loss.
            let each_ns = (round_trip.as_nanos() as f64).max(1.0);
            let fit = point_ns / each_ns * window as f64;
            let most = if point.carrier == Carrier::Study {
                0
            } else if path::loses(&point.link) {
                LOSSY_MOST
            } else {
                TIMED_MOST
            };
            let messages = (fit as u64).min(most).max(timed_least(window));
            (TIMED, Some(messages.next_multiple_of(window)))
        }
        None if asks == Asks::Stream => (streams(point), None),
        None => (lasts(point, point_ns, round_trip), None),
    };
    Order {
        size: point.size,
        window: point.under_way(),
        lasts,
        longer: 2 * round_trip + Duration::from_millis(20),
        messages,
        is_known: asks == Asks::Stream,
    }
}

/// Takes in what comes, and says how much that was.
pub(crate) struct Receiving {
    asks: Asks,
    meeting: Meeting,
    cpus: Processors,
    listener: Option<(Listener, Ready)>,
}

impl Receiving {
    pub(crate) fn start(launch: &Launch, asks: Asks) -> Result<Receiving, Failure> {
        let meeting = meeting::meeting(launch)?;
        Ok(Receiving {
            asks,
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            listener: None,
        })
    }
}

impl<P> RoleAt<P> for Receiving
where
    for<'a> Transfer: From<&'a P>,
{
    fn blocks(&self, _: &At<P>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers, Failure> {
        let transfer = Transfer::from(&point.axes);
        transfer.check()?;
        let (ready, more) = stacks::ready(&transfer).map_err(|error| broken(&error))?;
        let over = transfer.over();
        let (listener, mut offers) = meeting::listen(&point.link, &self.meeting, over, 1)?;
        offers.extend(more);
        self.listener = Some((listener, ready));
        Ok(offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let point = &point.to::<Transfer>();
        let (listener, ready) = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        meter.operation_allocates();
        let accepted = stacks::accept(&listener, ready, stop);
        let Some(receiver) = meeting::unless_stopped(accepted)? else {
            return Ok(());
        };
        let incoming = match self.asks {
            Asks::Stream => Incoming::lasting(point.size, streams(point)),
            Asks::Rate | Asks::RoundTrips => Incoming::new(point.size, self.asks.timed(point)),
        };
        let mut ends = [(receiver, incoming)];
        each(&mut ends, &self.cpus, |(receiver, incoming)| {
            receiver.receive(incoming, stop)
        })
        .map_err(|error| broken(&error))?;
        let [(receiver, incoming)] = ends;
        let marks = incoming.marks();
        if matches!(point.carrier, Carrier::Calls(_)) {
            // The sender knows how much came, and when it was taken.
            if let Some(cpu_ns) = receiver.cpu_ns() {
                meter.value(CPU_OF_ALL, cpu_ns);
            }
            return Ok(());
        }
        if self.asks.timed(point).is_some() {
            let rate = incoming.rate();
            let rate = rate.ok_or_else(|| Failure::error("too little arrived to say how fast"))?;
            meter.value("throughput", rate);
        } else {
            let steady = steady(marks, incoming.lasts());
            // Where all of the second half is a stall, the whole time says what there is to say.
            let stretch = steady.map(|steady| steady.stretch);
            let stretch = stretch.or_else(|| windows::whole(&[marks]));
            let stretch =
                stretch.ok_or_else(|| Failure::error("too little arrived to say how fast"))?;
            meter.value("throughput", windows::throughput(&[marks], stretch));
            if let Some(steady) = steady {
                meter.value("start_up", steady.start_up_ns);
            }
            let used = windows::used(&[marks], stretch);
            meter.value("cpu_receiver", used.cpu_ns_per_kib);
            meter.value("receiver_running", used.running);
        }
        let counted = receiver.counted().map_err(|error| broken(&error))?;
        if let Some(counted) = counted {
            meter.value(ARRIVED, counted.datagrams as f64);
            meter.value(DROPPED, counted.dropped as f64);
        }
        Ok(())
    }
}

/// Sends as fast as it may.
pub(crate) struct Sending {
    asks: Asks,
    meeting: Meeting,
    cpus: Processors,
    offers: Offers,
    /// Of the point before, if that was calls: the other end's threads are there until they are asked
    /// what they have used.
    kept: Option<Box<dyn Sends>>,
}

impl Sending {
    pub(crate) fn start(launch: &Launch, asks: Asks) -> Result<Sending, Failure> {
        let meeting = meeting::meeting(launch)?;
        Ok(Sending {
            asks,
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            offers: Offers::new(),
            kept: None,
        })
    }
}

impl<P> RoleAt<P> for Sending
where
    for<'a> Transfer: From<&'a P>,
{
    fn blocks(&self, _: &At<P>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<P>, offers: &Offers) -> Result<Offers, Failure> {
        // The other end may be of another build.
        Transfer::from(&point.axes).check()?;
        self.offers = offers.clone();
        self.kept = None;
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let point = &point.to::<Transfer>();
        let address: Address = meeting::offered(&self.offers)?;
        meter.operation_allocates();
        let token = self.meeting.token.as_bytes();
        let called = stacks::call(point, &address, &self.offers, token).map_err(|error| {
            refused(point.congestion_control.name(), &error)
                .unwrap_or_else(|| cannot_reach(&address, &error))
        })?;
        let order = order(point, self.asks, meter.time_ns(), called.round_trip);
        let mut ends = [(called.sender, Outgoing::new(order))];
        let failed = |error: io::Error| broken(&error);
        each(&mut ends, &self.cpus, |(sender, outgoing)| {
            outgoing.begin();
            sender.send(outgoing)
        })
        .map_err(failed)?;
        let [(sender, outgoing)] = ends;
        meter.value("mtu", f64::from(called.mtu));
        let counted = sender.counted().map_err(failed)?;
        meter.value("retransmissions", counted.again);
        if let Some(datagrams) = counted.datagrams {
            meter.value(SENT, datagrams as f64);
        }
        if matches!(point.carrier, Carrier::Calls(_)) {
            meter.value(BYTES, outgoing.bytes() as f64);
            let steady = steady(outgoing.marks(), order.lasts);
            let steady =
                steady.ok_or_else(|| Failure::error("too little was taken to say how fast"))?;
            meter.value("throughput", steady.throughput);
            meter.value("start_up", steady.start_up_ns);
            self.kept = Some(sender);
        }
        if self.asks.timed(point).is_some() {
            report_round_trips(&outgoing, meter);
        } else {
            report_use(&outgoing, order.lasts, meter);
        }
        Ok(())
    }
}

fn report_use(outgoing: &Outgoing, lasts: Duration, meter: &mut Meter<'_>) {
    let marks = outgoing.marks();
    let half = steady(marks, lasts).map(|steady| steady.stretch);
    // A socket may have taken all in the first half.
    if let Some(stretch) = half.or_else(|| windows::whole(&[marks])) {
        let used = windows::used(&[marks], stretch);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
    }
}

fn report_round_trips(outgoing: &Outgoing, meter: &mut Meter<'_>) {
    let (mut starved, mut count) = (0_u64, 0_u64);
    for ns in outgoing.latencies_ns() {
        meter.latency("latency", *ns as f64);
        starved += u64::from(*ns >= STARVED_NS);
        count += 1;
    }
    let mut unanswered = 0_u64;
    for ns in outgoing.waiting_ns() {
        starved += u64::from(ns >= STARVED_NS);
        unanswered += 1;
        count += 1;
    }
    let count = count.max(1) as f64;
    meter.value("starved", starved as f64 / count);
    meter.value("starved_count", starved as f64);
    meter.value("unanswered", unanswered as f64 / count);
    meter.value("asked", outgoing.given() as f64);
}

#[cfg(test)]
mod tests {
    use super::super::axes::Stack;
    use super::super::bandwidth::Bandwidth;
    use super::super::loss::Loss;
    use super::*;

    fn bandwidth(link: &'static str, stack: Stack, size: usize) -> At<Transfer> {
        let point = Bandwidth {
            stack,
            size,
            ..Bandwidth::default()
        };
        let (axes, link) = (Transfer::from(&point), link.into());
        At { axes, link }
    }

    fn loss(link: &'static str, stack: Stack, window: u64) -> At<Transfer> {
        let point = Loss {
            stack,
            window,
            ..Loss::default()
        };
        let (axes, link) = (Transfer::from(&point), link.into());
        At { axes, link }
    }

    const RTT: Duration = Duration::from_millis(190);

    #[test]
    fn a_rate_is_found_in_some_round_trips() {
        let over = |link, stack| bandwidth(link, stack, 1400);
        let lasts =
            |point: &At<Transfer>, round_trip| order(point, Asks::Rate, 10e6, round_trip).lasts;
        assert_eq!(lasts(&over("loopback", Stack::Rudp), Duration::ZERO), LEAST);
        assert_eq!(lasts(&over("wan", Stack::Tcp), RTT), 40 * RTT);
        assert_eq!(lasts(&over("delay=2s", Stack::Tcp), 20 * RTT), MOST);
        // A second in which what is lost is sent again is in its half.
        assert!(lasts(&over("loopback", Stack::Study), Duration::ZERO) >= Duration::from_secs(2));
        let least_ms = |link| least_ns(&over(link, Stack::Rudp), Asks::Rate) / 1e6;
        assert_eq!((least_ms("loopback"), least_ms("wan")), (300.0, 7980.0));
    }

    #[test]
    fn a_stream_lasts_as_long_at_both_ends_and_twenty_long_messages() {
        let ms = |link, size, point_ns, round_trip| {
            let point = bandwidth(link, Stack::Tcp, size);
            let lasts = order(&point, Asks::Stream, point_ns, round_trip).lasts;
            assert_eq!(lasts, streams(&point));
            lasts.as_millis()
        };
        assert_eq!(ms("loopback", 4 << 20, 1e9, RTT), 300);
        assert_eq!(ms("lan", 1, 1e9, RTT), 300);
        assert_eq!(ms("rate=100Mbit", 4 << 20, 0.0, Duration::ZERO), 6710);
        assert_eq!(ms("rate=1Mbit", 4 << 20, 0.0, Duration::ZERO), 15_000);
    }

    #[test]
    fn how_many_messages_are_timed_is_known_before() {
        let order = |link, stack, round_trip| {
            let point = loss(link, stack, 10);
            order(&point, Asks::RoundTrips, 30e6, round_trip)
        };
        let short = Duration::from_micros(50);
        // 30 ms, ten under way.
        assert_eq!(order("loopback", Stack::Rudp, short).messages, Some(6000));
        assert_eq!(order("wan", Stack::Rudp, RTT).messages, Some(100));
        let lossy = "rate=100Mbit,up.loss=10%";
        assert_eq!(order(lossy, Stack::Rudp, short).messages, Some(LOSSY_MOST));
        assert_eq!(order(lossy, Stack::Study, short).messages, Some(100));
        assert_eq!(order(lossy, Stack::Study, short).lasts, TIMED);
    }

    #[test]
    fn what_is_timed_is_whole_windows_and_several_of_them() {
        let messages = |window: u64| {
            let point = loss("wan", Stack::Study, window);
            let messages = order(&point, Asks::RoundTrips, 30e6, RTT).messages;
            let round_trips = least_ns(&point, Asks::RoundTrips) / RTT.as_nanos() as f64;
            (messages, round_trips.round())
        };
        // Two round trips are for the ends to meet.
        assert_eq!(messages(1), (Some(100), 65.0));
        assert_eq!(messages(10), (Some(100), 12.0));
        assert_eq!(messages(30), (Some(120), 6.0));
        assert_eq!(messages(64), (Some(192), 5.0));
        // What is lost is waited for, as far as the time goes.
        let lasts_s = |link| {
            let study = loss(link, Stack::Study, 10);
            least_ns(&study, Asks::RoundTrips) / 1e9
        };
        assert_eq!(lasts_s("rate=100Mbit"), 0.0);
        let tenth = lasts_s("rate=100Mbit,up.loss=10%");
        assert!(tenth > 5.0 && tenth < 10.0, "{tenth}");
        assert_eq!(lasts_s("rate=100Mbit,loss=50%"), 12.0);
    }

    #[test]
    fn a_stack_with_a_window_of_its_own_is_asked_for_its_rate() {
        let stream = loss("wan", Stack::Rudp, 0);
        assert!(Asks::RoundTrips.timed(&stream).is_none());
        let order = order(&stream, Asks::RoundTrips, 30e6, RTT);
        assert_eq!((order.messages, order.lasts), (None, 40 * RTT));
    }
}

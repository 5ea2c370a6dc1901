//! `rudp.rtt`: how long a reliable datagram takes to the other end of a link and back.

use crate::ends::Cpus;
use crate::net;
use crate::net::axes::Wait;
use crate::net::exchange::{self, End, Exchange, Exchanges, datagrams_axis};
use crate::net::lost::share_lost;
use crate::net::path;
use crate::net::peer_reports::{joined, on_cpus};
use crate::net::peers::Connector;
use crate::net::ping_pong::{ClientRole, CpuTime, ServerRole, warm_up};
use crate::net::rendezvous::broken;
use crate::prelude::*;
use crate::two_ends::over::Over;
use crate::wake::{self, Wake};
use costof_exchange::pattern::ping_pong::Client;
use costof_exchange::transport::Channel;
use std::io;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe::new::<Rtt>();

point! {
    /// How long does a reliable datagram take to the other end of a link and back?
    ///
    /// A message goes to the other end, which sends it back, one at a time, each stamped.
    /// stack=rudp is the library as delivered: its driver over a UDP socket, configured for latency
    /// if one datagram holds the message, its default congestion control, messages in order; an
    /// acknowledgement travels with the answer. On loopback its datagrams are as long as UDP
    /// allows, elsewhere as long as Ethernet carries, so the library splits a longer message; with
    /// stack=udp, IP splits it.
    /// stack=study is the study's protocol: the message goes there, and an acknowledgement of 8 B
    /// comes back. A lost one is retransmitted after a second, for which its sender spins. It and
    /// stack=rudp copy the message into a datagram, behind a header; a program that keeps the
    /// header in front of its only buffer saves that.
    /// stack=udp exchanges the messages of net.rtt over=udp; a lost one is retransmitted after
    /// three round trips, or 200 ms.
    /// The stacks take turns in each launch. The number of messages is fixed beforehand, because a
    /// measurement that stops when its time is over tends to stop at a loss.
    ///
    /// # Predicted from
    /// the UDP round trip over the same link (net.rtt), or system calls and context switches; and
    /// the library's work: state and memory per datagram, tags and copies of the bytes, and system
    /// calls
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: 14.97 µs (median 10) between two processes, 68.25 (64) over
    ///   a gigabit LAN, 189.9 ms over a WAN
    /// - CS 739 mini-project 1, part 3: 12 to 20 µs for an int, a double, a structure and strings
    ///   of 512 to 2048 B, by reliable UDP
    /// - RFC 9002, on loss detection
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct Rtt of "rudp.rtt" {
        stack: Over = datagrams_axis(),
        /// bytes of the message and of the answer (the study's protocol has no answer); 4, 8, 32,
        /// 512, 1024 and 2048 are those of an int, a double, a small structure and strings in a
        /// remote procedure call
        size: usize = bytes(1..=64 << 10, &[56, 4, 8, 32, 512, 1024, 2048]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Exchanges for Rtt {
    fn exchange(&self) -> Exchange {
        Exchange {
            over: self.stack,
            size: self.size,
            wait: self.wait,
            cpus: self.cpus,
            wake: self.wake,
        }
    }
}

impl Measure for Rtt {
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// from just before the message is sent until the whole answer has arrived; with
        /// stack=study, until it is acknowledged
        latency: Nanoseconds Lower,
        /// the share of messages that took a retransmission, which their latency includes
        lost: One Lower,
        /// with wait=block: CPU time of the client's thread per message, sent and received
        cpu_client: Nanoseconds Lower,
        /// with wait=block: CPU time of the server's thread per message, received and sent
        cpu_server: Nanoseconds Lower,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "os.context_switch", "net.rtt"];
    const CROSSINGS: &'static [&'static [&'static str]] =
        &[&["stack", "size"], &["stack", "wait"], &["stack", "wake"]];
    const ROUNDS: u32 = 2;
    const ROLE_NAMES: &'static [&'static str] = exchange::ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Rtt>(ServerRole::start(launch)?),
        |launch| role::<Rtt>(ClientRole::start(launch, measure)?),
    ];

    fn check_axes(point: &At<Rtt>) -> Result<(), Failure> {
        exchange::check_axes(point)
    }

    fn least_ns(point: &At<Rtt>) -> f64 {
        point.exchange().least_ns(&point.link)
    }

    fn processors(point: &At<Rtt>) -> usize {
        point.cpus.count()
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new("round trip: reliable datagram on loopback", Rtt::default())]
    }

    fn predict(point: &At<Rtt>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict(point, measured)
    }

    fn derive(point: &At<Rtt>, reports: Vec<Report>) -> Report {
        on_cpus(point.cpus, joined(reports))
    }
}

/// Exchanges messages with the server, each timed.
///
/// # Errors
/// Why the server cannot be reached, or an answer is missing or wrong.
pub(crate) fn measure<P: Exchanges>(
    point: &At<P>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let (link, exchange) = (&point.link, &point.exchange());
    exchange.connect(link, connector, Measuring { link, exchange }, meter)
}

struct Measuring<'a> {
    link: &'a str,
    exchange: &'a Exchange,
}

impl End for Measuring<'_> {
    fn run<T: Channel>(self, transport: T, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Measuring { link, exchange } = self;
        let mut client = Client::new(transport, exchange.size);
        client.set_min_rto(exchange.may_take(link));
        // rudp and the study's protocol allocate memory for messages.
        meter.operation_allocates();
        let failed = |error: io::Error| broken(&error);
        let timed = |client: &mut Client<T>| {
            let start = Instant::now();
            client.exchange().map_err(failed)?;
            let ns = start.elapsed().as_nanos() as f64;
            client.verify().map_err(failed)?;
            Ok(ns)
        };
        let first_ns = timed(&mut client)?;
        let each_ns = warm_up(first_ns, meter, || timed(&mut client).map(Some))?;
        let mut used = CpuTime::start();
        let mut retransmissions = client.retransmissions();
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let lost = share_lost(&mut slow, each_ns, |meter| {
            let before = retransmissions;
            let exchanged = meter.time("latency", || client.exchange());
            exchanged.and_then(|()| client.verify()).map_err(failed)?;
            used.messages += 1;
            retransmissions = client.retransmissions();
            Ok(retransmissions > before)
        })?;
        used.report("cpu_client", exchange, meter);
        meter.value("lost", lost);
        Ok(())
    }
}

fn predict(point: &At<Rtt>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let exchange = point.exchange();
    let socket = socket(&point.link, &exchange, measured)?;
    let cost = exchange.round_trip(&point.link, socket, measured)?;
    cost.predict("latency")
}

/// The round trip of the socket alone: from net.rtt if measured, otherwise as net.rtt is predicted.
fn socket(link: &str, exchange: &Exchange, measured: &MeasuredRows<'_>) -> Option<Cost> {
    if let Some(ns) = net::rtt::measured_ns(link, exchange, measured) {
        let name = format!("for a round trip over {} (net.rtt)", exchange.socket().word());
        return Some(Cost::new(ns, name) * (0.85, 1.25));
    }
    net::rtt::round_trip(link, exchange, exchange.waiting_ends(), measured)
}

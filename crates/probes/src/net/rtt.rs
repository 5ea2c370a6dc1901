//! `net.rtt`: the round trip of a message over a link.

use crate::ends::Cpus;
use crate::net::axes::Wait;
use crate::net::exchange::{self, Exchange, Exchanges};
use crate::net::lost::share_lost;
use crate::net::path;
use crate::net::peer_reports::on_cpus;
use crate::net::peers::Connector;
use crate::net::ping_pong::{self, ClientRole, ServerRole};
use crate::net::rendezvous::broken;
use crate::os::{context_switch, syscall};
use crate::prelude::*;
use crate::two_ends::over::{Over, SOCKETS};
use crate::wake::{self, Wake};
use costof_exchange::pattern::open_loop::OpenLoop;
use costof_exchange::pattern::ping_pong::Client;
use costof_exchange::rendezvous::Over as Kind;
use costof_exchange::transport::one_thread::OneThread;
use costof_exchange::transport::socket::Socket;
use costof_exchange::transport::{Channel, TryReceive, message};
use costof_model::link::Link;
use std::io;
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe::new::<Rtt>();

point! {
    /// How long does a message take to the other end of a link and back?
    ///
    /// A message goes to the other end, which sends it back. It carries a number, which identifies
    /// its answer, and the whole of the last answer is compared. With one message at a time, each
    /// round trip is stamped for `latency`; `cost` is the time of many round trips divided by their
    /// number. A datagram without an answer is retransmitted after three round trips, or 200 ms if
    /// that is more, and counted as lost. The number of messages is fixed beforehand, because a
    /// measurement that stops when its time is over tends to stop at a loss.
    /// With a rate, the client spins to send in time, `wait` applies to the server alone, and
    /// latency counts from the intended time (no coordinated omission). If the ends block, latency
    /// can have two modes: sometimes the other CPU is awake, and sometimes it must be woken from
    /// idle, which takes tens of microseconds in a virtual machine. `wake` and `wait` separate
    /// these cases, `cpus=same` needs no wake-up, and `cpus=one_thread` no waiting: there, the
    /// bytes of messages and answers also give a throughput. sockperf prints half of this round
    /// trip.
    ///
    /// # Predicted from
    /// context switches (os.context_switch), system calls through the protocol, the link's delays,
    /// and bytes over its rate
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 4.05 µs on loopback, 132.9 µs remote (465 by the
    ///   cycles that it counted), 56 bytes
    /// - sockperf(1), ping-pong; netperf, TCP_RR and UDP_RR
    /// - G. Tene, How NOT to Measure Latency, 2013, on coordinated omission
    /// - RFC 6298, section 2, on retransmission timeouts
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - cpus=one_thread: --link loopback, and rate=0
    /// - over=unix: both ends on one machine, --link loopback
    pub(crate) struct Rtt of "net.rtt" {
        /// what carries it
        over: Over = words_of(SOCKETS),
        /// bytes of the message, and of the answer; up to 65,507 over UDP
        size: usize = bytes(1..=1 << 20, &[56, 1, 1024, 16 << 10, 64 << 10]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first_or_one_thread(),
        wake: Wake = wake::of_two_ends(),
        /// messages per second, sent whether or not earlier ones are answered; 0: one at a time,
        /// the next when the last is answered
        rate: u64 = count(0..=1_000_000, &[0, 1000, 10_000]),
    }
}

impl Exchanges for Rtt {
    fn exchange(&self) -> Exchange {
        Exchange {
            over: self.over,
            size: self.size,
            wait: self.wait,
            cpus: self.cpus,
            wake: self.wake,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.rate == 0 {
            return Ok(());
        }
        if self.cpus != Cpus::Cross {
            return Err(Failure::unsupported(
                "with a rate the client spins to send in time, and leaves its CPU to \
                 nobody (--set cpus=cross, or rate=0)",
            ));
        }
        if self.over == Over::Udp && self.size < NUMBER_BYTES {
            return Err(Failure::unsupported(
                "with a rate, a datagram must hold its number of 8 B (--set size=8, or over=tcp)",
            ));
        }
        Ok(())
    }
}

impl Measure for Rtt {
    const METRICS: &'static [Metric] = metrics! {
        /// from just before the message is sent until the whole answer has arrived; with a rate,
        /// from the intended time of the send
        latency: Nanoseconds Lower,
        /// one round trip, from many in a row; absent with a rate, and over a link on which few fit
        /// into a launch
        cost: Nanoseconds Lower,
        /// over UDP: the share of messages without an answer in time; one at a time, they were
        /// retransmitted, and their latency includes that
        lost: One Lower,
        /// with a rate: answers per second, between the first and the last
        rate: One Higher,
        /// with both ends in one thread: bytes of messages and answers divided by their time
        throughput: BytesPerSecond Higher,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "os.context_switch"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["over", "wait"], &["over", "wake"]];
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

    fn relations() -> Vec<Relation> {
        vec![
            Relation::because("a blocked end must also be woken")
                .these("wait", Wait::Block.word())
                .these("cpus", Cpus::Cross.word())
                .these("rate", 0)
                .those("wait", Wait::Spin.word()),
        ]
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        let blocked = Rtt::default();
        let spinning = Rtt { wait: Wait::Spin, ..blocked.clone() };
        let kilobyte = Rtt { size: 1024, ..blocked.clone() };
        vec![
            Headline::new("round trip: TCP on loopback, spinning", spinning),
            Headline::new("round trip: TCP on loopback, blocked", blocked.clone()),
            Headline::new("send 1 KiB over 1 Gb/s, and back (lan)", kilobyte).over("lan"),
            Headline::new("round trip: TCP over lan", blocked).over("lan"),
        ]
    }

    fn predict(point: &At<Rtt>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict(point, measured)
    }

    fn derive(point: &At<Rtt>, reports: Vec<Report>) -> Report {
        let mut report = on_cpus(point.cpus, leading(reports));
        if point.cpus == Cpus::OneThread {
            derived::add_throughput(&mut report, 2 * point.size as u64);
        }
        report
    }
}

fn measure(
    point: &At<Rtt>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let exchange = point.exchange();
    if point.cpus == Cpus::OneThread {
        return in_one_thread(point, connector, meter);
    }
    let (_awake, socket) = exchange.connect_socket(connector)?;
    let mut client = Client::new(socket, exchange.size);
    client.set_min_rto(exchange.may_take(&point.link));
    if point.rate == 0 {
        one_at_a_time(point, client, meter)
    } else {
        at_a_rate(point, client, meter)
    }
}

/// The client has both ends, so the server's role, on the same CPU, waits for nobody.
fn in_one_thread(
    point: &At<Rtt>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    if point.link.parse() != Ok(Link::Loopback) {
        unsupported!("one thread has both ends on one machine (--link loopback, or cpus=cross)");
    }
    let open =
        |address, token: &[u8]| OneThread::new(point.over.into(), address, point.size, token);
    let (_awake, both) = connector.alone(open)?;
    one_at_a_time(point, Client::new(both, point.size), meter)
}

fn one_at_a_time(
    point: &At<Rtt>,
    mut client: Client<impl Channel>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let first_ns = first_round_trip_ns(&mut client)?;
    let mut failed: Option<io::Error> = None;
    let mut round_trips = |n: u64| {
        for _ in 0..n {
            if failed.is_none() {
                failed = client.exchange().err();
            }
        }
        client.retransmissions()
    };
    // In one thread, only the first round trip may seem slow.
    let is_slow = point.cpus != Cpus::OneThread && ping_pong::is_slow(first_ns, meter);
    if is_slow {
        meter.latency("latency", first_ns);
    } else {
        meter.repeatable("cost", |n| {
            round_trips(n);
        });
    }
    // If most batches contain a loss, so does the median.
    let cost_ns = meter.cost_ns("cost").unwrap_or(first_ns);
    let each_ns = cost_ns.min(first_ns);
    let mut meter = meter.lasting(path::lasts_ns(first_ns));
    if point.over == Over::Udp {
        let mut retransmissions = round_trips(0);
        let lost = share_lost(&mut meter, each_ns, |meter| {
            let before = retransmissions;
            retransmissions = meter.time("latency", || round_trips(1));
            Ok(retransmissions > before)
        })?;
        meter.value("lost", lost);
    } else if is_slow {
        meter.repeat(u64::MAX, |meter| {
            meter.time("latency", || round_trips(1));
            Ok(())
        })?;
    } else {
        meter.single("latency", || {
            round_trips(1);
        });
    }
    if let Some(error) = failed {
        return Err(broken(&error));
    }
    client.verify().map_err(|_| Failure::error("the answer differs from what was sent"))
}

/// How many messages may be lost before the first answer.
const FIRST_TRIES: u32 = 3;

fn first_round_trip_ns(client: &mut Client<impl Channel>) -> Result<f64, Failure> {
    let mut tries = 0;
    loop {
        let (start, before) = (Instant::now(), client.retransmissions());
        client.exchange().map_err(|error| broken(&error))?;
        tries += 1;
        // The time of a lost message says nothing about others.
        if client.retransmissions() == before || tries == FIRST_TRIES {
            return Ok(start.elapsed().as_nanos() as f64);
        }
    }
}

/// Bytes of a message's number with a rate, where a datagram may overtake others.
const NUMBER_BYTES: usize = 8;

fn at_a_rate(
    point: &At<Rtt>,
    mut client: Client<Socket>,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let first_ns = first_round_trip_ns(&mut client)?;
    let mut socket = client.into_transport();
    let expected = message(point.size);
    let mut message = expected.clone();
    let mut answer = vec![0; message.len()];
    let number_bytes = message.len().min(NUMBER_BYTES);
    let mut load = OpenLoop::new(point.rate, meter.time_ns(), first_ns);
    let clock = meter.clock();
    let start = clock.start();
    let now_ns = || clock.ns(clock.end().saturating_sub(start));
    let mut failed: Option<Failure> = None;
    let mut next = || -> io::Result<Option<f64>> {
        loop {
            let now = now_ns();
            if load.is_over(now) {
                return Ok(None);
            }
            if let Some(number) = load.due(now) {
                message[..number_bytes].copy_from_slice(&number.to_le_bytes()[..number_bytes]);
                if socket.try_send(&message)? {
                    load.mark_sent();
                }
            }
            if socket.try_receive(&mut answer)? {
                let now = now_ns();
                let number = number_of(&answer).unwrap_or(load.answers() + 1);
                if answer[number_bytes..] != expected[number_bytes..] {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if let Some(latency_ns) = load.answered(number, now) {
                    return Ok(Some(latency_ns));
                }
            }
        }
    };
    meter.open_loop("latency", |_| match next() {
        Ok(latency_ns) => latency_ns,
        Err(error) => {
            failed = Some(broken(&error));
            None
        }
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    if load.answers() == 0 {
        return Err(Failure::error("no message was answered"));
    }
    if point.over == Over::Udp {
        meter.value("lost", load.lost());
    }
    if let Some(rate) = load.rate() {
        meter.value("rate", rate);
    }
    Ok(())
}

/// The number that an answer carries; none in an answer too short for one, which arrives in order.
fn number_of(answer: &[u8]) -> Option<u64> {
    answer.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The kernel's work for a round trip of a message of this size, without a wake-up.
pub(crate) fn kernel(over: Over, size: usize, read: Cost) -> Cost {
    let (reads, through) = match over.into() {
        Kind::Tcp => ((18.0, 54.0), "TCP, IP and the device"),
        Kind::Udp | Kind::UdpGso => ((13.0, 42.0), "UDP, IP and the device"),
        Kind::Unix => ((5.0, 16.0), "a queue of buffers"),
    };
    let calls = (read * reads).named(format!("two sends and two receives through {through}"));
    // Two copies each way; beyond 4 KiB, pages must be allocated for them.
    calls + Cost::bytes(4.0 * size as f64, (2.0, 20.0), "copied")
}

/// A round trip from its components, with `waiting_ends` ends that wait in the kernel.
pub(crate) fn round_trip(
    link: &str,
    exchange: &Exchange,
    waiting_ends: f64,
    measured: &MeasuredRows<'_>,
) -> Option<Cost> {
    let bytes = exchange.size as u64;
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let mut cost = Cost::default();
    if waiting_ends > 0.0 {
        let switch = context_switch::measured_cost(exchange.cpus, exchange.wake, measured)?;
        cost += switch * (0.8 * waiting_ends, 1.25 * waiting_ends);
    }
    cost += kernel(exchange.socket(), exchange.size, read);
    cost += path::cost(link, bytes, exchange.headers())?;
    if exchange.socket() == Over::Tcp {
        cost += path::slow_start(link, bytes);
    }
    Some(cost)
}

/// The measured round trip of the socket below.
pub(crate) fn measured_ns(
    link: &str,
    exchange: &Exchange,
    measured: &MeasuredRows<'_>,
) -> Option<f64> {
    let point = Rtt {
        over: exchange.socket(),
        size: exchange.size,
        wait: exchange.wait,
        cpus: exchange.cpus,
        wake: exchange.wake,
        rate: 0,
    };
    measured.at_over(link, &point)
}

fn predict(point: &At<Rtt>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let exchange = point.exchange();
    let mut waiting_ends = exchange.waiting_ends();
    if point.rate > 0 {
        // Only the server waits in the kernel.
        waiting_ends /= 2.0;
    }
    round_trip(&point.link, &exchange, waiting_ends, measured)?.predict("latency")
}

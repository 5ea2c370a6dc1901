//! The client of `net.rtt`: over a socket many round trips in a row, each alone, or at a rate; over other
//! transports each alone, with its answer compared.

use super::Rtt;
use crate::prelude::*;
use crate::two_ends::exchange::roles::{self, CpuTime};
use crate::two_ends::reports::CALLS;
use crate::two_ends::{
    Connector, Exchange, Exchanges, Over, broken, calls, path, share_lost, warm_up,
};
use costof_exchange::pattern::open_loop::OpenLoop;
use costof_exchange::pattern::ping_pong::Client;
use costof_exchange::transport::one_thread::OneThread;
use costof_exchange::transport::socket::Socket;
use costof_exchange::transport::{Channel, Channels, TryReceive, message};
use costof_rpc::Payload;

/// Measures over a socket.
///
/// # Errors
/// Why the server cannot be reached, or an answer is missing or wrong.
pub(crate) fn over_socket(
    point: &At<Rtt>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = point.exchange();
    if point.cpus == Cpus::OneThread {
        return in_one_thread(point, connector, meter);
    }
    let (_awake, socket) = exchange.connect_socket(connector)?;
    let mut client = Client::new(socket, exchange.size());
    client.set_min_rto(exchange.may_take(&point.link));
    if point.rate == 0 {
        one_at_a_time(point, client, meter)
    } else {
        at_a_rate(point, client, meter)
    }
}

/// The client has both ends, so the server's role, on the same CPU, waits for nobody.
fn in_one_thread(point: &At<Rtt>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    if point.link.parse() != Ok(Link::Loopback) {
        unsupported!("one thread has both ends on one machine (--link loopback, or cpus=cross)");
    }
    let exchange = point.exchange();
    let open =
        |address, token: &[u8]| OneThread::new(exchange.socket(), address, exchange.size(), token);
    let (_awake, both) = connector.alone(open)?;
    one_at_a_time(point, Client::new(both, exchange.size()), meter)
}

fn one_at_a_time(
    point: &At<Rtt>,
    mut client: Client<impl Channel>,
    meter: &mut Meter<'_>,
) -> Result {
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
    let is_slow = point.cpus != Cpus::OneThread && roles::is_slow(first_ns, meter);
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
    let (mut used, mut messages) = (CpuTime::start(), 0);
    if point.over == Over::Udp {
        let mut retransmissions = round_trips(0);
        let lost = share_lost(&mut meter, each_ns, |meter| {
            let before = retransmissions;
            retransmissions = meter.time("latency", || round_trips(1));
            messages += 1;
            Ok(retransmissions > before)
        })?;
        meter.value("lost", lost);
    } else if is_slow {
        meter.repeat(u64::MAX, |meter| {
            meter.time("latency", || round_trips(1));
            messages += 1;
            Ok(())
        })?;
    } else {
        meter.single("latency", || {
            round_trips(1);
        });
        // The meter may have spun until the core was alone.
        used = CpuTime::start();
        messages = (CPU_SHARE * meter.time_ns() / each_ns.max(1.0)).ceil() as u64;
        round_trips(messages);
    }
    if let Some(error) = failed {
        return Err(broken(error));
    }
    used.report("cpu_client", messages, &point.exchange(), &mut meter);
    client.verify().map_err(|_| Failure::error("the answer differs from what was sent"))
}

/// The share of a point's time in which a client's CPU time is read, where the timed messages do not show it.
const CPU_SHARE: f64 = 0.1;

/// How many messages may be lost before the first answer.
const FIRST_TRIES: u32 = 3;

fn first_round_trip_ns(client: &mut Client<impl Channel>) -> Result<f64> {
    let mut tries = 0;
    loop {
        let (start, before) = (Instant::now(), client.retransmissions());
        client.exchange().map_err(broken)?;
        tries += 1;
        // The time of a lost message says nothing about others.
        if client.retransmissions() == before || tries == FIRST_TRIES {
            return Ok(start.elapsed().as_nanos() as f64);
        }
    }
}

/// Bytes of a message's number with a rate, where a datagram may overtake others.
pub(super) const NUMBER_BYTES: usize = 8;

fn at_a_rate(point: &At<Rtt>, mut client: Client<Socket>, meter: &mut Meter<'_>) -> Result {
    let first_ns = first_round_trip_ns(&mut client)?;
    let mut socket = client.into_transport();
    let expected = message(point.exchange().size());
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
                let number = number_of(&answer).unwrap_or(load.answers + 1);
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
            failed = Some(broken(error));
            None
        }
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    ensure!(load.answers > 0, "no message was answered");
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

/// An end that makes round trips one at a time.
trait RoundTrips {
    /// Whether it knows of retransmissions.
    const RETRANSMITS: bool = true;
    /// The failure that an error of it is.
    const FAILED: fn(io::Error) -> Failure;

    fn exchange(&mut self) -> io::Result<()>;

    /// Compares the last answer, if that is not part of a round trip.
    fn verify(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn retransmissions(&mut self) -> u64 {
        0
    }
}

impl<T: Channel> RoundTrips for Client<T> {
    const FAILED: fn(io::Error) -> Failure = broken;

    #[inline]
    fn exchange(&mut self) -> io::Result<()> {
        Client::exchange(self)
    }

    fn verify(&mut self) -> io::Result<()> {
        Client::verify(self)
    }

    fn retransmissions(&mut self) -> u64 {
        Client::retransmissions(self)
    }
}

/// Calls with an argument, which each call compares with its answer.
struct Calls {
    client: Box<dyn costof_rpc::Client>,
    payload: Payload,
    made: u64,
}

impl RoundTrips for Calls {
    const RETRANSMITS: bool = false;
    const FAILED: fn(io::Error) -> Failure = calls::broken;

    #[inline]
    fn exchange(&mut self) -> io::Result<()> {
        self.made += 1;
        self.client.call(&self.payload)
    }
}

/// Measures over a transport whose messages are reliable.
///
/// # Errors
/// Those of [`over_socket`].
pub(crate) fn over_channel<C: Channels>(
    point: &At<Rtt>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = point.exchange();
    let messages = exchange.messages(&point.link);
    let connected = connector.connect(|address, token| C::connect(address, token, &messages));
    let (_awake, transport) = connected?;
    let mut client = Client::new(transport, messages.size);
    client.set_min_rto(exchange.may_take(&point.link));
    each_compared(&mut client, &exchange, meter)
}

/// Measures calls.
///
/// # Errors
/// Those of [`over_socket`].
pub(crate) fn over_calls(
    point: &At<Rtt>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result {
    let exchange = point.exchange();
    let (_awake, client) = calls::client(&exchange, connector)?;
    let mut calls = Calls { client, payload: Payload::new(exchange.payload), made: 0 };
    each_compared(&mut calls, &exchange, meter)?;
    meter.value(CALLS, calls.made as f64);
    connector.keep(calls.client);
    Ok(())
}

/// Makes round trips, each timed and its answer compared.
fn each_compared<R: RoundTrips>(
    client: &mut R,
    exchange: &Exchange,
    meter: &mut Meter<'_>,
) -> Result {
    // These transports allocate memory for messages.
    meter.operation_allocates();
    let timed = |client: &mut R| {
        let start = Instant::now();
        client.exchange().map_err(R::FAILED)?;
        let ns = start.elapsed().as_nanos() as f64;
        client.verify().map_err(R::FAILED)?;
        Ok(ns)
    };
    let first_ns = timed(client)?;
    let each_ns = warm_up(first_ns, meter, || timed(client).map(Some))?;
    let used = CpuTime::start();
    let (mut messages, mut retransmissions) = (0, client.retransmissions());
    let mut slow = meter.lasting(path::lasts_ns(first_ns));
    let lost = share_lost(&mut slow, each_ns, |meter| {
        let before = retransmissions;
        let exchanged = meter.time("latency", || client.exchange());
        exchanged.and_then(|()| client.verify()).map_err(R::FAILED)?;
        messages += 1;
        retransmissions = client.retransmissions();
        Ok(retransmissions > before)
    })?;
    used.report("cpu_client", messages, exchange, meter);
    if R::RETRANSMITS {
        meter.value("lost", lost);
    }
    Ok(())
}

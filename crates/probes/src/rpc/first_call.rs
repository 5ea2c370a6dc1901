//! `rpc.first_call`: what the first call of a process takes, beside those that follow.

use super::axes::{GRPC, PAYLOAD, Stack, TCP, THRIFT, bytes, payload, stack};
use super::ends::broken;
use super::expect::first_ns;
use super::served::Served;
use crate::derived;
use crate::ends::Cpus;
use crate::expect::between;
use crate::literal::{self, axis, latency, list, metric, text, words};
use crate::net::caller::Caller;
use crate::net::meeting::{self, broken as talk_broken};
use crate::net::path::{self, End, TCP_HEADERS};
use crate::wake::{self, Kept};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_measure::schedule::Precision;
use costof_model::List;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::connections::{Acceptor, Unconnected};
use costof_os::conversation::{Conversation, Wait};
use costof_os::meeting::{Listener, Over};
use costof_rpc::{Client, Options, Payload};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rpc.first_call"),
        method: 1,
        question: text("How much longer than others does the first call of a process take?"),
        axes: List::Owned(vec![
            words(
                "stack",
                "what carries a call, or as many bytes as its argument has",
                list![GRPC, THRIFT, TCP],
            ),
            PAYLOAD,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![list![text("stack"), text("payload")]],
        metrics: list![
            ns(
                "first",
                "the first call of both processes, over a new connection"
            ),
            ns(
                "connection",
                "that connection before: connect(), and what the stack says first without waiting"
            ),
            latency("later calls over it, each; twenty that follow the first are not counted"),
            ns(
                "connection_again",
                "a further connection of the same processes, the median of a few"
            ),
            ns(
                "first_again",
                "the first call over such a further connection, the median of a few"
            ),
        ],
        how: text(
            "Each launch is of one point, so both ends are processes that have never called \
             before. They have greeted each other by a connection of another kind, and what a \
             process makes once, before there is any connection, is there: the runtime. The client \
             connects, calls once, and goes on calling. Then it connects again, and again: what \
             that takes less is what the first call pays for the process, whose code and tables \
             come into its memory as they are first used, and the rest is the connection's. gRPC \
             does not wait for the other end's settings, which come while the first call is under \
             way. The answer is the argument. A launch has one first call: a few launches say \
             little of how it varies.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 3: gRPC's first calls 4.9 to 14.9 ms, then 0.54 to 2.05; Thrift's with an int 221 µs, then 43, 31, 29, 30"
            ),
            text("RFC 9113, section 3.4, HTTP/2 connection preface"),
        ],
        predicted_from: text(
            "a call as rpc.rtt is predicted, and page faults as os.page_fault has measured them for code that is in the page cache",
        ),
        after: list![
            text("cpu.frequency"),
            text("os.syscall"),
            text("os.context_switch"),
            text("os.page_fault"),
            text("net.rtt"),
            text("rpc.marshal"),
        ],
        needs: list![text("cpus=cross: two processors (--cpu)")],
        roles: list![text("server"), text("client")],
    }),
    rounds: 1,
    // A process has one first call.
    blocks_by: &["stack", "payload", "cpus", "wake"],
    least_ns: |point| 2.0 * path::least_ns(&point.link, bytes(point) as u64, TCP_HEADERS),
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    // Each would be a block of its own in every run.
    headlines,
    more_points: |_| Vec::new(),
    budget: Some(budget),
    predict,
    roles: &[
        |launch| Ok(Box::new(Answering::start(launch)?)),
        |launch| Ok(Box::new(Calling(Caller::start(launch)?))),
    ],
    derive,
};

const fn ns(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "first remote procedure call over a connection: gRPC on loopback",
        PROBE.info.defaults(),
    )]
}

/// With what its predictions build on.
fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(10),
        Precision::Default => Duration::from_secs(30),
        Precision::Full => Duration::ZERO,
    }
}

/// Bytes that come and go: the token's greeting is over.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// How long the other end may say nothing until it is looked whether that is still waited for.
const LOOK: Duration = Duration::from_millis(50);

/// The end that is called.
struct Answering {
    end: End,
    kept: Option<Kept>,
    ready: Option<(Listener, Serves)>,
}

/// What serves a connection.
enum Serves {
    Calls(Served),
    /// Bytes of a message.
    Bytes(usize),
}

impl Answering {
    fn start(launch: &Launch) -> Result<Answering, Failure> {
        Ok(Answering {
            end: End::of(launch, false)?,
            kept: None,
            ready: None,
        })
    }
}

impl Role for Answering {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        self.kept =
            Some(
                self.end
                    .settle(&point.link, axis(point, "cpus"), axis(point, "wake"), true)?,
            );
        let serves = match stack(point) {
            Stack::Calls(stack) => Serves::Calls(Served::start(stack)?),
            Stack::Bytes(_) => Serves::Bytes(bytes(point)),
        };
        let (listener, offers) = meeting::listen(&point.link, &self.end.meeting, Over::Tcp, 1)?;
        self.ready = Some((listener, serves));
        Ok(offers)
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _kept = self.kept.take();
        let (listener, mut serves) = self.ready.take().expect("it is prepared");
        let accepted = Conversation::accept(&listener, Wait::Block, meter.stop());
        let Some(greeted) = meeting::met(accepted)? else {
            return Ok(());
        };
        meter.operation_allocates();
        // Only from where the one called who knows the token.
        let acceptor = greeted.peer().and_then(|peer| {
            let peer = peer.ok_or(ErrorKind::InvalidInput)?;
            Acceptor::new(listener, peer.ip())
        });
        let acceptor = acceptor.map_err(|error| talk_broken(&error))?;
        while !meter.is_stopped() {
            let next = next(&acceptor).map_err(|error| talk_broken(&error))?;
            if let Some(stream) = next {
                serves.serve(stream, meter)?;
            }
        }
        Ok(())
    }
}

/// The next connection of the one who greeted; none where nobody has called for a while.
fn next(acceptor: &Acceptor) -> io::Result<Option<TcpStream>> {
    if !acceptor.wait()? {
        return Ok(None);
    }
    let connection = acceptor.known(acceptor.accept()?);
    let Some(connection) = connection else {
        return Ok(None);
    };
    let stream = TcpStream::from(connection.into_socket());
    stream.set_nodelay(true)?;
    Ok(Some(stream))
}

impl Serves {
    /// Serves a connection: bytes until the other end closes it, calls by threads of their own.
    fn serve(&mut self, stream: TcpStream, meter: &Meter<'_>) -> Result<(), Failure> {
        match self {
            Serves::Calls(served) => served.serve(vec![stream.into()]),
            Serves::Bytes(size) => echo(stream, *size, meter).map_err(|error| talk_broken(&error)),
        }
    }
}

/// Sends back messages of this size until the other end closes.
fn echo(mut stream: TcpStream, size: usize, meter: &Meter<'_>) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut message = vec![0; size];
    let mut have = 0;
    while !meter.is_stopped() {
        match stream.read(&mut message[have..]) {
            Ok(0) => break,
            Ok(more) => have += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if have == size {
            stream.write_all(&message)?;
            have = 0;
        }
    }
    Ok(())
}

/// The end that calls.
struct Calling(Caller);

/// Calls behind the first that are not counted.
const WARM_UP: u32 = 20;
/// Further connections, at most.
const AGAIN_MOST: u64 = 50;

impl Role for Calling {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.0.prepare(
            &point.link,
            (axis(point, "cpus"), axis(point, "wake")),
            offers,
            true,
        )
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (_kept, greeted) = self.0.call(Over::Tcp, Wait::Block)?;
        let peer = greeted.peer().map_err(|error| talk_broken(&error))?;
        let to = peer.ok_or_else(|| Failure::error("the other end has no address"))?;
        meter.operation_allocates();
        let mut asks = Asks::new(point)?;
        let first_ns = once(&mut asks, &to, ("connection", "first"), meter)?;
        for _ in 0..WARM_UP {
            asks.ask()?;
        }
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        slow.share(2)
            .repeat(u64::MAX, |meter| meter.time("latency", || asks.ask()))?;
        slow.share(2).repeat(AGAIN_MOST, |meter| {
            asks.close();
            once(&mut asks, &to, ("connection_again", "first_again"), meter).map(drop)
        })
    }
}

/// Connects, and calls once: each by its metric. Gives what the call took, in nanoseconds.
fn once(
    asks: &mut Asks,
    to: &SocketAddr,
    (connection, first): (&'static str, &'static str),
    meter: &mut Meter<'_>,
) -> Result<f64, Failure> {
    let socket = Unconnected::open(to).map_err(|error| talk_broken(&error))?;
    let mut connected = Ok(());
    meter.first(connection, || connected = asks.connect(socket, to));
    connected?;
    let start = Instant::now();
    let mut answered = Ok(());
    meter.first(first, || answered = asks.ask());
    answered?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// One who asks.
enum Asks {
    Calls(Box<Client>, Payload),
    /// The connection, if there is one, the message, and the answer.
    Bytes(Option<TcpStream>, Vec<u8>, Vec<u8>),
}

impl Asks {
    fn new(point: &Point) -> Result<Asks, Failure> {
        Ok(match stack(point) {
            Stack::Calls(stack) => {
                let client = Client::new(stack, &Options::default());
                let client = client.map_err(|error| broken(&error))?;
                Asks::Calls(Box::new(client), payload(point))
            }
            Stack::Bytes(_) => {
                let message = vec![b'm'; bytes(point)];
                Asks::Bytes(None, message.clone(), message)
            }
        })
    }

    fn connect(&mut self, socket: Unconnected, to: &SocketAddr) -> Result<(), Failure> {
        let connection = socket.connect(to).map_err(|error| talk_broken(&error))?;
        let connected = TcpStream::from(connection.into_socket());
        match self {
            Asks::Calls(client, _) => client
                .over(connected.into())
                .map_err(|error| broken(&error)),
            Asks::Bytes(stream, ..) => {
                let set = connected.set_nodelay(true);
                *stream = Some(connected);
                set.map_err(|error| talk_broken(&error))
            }
        }
    }

    fn ask(&mut self) -> Result<(), Failure> {
        match self {
            Asks::Calls(client, payload) => client.call(payload).map_err(|error| broken(&error)),
            Asks::Bytes(stream, message, answer) => {
                let stream = stream.as_mut().expect("it is connected");
                let there_and_back = stream
                    .write_all(message)
                    .and_then(|()| stream.read_exact(answer));
                there_and_back.map_err(|error| talk_broken(&error))?;
                match answer == message {
                    true => Ok(()),
                    false => Err(Failure::error("the answer is not what was sent")),
                }
            }
        }
    }

    fn close(&mut self) {
        match self {
            Asks::Calls(client, _) => client.disconnect(),
            Asks::Bytes(stream, ..) => *stream = None,
        }
    }
}

fn derive(point: &Point, mut reports: Vec<Report>) -> Report {
    // The client's is the last; the server measures nothing.
    let mut report = reports.pop().expect("a report of each role");
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    report
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = first_ns(point, known)?;
    between("first", (low, high), because)
}

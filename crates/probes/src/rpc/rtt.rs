//! `rpc.rtt`: how long a remote procedure call takes.

use super::axes::{OVER, PAYLOAD, STACK, Stack, bytes, called, check, payload, stack};
use super::ends::{CALLS, Called, broken, client, joined};
use super::expect::{call_ns, carried_ns};
use crate::derived;
use crate::ends::Cpus;
use crate::expect::latency_ns;
use crate::literal::{self, axis, latency, list, metric, text};
use crate::net::caller::Caller;
use crate::net::path::{self, TCP_HEADERS};
use crate::rudp::rtt as messages;
use crate::wake;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_measure::schedule::Precision;
use costof_model::List;
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::MetricInfo;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::clock::{ClockId, now_ns};
use costof_rpc::{Client, RpcError};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rpc.rtt"),
        method: 1,
        question: text("How long does a remote procedure call take, by gRPC and by Thrift?"),
        axes: List::Owned(vec![
            STACK,
            OVER,
            PAYLOAD,
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("stack"), text("payload")],
            list![text("stack"), text("wake")],
        ],
        metrics: list![
            latency(
                "from before the call until its answer is there, unmarshalled; of a socket or rudp, until all of its bytes are"
            ),
            cpu("cpu_client"),
            cpu("cpu_server"),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "of datagrams: the share for which something was sent again; their latency contains it",
            ),
        ],
        how: text(
            "A procedure that gives back its argument is called, one call at a time, each stamped, \
             over one connection; its client looks that the answer is the argument, and sends it \
             again. The first call and twenty more are not counted: rpc.first_call has \
             them. Both ends block, each with one thread, on which everything of the stack runs: \
             gRPC's ends have a tokio runtime of that one thread, which waits in epoll_wait(2). \
             Thrift sends a frame by one system call. The server's processor has a thread besides, \
             which looks every 10 ms whether it is over. stack=tcp, rudp and udp are what rudp.rtt \
             measures: messages as long as the argument is by itself, 4 B of an int and 8 of a \
             double, with nothing to marshal. The stacks take turns in each launch. Where a \
             processor is at rest when a message comes, waking it takes longer than most stacks: \
             see `wake`.",
        ),
        sources: list![
            text(
                "CS 739 mini-project 1, part 3: gRPC 0.9 to 1.3 ms on one machine, 1.5 to 1.9 over a LAN, optimised; Thrift 34 to 106 µs; its own reliable UDP 12 to 20 µs"
            ),
            text("gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md; RFC 9113; tonic 0.14"),
            text(
                "Apache Thrift, doc/specs/thrift-rpc.md and thrift-binary-protocol.md; crate thrift"
            ),
        ],
        predicted_from: text(
            "the TCP round trip of the run as net.rtt has measured it; marshalling there and back as rpc.marshal has; and the system calls and frames that the stack adds",
        ),
        after: list![
            text("os.syscall"),
            text("os.context_switch"),
            text("net.rtt"),
            text("rpc.marshal"),
            text("cpu.memcpy"),
        ],
        needs: list![
            text("cpus=cross: two processors (--cpu)"),
            text("over=unix: both ends on one machine, --link loopback"),
        ],
        roles: list![text("server"), text("client")],
    }),
    // The stacks are held against each other.
    rounds: 2,
    blocks_by: &[],
    least_ns: |point| path::least_ns(&point.link, bytes(point) as u64, TCP_HEADERS),
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| more_points(),
    budget: Some(budget),
    predict,
    roles: &[
        |launch| {
            Ok(Box::new(End {
                messages: messages::Server::start(launch)?,
                calls: Called::start(launch, |_| 1)?,
            }))
        },
        |launch| {
            Ok(Box::new(End {
                messages: messages::Client::start(launch)?,
                calls: Calling(Caller::start(launch)?, None),
            }))
        },
    ],
    derive,
};

const fn cpu(name: &'static str) -> MetricInfo {
    metric(
        name,
        Unit::Nanoseconds,
        Better::Lower,
        "processor time of that end's thread for a call, in and out",
    )
}

fn headlines(_: &Facts) -> Vec<Headline> {
    let axes = |stack: &'static str| PROBE.info.defaults().with("stack", stack);
    vec![
        Headline::new("remote procedure call: gRPC on loopback", axes("grpc")),
        Headline::new("remote procedure call: Thrift on loopback", axes("thrift")),
    ]
}

/// The other connections by Unix sockets, which reach this machine alone.
fn more_points() -> Vec<Planned> {
    let unix = |stack: &'static str| -> Axes {
        PROBE
            .info
            .defaults()
            .with("over", "unix")
            .with("stack", stack)
    };
    ["thrift", "tcp"]
        .map(|stack| Planned::over(unix(stack), "loopback"))
        .into()
}

/// With what its predictions build on.
fn budget(precision: Precision) -> Duration {
    match precision {
        Precision::Quick => Duration::ZERO,
        Precision::Default => Duration::from_secs(30),
        Precision::Full => Duration::from_secs(120),
    }
}

/// An end: of messages by what `rudp.rtt` has for an end, or of calls.
struct End<M, C> {
    messages: M,
    calls: C,
}

impl<M: Role, C: Role> Role for End<M, C> {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        match stack(point) {
            Stack::Bytes(word) => self.messages.prepare(&as_messages(point, word), offers),
            Stack::Calls(_) => self.calls.prepare(point, offers),
        }
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        match stack(point) {
            Stack::Bytes(word) => self.messages.run(&as_messages(point, word), meter),
            Stack::Calls(_) => self.calls.run(point, meter),
        }
    }
}

/// The point of `rudp.rtt` at which as many bytes go there and back.
fn as_messages(point: &Point, stack: &'static str) -> Point {
    let mut axes = Axes::default()
        .with("stack", stack)
        .with("size", bytes(point) as u64)
        .with("wait", "block");
    for same in ["cpus", "wake"] {
        if let Some(value) = point.axes.0.get(same) {
            axes.0.insert(same.into(), value.clone());
        }
    }
    Point {
        axes,
        ..point.clone()
    }
}

/// The end that calls, and the connection of the point before: the other end's threads are there until
/// they are asked what they have used.
struct Calling(Caller, Option<Client>);

/// How many calls must fit into a point's time, so that some are for warming up.
const CALLS_PER_POINT: f64 = 20.0;
/// Calls before those that count.
const WARM_UP: u32 = 20;

impl Role for Calling {
    fn prepare(&mut self, point: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.1 = None;
        self.0.prepare(
            &point.link,
            (axis(point, "cpus"), axis(point, "wake")),
            offers,
            true,
        )
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        // A stack has memory of its own for each call.
        meter.operation_allocates();
        let (_kept, mut client) = client(point, called(point), &mut self.0)?;
        let payload = payload(point);
        let failed = |error: RpcError| broken(&error);
        let mut all = 0_u64;
        let mut call = |client: &mut Client| {
            all += 1;
            client.call(&payload).map_err(failed)
        };
        let start = Instant::now();
        call(&mut client)?;
        let first_ns = start.elapsed().as_nanos() as f64;
        if first_ns * CALLS_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                call(&mut client)?;
            }
        }
        let (began_ns, mut calls) = (now_ns(ClockId::ThreadCpu), 0_u64);
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        slow.repeat(u64::MAX, |meter| {
            calls += 1;
            meter.time("latency", || call(&mut client))
        })?;
        let used_ns = now_ns(ClockId::ThreadCpu).saturating_sub(began_ns);
        meter.value("cpu_client", used_ns as f64 / calls as f64);
        meter.value(CALLS, all as f64);
        self.1 = Some(client);
        Ok(())
    }
}

fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    if over_connection(point) {
        report.metrics.retain(|metric| metric.name != "lost");
    }
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    report
}

/// Whether what is lost is sent again by the kernel, which says nothing of it here.
fn over_connection(point: &Point) -> bool {
    !matches!(stack(point), Stack::Bytes("rudp" | "udp"))
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = match stack(point) {
        Stack::Calls(stack) => call_ns(point, stack, known)?,
        Stack::Bytes(word) => carried_ns(point, word, known)?,
    };
    latency_ns(low, high, because)
}

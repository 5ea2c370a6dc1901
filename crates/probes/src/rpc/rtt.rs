//! `rpc.rtt`: how long a remote procedure call takes.

use super::axes::{Argument, Call, Carried};
use super::ends::{CALLS, CallServer, broken, client, joined};
use super::expect::carried;
use crate::ends::{self, Cpus};
use crate::net::axes::Wait;
use crate::net::exchange::Exchange;
use crate::net::path::{self, TCP_HEADERS};
use crate::net::peer_reports::on_cpus;
use crate::net::peers::Connector;
use crate::net::ping_pong::{ClientRole, CpuTime, ServerRole, warm_up};
use crate::prelude::*;
use crate::rudp::rtt::measure;
use crate::two_ends::over::Over;
use crate::wake::{self, Wake};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use costof_rpc::{Client, RpcError};
use std::time::Instant;

pub(crate) static PROBE: Probe = Probe::new::<Rtt>();

point! {
    /// How long does a remote procedure call take, by gRPC and by Thrift?
    ///
    /// A procedure that returns its argument is called over one connection, one call at a time, and
    /// each call is stamped. The client checks that the answer is the argument, and sends it again.
    /// The first call and twenty more are not counted: rpc.first_call has them. Both ends block.
    /// Each has one thread, on which everything of the stack runs: gRPC's ends have a tokio runtime
    /// of that one thread, which waits in epoll_wait(2). Thrift sends a frame by one system call.
    /// The server's CPU has one more thread, which checks every 10 ms whether to stop. stack=tcp,
    /// rudp and udp are what rudp.rtt measures: messages as long as the argument alone, 4 B for an
    /// int and 8 for a double, with nothing to marshal. The stacks take turns in each launch. If a
    /// CPU is idle when a message arrives, waking it takes longer than most stacks need: see
    /// `wake`.
    ///
    /// # Predicted from
    /// the run's TCP round trip (net.rtt), marshalling there and back (rpc.marshal), and the system
    /// calls and frames that the stack adds
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 3: gRPC 0.9 to 1.3 ms on one machine, 1.5 to 1.9 over a LAN,
    ///   optimised; Thrift 34 to 106 µs; its own reliable UDP 12 to 20 µs
    /// - gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md; RFC 9113; tonic 0.14
    /// - Apache Thrift, doc/specs/thrift-rpc.md and thrift-binary-protocol.md; crate thrift
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - over=unix: both ends on one machine, --link loopback
    pub(crate) struct Rtt of "rpc.rtt" {
        /// what carries a call, or as many bytes as its argument has
        stack: Over = words_of(&[Over::Grpc, Over::Thrift, Over::Tcp, Over::Rudp, Over::Udp]),
        /// what a connection goes through; rudp and udp have none and use UDP
        over: Over = words_of(&[Over::Tcp, Over::Unix]),
        payload: Argument = Argument::axis(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl From<&Rtt> for Carried {
    fn from(point: &Rtt) -> Carried {
        let exchange = |over| Exchange {
            over,
            size: point.payload.bytes(),
            wait: Wait::Block,
            cpus: point.cpus,
            wake: point.wake,
        };
        let connection = exchange(point.over);
        match point.stack.calls() {
            Some(stack) => Carried::Calls(Call {
                stack,
                payload: point.payload,
                connections: 1,
                exchange: connection,
            }),
            None if point.by_datagrams() => Carried::Bytes(exchange(point.stack)),
            None => Carried::Bytes(connection),
        }
    }
}

impl Rtt {
    /// Whether a user-space library retransmits lost packets, which the kernel's counters do not
    /// show.
    fn by_datagrams(&self) -> bool {
        self.stack.below() == Over::Udp
    }

    /// Points that are impossible everywhere.
    fn check(&self) -> Result<(), Failure> {
        let reason = if self.by_datagrams() && self.over == Over::Unix {
            "datagrams go by UDP here, and have no Unix socket (--set over=tcp, which says nothing \
             of them)"
        } else if self.stack == Over::Udp && self.payload.bytes() > DATAGRAM_MAX_BYTES {
            "a datagram carries 65,507 B at most (--set payload=string16384, or stack=rudp, which \
             cuts)"
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

impl Measure for Rtt {
    const METRICS: &'static [Metric] = metrics! {
        /// from before the call until its answer is unmarshalled; of a socket or rudp, until all
        /// bytes of the answer have arrived
        latency: Nanoseconds Lower,
        /// CPU time of that end's thread for a call, in and out
        cpu_client: Nanoseconds Lower,
        /// CPU time of that end's thread for a call, in and out
        cpu_server: Nanoseconds Lower,
        /// of datagrams: the share of exchanges with a retransmission; their latency contains it
        lost: One Lower,
    };
    const AFTER: &'static [&'static str] =
        &["os.syscall", "os.context_switch", "net.rtt", "rpc.marshal", "cpu.memcpy"];
    const CROSSINGS: &'static [&'static [&'static str]] =
        &[&["stack", "payload"], &["stack", "wake"]];
    // The stacks are compared with each other.
    const ROUNDS: u32 = 2;
    const ROLE_NAMES: &'static [&'static str] = &["server", "client"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 30, 120));
    const ROLES: &'static [StartRole] = &[
        |launch| {
            role::<Rtt>(End {
                bytes: ServerRole::start(launch)?,
                calls: CallServer::start(launch)?,
            })
        },
        |launch| {
            role::<Rtt>(End {
                bytes: ClientRole::start(launch, measure)?,
                calls: CallClient(Connector::start(launch)?, None),
            })
        },
    ];

    fn check_axes(point: &At<Rtt>) -> Result<(), Failure> {
        // Over a link with delays, a CPU that both ends share idles too.
        if path::is_plain(&point.link) {
            ends::check(point.cpus, point.wake, false)?;
        }
        point.check()
    }

    fn least_ns(point: &At<Rtt>) -> f64 {
        path::least_ns(&point.link, point.payload.bytes() as u64, TCP_HEADERS)
    }

    fn processors(point: &At<Rtt>) -> usize {
        point.cpus.count()
    }

    fn relations() -> Vec<Relation> {
        let by_stack = |stack: Over| {
            Relation::because(
                "a call carries the same argument over the same socket, and does more",
            )
            .these("stack", stack.word())
            .those("stack", Over::Tcp.word())
        };
        vec![
            by_stack(Over::Grpc),
            by_stack(Over::Thrift),
            Relation::because("a call takes a round trip of more bytes over the same socket")
                .these("stack", Over::Grpc.word())
                .these("over", Over::Tcp.word())
                .of("net.rtt"),
        ]
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        let by = |stack| Rtt { stack, ..Rtt::default() };
        vec![
            Headline::new("remote procedure call: gRPC on loopback", by(Over::Grpc)),
            Headline::new("remote procedure call: Thrift on loopback", by(Over::Thrift)),
        ]
    }

    /// The other connections over Unix sockets, which stay on this machine.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let unix = |stack| Rtt { stack, over: Over::Unix, ..Rtt::default() };
        [Over::Thrift, Over::Tcp].map(|stack| Planned::over(unix(stack).into(), "loopback")).into()
    }

    fn predict(point: &At<Rtt>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        carried(&point.link, &Carried::from(&point.axes), measured)?.predict("latency")
    }

    fn derive(point: &At<Rtt>, reports: Vec<Report>) -> Report {
        let mut report = joined(reports);
        if !point.by_datagrams() {
            report.metrics.retain(|metric| metric.name != "lost");
        }
        on_cpus(point.cpus, report)
    }
}

/// An end that sends bytes back, as in `rudp.rtt`, or serves calls.
struct End<B, C> {
    bytes: B,
    calls: C,
}

impl<B: RoleAt<Exchange>, C: RoleAt<Call>> RoleAt<Rtt> for End<B, C> {
    fn blocks(&self, _: &At<Rtt>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<Rtt>, offers: &Offers) -> Result<Offers, Failure> {
        point.check()?;
        let link = point.link.clone();
        match Carried::from(&point.axes) {
            Carried::Bytes(axes) => self.bytes.prepare(&At { axes, link }, offers),
            Carried::Calls(axes) => self.calls.prepare(&At { axes, link }, offers),
        }
    }

    fn run(&mut self, point: &At<Rtt>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let link = point.link.clone();
        match Carried::from(&point.axes) {
            Carried::Bytes(axes) => self.bytes.run(&At { axes, link }, meter),
            Carried::Calls(axes) => self.calls.run(&At { axes, link }, meter),
        }
    }
}

/// The end that calls, and the connection of the point before: the server's threads have to live
/// until their CPU time is read.
struct CallClient(Connector, Option<Client>);

impl RoleAt<Call> for CallClient {
    fn prepare(&mut self, point: &At<Call>, offers: &Offers) -> Result<Offers, Failure> {
        self.1 = None;
        self.0.prepare(&point.link, point.exchange.placement(), offers)
    }

    fn run(&mut self, point: &At<Call>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        // A stack allocates memory for each call.
        meter.operation_allocates();
        let (_awake, mut client) = client(point, &mut self.0)?;
        let payload = point.payload.payload();
        let failed = |error: RpcError| broken(&error);
        let mut all = 0_u64;
        let mut call = || {
            all += 1;
            client.call(&payload).map_err(failed)
        };
        let start = Instant::now();
        call()?;
        let first_ns = start.elapsed().as_nanos() as f64;
        warm_up(first_ns, meter, || call().map(|()| None))?;
        let mut used = CpuTime::start();
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        slow.repeat(u64::MAX, |meter| {
            used.messages += 1;
            meter.time("latency", &mut call)
        })?;
        used.report("cpu_client", &point.exchange, meter);
        meter.value(CALLS, all as f64);
        self.1 = Some(client);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::failure::FailureKind;

    #[test]
    fn datagrams_have_no_unix_socket() {
        let unix = |stack| {
            let point = Rtt { stack, over: Over::Unix, ..Rtt::default() };
            point.check()
        };
        for stack in [Over::Rudp, Over::Udp] {
            let failure = unix(stack).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains("over=tcp"), "{failure}");
        }
        for stack in [Over::Tcp, Over::Thrift, Over::Grpc] {
            assert_eq!(unix(stack), Ok(()));
        }
    }

    #[test]
    fn a_datagram_is_no_longer_than_it_can_be() {
        let long = |stack| {
            let point = Rtt { stack, payload: Argument::String65536, ..Rtt::default() };
            point.check().map_err(|failure| failure.reason)
        };
        let refused = long(Over::Udp).unwrap_err();
        assert!(refused.contains("payload=string16384"), "{refused}");
        for stack in [Over::Rudp, Over::Tcp, Over::Grpc] {
            assert_eq!(long(stack), Ok(()));
        }
    }
}

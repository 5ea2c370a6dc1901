//! `net.rtt`: the round trip of a message over a link, by each transport that answers messages.

pub(crate) mod client;
mod predict;

pub(crate) use predict::{expected, kernel, measured_ns, round_trip};

use crate::prelude::*;
use crate::rpc::axes::Kind;
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, SOCKETS, ServerRole, Wait, answer, exchange,
    joined,
};

pub(crate) static PROBE: Probe = Probe::new::<Rtt>();

point! {
    /// How long does a message take to the other end of a link and back?
    ///
    /// A message goes to the other end, which sends it back. It carries a number, which identifies
    /// its answer. With one message at a time, each round trip is stamped for `latency`. If nothing is
    /// lost, the number of messages fits the time; otherwise it is fixed beforehand, because a
    /// measurement that stops when its time is over tends to stop at a loss.
    /// Over a socket, `cost` is the time of many round trips divided by their number, and the whole of
    /// the last answer is compared. A datagram without an answer is retransmitted after three round
    /// trips, or 200 ms if that is more, and counted as lost. With a rate, the client spins to send in
    /// time, `wait` applies to the server alone, and latency counts from the intended time (no
    /// coordinated omission). If the ends block, latency can have two modes: sometimes the other CPU is
    /// awake, and sometimes it must be woken from idle, which takes tens of microseconds in a virtual
    /// machine. `wake` and `wait` separate these cases, `cpus=same` needs no wake-up, and
    /// `cpus=one_thread` no waiting: there, the bytes of messages and answers also give a throughput.
    /// sockperf prints half of this round trip.
    /// By the other transports each answer is compared, and twenty round trips are not counted.
    /// over=rudp is the library as delivered: its driver over a UDP socket, configured for latency if
    /// one datagram holds the message, messages in order; an acknowledgement travels with the answer.
    /// On loopback its datagrams are as long as UDP allows, elsewhere as long as Ethernet carries, so
    /// the library splits a longer message; with over=udp, IP splits it. over=study is the study's
    /// protocol: the message goes there, and an acknowledgement of 8 B comes back. A lost one is
    /// retransmitted after a second, for which its sender spins. Both copy the message into a datagram,
    /// behind a header; a program that keeps the header in front of its only buffer saves that.
    /// over=grpc and over=thrift call a procedure that returns its argument, over one connection
    /// (rpc.first_call has the first call). Everything of the stack runs on one thread at each end:
    /// gRPC's ends have a tokio runtime of that one thread, which waits in epoll_wait(2); Thrift sends a
    /// frame by one system call. The server's CPU has one more thread, which checks every 10 ms whether
    /// to stop. over=grpc_tls encrypts what goes below HTTP/2 (TLS 1.3 by rustls and ring); its handshake comes before
    /// the first call and is not timed. over=grpc_gzip compresses each message at one end and decompresses it at the
    /// other; its strings, the alphabet again and again, compress better than what people send.
    ///
    /// # Predicted from
    /// context switches (os.context_switch), system calls through the protocol of the socket, the link's
    /// delays, and bytes over its rate; and what another transport adds to that: datagrams, tags and
    /// copies, or marshalling (rpc.marshal), frames and system calls, encryption (cpu.tls) and cycles
    /// of compression
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 4.05 µs on loopback, 132.9 µs remote (465 by the
    ///   cycles that it counted), 56 bytes
    /// - sockperf(1), ping-pong; netperf, TCP_RR and UDP_RR
    /// - G. Tene, How NOT to Measure Latency, 2013, on coordinated omission
    /// - RFC 6298, section 2, on retransmission timeouts; RFC 9002, on loss detection
    /// - CS 739 mini-project 1, part 2: 14.97 µs (median 10) between two processes, 68.25 (64) over
    ///   a gigabit LAN, 189.9 ms over a WAN
    /// - CS 739 mini-project 1, part 3: gRPC 0.9 to 1.3 ms on one machine, 1.5 to 1.9 over a LAN,
    ///   optimised; Thrift 34 to 106 µs; its own reliable UDP 12 to 20 µs
    /// - gRPC over HTTP/2, doc/PROTOCOL-HTTP2.md; RFC 9113; tonic 0.14
    /// - Apache Thrift, doc/specs/thrift-rpc.md and thrift-binary-protocol.md; crate thrift
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - cpus=one_thread: a socket, --link loopback, and rate=0
    /// - Unix sockets: both ends on one machine, --link loopback
    /// - over=grpc_tls: a build with rustls, the default (--features quic)
    pub(crate) struct Rtt of "net.rtt" {
        /// what carries it
        over: Over = Over::that(Over::Tcp, |_, it| it.round_trips.is_some()),
        /// bytes of the message, and of the answer, or of a call's argument, a string; up to 65,507
        /// over UDP
        size: usize =
            bytes(1..=1 << 20, &[56, 1, 64, 512, 1024, 2048, 16 << 10, 64 << 10]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first_or_one_thread(),
        wake: Wake = wake::of_two_ends(),
        /// messages per second, sent whether or not earlier ones are answered; 0: one at a time,
        /// the next when the last is answered
        rate: u64 = count(0..=1_000_000, &[0, 1000, 10_000]),
        /// what the message is
        payload: Payload = words(),
    }
}

words! {
    /// What a message is.
    pub(crate) enum Payload {
        /// `size` bytes; of a call a string
        String = "string",
        /// a 32-bit integer, 4 B
        Int = "int",
        /// a 64-bit floating-point number, 8 B
        Double = "double",
        /// a structure with a structure in it, a list, a map and strings, 221 B without a protocol
        Structure = "structure",
    }
}

impl Exchanges for Rtt {
    fn exchange(&self) -> Exchange {
        let Rtt { over, wait, cpus, wake, .. } = *self;
        let payload = match self.payload {
            Payload::String => Kind::String(self.size),
            Payload::Int => Kind::Int,
            Payload::Double => Kind::Double,
            Payload::Structure => Kind::Structure,
        };
        Exchange { over, payload, wait, cpus, wake }
    }

    fn check(&self) -> Result {
        let is_string = self.payload == Payload::String;
        let reason = if !is_string && self.size != Rtt::default().size {
            "only a string has a size (--set payload=string)"
        } else if self.over.stack().is_some() && self.wait == Wait::Spin {
            "the ends of calls wait in the kernel (--set wait=block)"
        } else if !self.is_by_socket() && self.cpus == Cpus::OneThread {
            "one thread has both ends of a socket alone (--set over=tcp, or cpus=cross)"
        } else if self.rate == 0 {
            return Ok(());
        } else if !self.is_by_socket() {
            "messages are sent at a rate over sockets alone (--set over=tcp, or rate=0; rpc.load \
             makes calls of gRPC at a rate)"
        } else if self.cpus != Cpus::Cross {
            "with a rate the client spins to send in time, and leaves its CPU to nobody (--set \
             cpus=cross, or rate=0)"
        } else if self.over == Over::Udp && self.exchange().size() < client::NUMBER_BYTES {
            "with a rate, a datagram must hold its number of 8 B (--set size=8, or over=tcp)"
        } else {
            return Ok(());
        };
        Err(Failure::unsupported(reason))
    }
}

impl Rtt {
    /// The point of an exchange.
    pub(crate) fn new(exchange: &Exchange) -> Rtt {
        let Exchange { over, payload, wait, cpus, wake } = *exchange;
        let (payload, size) = match payload {
            Kind::String(size) => (Payload::String, size),
            Kind::Int => (Payload::Int, Rtt::default().size),
            Kind::Double => (Payload::Double, Rtt::default().size),
            Kind::Structure => (Payload::Structure, Rtt::default().size),
        };
        Rtt { over, size, wait, cpus, wake, payload, ..Rtt::default() }
    }

    fn is_by_socket(&self) -> bool {
        SOCKETS.contains(&self.over)
    }
}

impl Measure for Rtt {
    const METRICS: &'static [Metric] = metrics! {
        /// from just before the message is sent until the whole answer has arrived, or by over=study its
        /// acknowledgement; of a call until the answer is unmarshalled; with a rate, from the intended
        /// time of the send
        latency: Nanoseconds Lower,
        /// one round trip over a socket, from many in a row; absent with a rate, and over a link on
        /// which few fit into a launch
        cost: Nanoseconds Lower,
        /// of datagrams: the share of messages without an answer in time; one at a time, they were
        /// retransmitted, and their latency includes that
        lost: One Lower,
        /// with a rate: answers per second, between the first and the last
        rate: One Higher,
        /// with both ends in one thread: bytes of messages and answers divided by their time
        throughput: BytesPerSecond Higher,
        /// with wait=block and one message at a time: CPU time of the client's thread per message, out
        /// and in
        cpu_client: Nanoseconds Lower,
        /// with wait=block: CPU time of the server's thread per message, in and out
        cpu_server: Nanoseconds Lower,
    };
    const AFTER: NameList =
        &["os.syscall", "os.context_switch", "rpc.marshal", "cpu.frequency", "cpu.tls"];
    const CROSSINGS: &'static [NameList] =
        &[&["over", "size"], &["over", "wait"], &["over", "wake"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 30, 120));
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Rtt>(ServerRole::start(launch, answer)?),
        |launch| role::<Rtt>(ClientRole::start(launch, measure)?),
    ];

    fn aliases() -> Vec<Alias> {
        let rudp = [Over::Rudp, Over::Study, Over::Udp].into_iter().flat_map(|over| {
            let word = over.word();
            // Its method 1 measured otherwise, as no method here does.
            [(2, 1), (1, 0)].map(|(then, now)| {
                let was = format!("rudp.rtt(stack={word})");
                Alias::new(was, format!("net.rtt(over={word})")).of_method(then, now)
            })
        });
        let calls = [
            ("grpc", "tcp", Over::Grpc),
            ("thrift", "tcp", Over::Thrift),
            ("tcp", "tcp", Over::Tcp),
            ("rudp", "tcp", Over::Rudp),
            ("udp", "tcp", Over::Udp),
            ("grpc", "unix", Over::GrpcUnix),
            ("thrift", "unix", Over::ThriftUnix),
            ("tcp", "unix", Over::Unix),
        ];
        let calls = calls.map(|(stack, below, over)| {
            let was = format!("rpc.rtt(stack={stack}, over={below})");
            Alias::new(was, format!("net.rtt(over={})", over.word()))
        });
        let strings = [64, 512, 1024, 2048, 16384, 65536].map(|bytes| {
            Alias::new(format!("net.rtt(payload=string{bytes})"), format!("net.rtt(size={bytes})"))
        });
        rudp.chain(calls).chain(strings).collect()
    }

    fn check_axes(point: &At<Self>) -> Result {
        exchange::check_axes(point)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        point.exchange().least_ns(&point.link)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    fn relations() -> Vec<Relation> {
        let by_stack = |stack: Over| {
            Relation::because(
                "a call carries the same argument over the same socket, and does more",
            )
            .these("over", stack.word())
            .those("over", stack.below().word())
        };
        vec![
            Relation::because("a blocked end must also be woken")
                .these("wait", Wait::Block.word())
                .these("cpus", Cpus::Cross.word())
                .these("rate", 0)
                .those("wait", Wait::Spin.word()),
            Relation::because("it is the same call, and it is encrypted and decrypted")
                .these("over", Over::GrpcTls.word())
                .those("over", Over::Grpc.word()),
            by_stack(Over::Grpc),
            by_stack(Over::Thrift),
            by_stack(Over::GrpcUnix),
            by_stack(Over::ThriftUnix),
        ]
    }

    headlines! {
        "round trip: TCP on loopback, spinning": { wait: Wait::Spin },
        "round trip: TCP on loopback, blocked": {},
        "send 1 KiB over 1 Gb/s, and back (lan)": { size: 1024 } over "lan",
        "round trip: TCP over lan": {} over "lan",
        "round trip: reliable datagram on loopback": { over: Over::Rudp },
        "remote procedure call: gRPC on loopback": { over: Over::Grpc, size: 64 },
        "remote procedure call: Thrift on loopback": { over: Over::Thrift, size: 64 },
    }

    /// The other arguments of calls, and the same bytes by sockets.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let payloads = [Payload::Int, Payload::Double, Payload::Structure];
        let over = [Over::Grpc, Over::Thrift, Over::Tcp, Over::Udp, Over::Rudp];
        let points = payloads
            .into_iter()
            .flat_map(|payload| over.map(|over| Rtt { over, payload, ..Rtt::default() }));
        Planned::all(points)
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point, measured)
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = derived::on_cpus(point.cpus, joined(reports));
        if point.cpus == Cpus::OneThread {
            derived::add_throughput(&mut report, 2 * point.exchange().size() as u64);
        }
        report
    }
}

fn measure(point: &At<Rtt>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    (point.over.round_trips()?.measure)(point, connector, meter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(point: &Rtt) -> Option<String> {
        let at = At { axes: point.clone(), link: "loopback".into() };
        Rtt::check_axes(&at).err().map(|failure| failure.reason)
    }

    #[test]
    fn what_a_transport_cannot_do_says_the_way_out() {
        let over = |over| Rtt { over, ..Rtt::default() };
        for (point, says) in [
            (Rtt { wait: Wait::Spin, ..over(Over::Grpc) }, "wait=block"),
            (Rtt { rate: 1000, ..over(Over::Thrift) }, "rpc.load"),
            (Rtt { cpus: Cpus::OneThread, ..over(Over::Rudp) }, "over=tcp"),
            (Rtt { payload: Payload::Int, size: 4, ..over(Over::Grpc) }, "payload=string"),
            (Rtt { size: 64 << 10, ..over(Over::Udp) }, "size=65507"),
            (Rtt { size: 64 << 10, ..over(Over::Study) }, "size=65499"),
        ] {
            let reason = refused(&point).unwrap_or_default();
            assert!(reason.contains(says), "{point:?}: {reason}");
        }
        for transport in Over::ALL.iter().filter(|over| over.round_trips().is_ok()) {
            assert_eq!(refused(&over(*transport)), None);
        }
    }
}

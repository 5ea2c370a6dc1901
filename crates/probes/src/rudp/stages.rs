//! `rudp.stages`: the time that reliability adds to a datagram at each end, by the kernel's
//! timestamps.

use crate::net::rtt;
use crate::prelude::*;
use crate::rpc::axes::Kind;
use crate::two_ends::stamped::{Recording, Stamping, measure_stamped, serve_stamped};
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, ServerRole, Wait, exchange, joined,
};
use costof_exchange::pattern::ping_pong::ClientStages;

pub(crate) static PROBE: Probe = Probe::new::<Stages>();

point! {
    /// How much time does reliability add to a datagram at each end?
    ///
    /// One message at a time, as in net.rtt, goes over sockets whose datagrams the kernel stamps
    /// (SO_TIMESTAMPING, in software: SND and RX); the study captured them with a sniffer. Each end
    /// subtracts stamps of its own host only, because clocks of two hosts cannot be subtracted.
    /// over=udp measures the kernel and the waiting, so the difference to it is the library's
    /// time. All send each message as one datagram, which IP fragments if the link's packets
    /// are shorter; then the kernel stamps one of the fragments. The library's state machine is
    /// driven here by a loop like its own driver's, one datagram at a time. Stamping itself costs
    /// some microseconds, most of them between the stages; the stamps of sent datagrams are fetched
    /// after the answer.
    ///
    /// # Predicted from
    /// half of the two sends, receives and context switches of a UDP round trip, from the run's
    /// system calls and context switches; and half of what the library adds to a round trip
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: server and client 9.9 and 8.4 µs for 1400 B on one machine,
    ///   17.2 and 24.6 µs for the largest datagram; over a LAN 95.7 and 28.8, 83.7 and 180.9 µs
    /// - Linux Documentation/networking/timestamping.rst
    ///
    /// # Needs
    /// - software timestamps of the kernel (SO_TIMESTAMPING)
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct Stages of "rudp.stages" {
        /// what carries the message
        over: Over = Over::that(Over::Rudp, |_, it| it.stamped.is_some() && it.socket.is_datagrams()),
        /// bytes of the message, which is one datagram; with its headers, 65,400 is the largest
        /// that rudp sends
        size: usize = bytes(1..=DATAGRAM_MAX_BYTES as u64, &[1400, 56, LIBRARY_MAX as u64]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

/// The longest message that the library surely fits into one datagram.
const LIBRARY_MAX: usize = 65_400;

impl Exchanges for Stages {
    fn exchange(&self) -> Exchange {
        let Stages { over, size, wait, cpus, wake } = *self;
        Exchange { over, payload: Kind::String(size), wait, cpus, wake }
    }

    /// Refuses a message that takes more than one datagram: its stamps would say little.
    fn check(&self) -> Result {
        if self.over != Over::Rudp || self.size <= LIBRARY_MAX {
            return Ok(());
        }
        Err(Failure::unsupported(format!(
            "the library's headers and acknowledgements leave {LIBRARY_MAX} B of a datagram \
             (--set size={LIBRARY_MAX}, or over=udp)"
        )))
    }
}

impl Measure for Stages {
    const METRICS: &'static [Metric] = metrics! {
        /// at the client, both stages together: the round trip less the time from sending the
        /// datagram until its answer arrives; the study's T4 - T1 - (T3 - T2)
        client: Nanoseconds Lower,
        /// from just before the process sends the message until the driver has its datagram; T2 -
        /// T1
        client_send: Nanoseconds Lower,
        /// from the arrival of the answer's datagram until the process has the answer; T4 - T3
        client_receive: Nanoseconds Lower,
        /// at the server, from the arrival of the datagram until the driver has the answer's
        /// datagram; S2 - S1
        server: Nanoseconds Lower,
        /// the part of server until the process has the message and starts to answer
        server_receive: Nanoseconds Lower,
        /// the rest of server
        server_send: Nanoseconds Lower,
        /// the round trip, stamping included: from just before the message is sent until the whole
        /// answer has arrived, or with over=study its acknowledgement
        latency: Nanoseconds Lower,
        /// the share of messages of which the client lacks an answer or a stamp; they enter no
        /// other metric there
        missing: One Lower,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch"];
    const CROSSINGS: &'static [NameList] = &[&["over", "size"], &["over", "wait"]];
    const ROUNDS: u32 = 2;
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stages>(Stamping::start(|| ServerRole::start(launch, serve_stamped))?),
        |launch| role::<Stages>(Stamping::start(|| ClientRole::start(launch, measure))?),
    ];

    fn aliases() -> Vec<Alias> {
        Over::was_stack(Stages::PROBE)
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

    headlines! {
        "reliable datagram: send and receive at one end": {},
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let read = syscall::measured_cost(measured, syscall::Call::Read)?;
        let exchange = point.exchange();
        let kernel = rtt::kernel(&exchange, read.clone());
        let mut cost = kernel * (1.0 / 3.0, 0.5) + (read * (0.0, 16.0)).named("the stamps");
        if point.wait == Wait::Block {
            cost += context_switch::measured_cost(point.cpus, point.wake, measured)? * (0.4, 1.25);
        }
        cost += (exchange.over.description().added)(&exchange, &point.link, measured)? * 0.5;
        cost.predict("client")
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        joined(reports)
    }
}

fn measure(point: &At<Stages>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    let recording = Recording { queue: false, first: false, each: record };
    measure_stamped(point, &recording, connector, meter)
}

fn record(stages: &ClientStages, meter: &mut Meter<'_>) {
    let send = stages.left - stages.sent;
    let receive = stages.answered - stages.received;
    meter.latency("client", (send + receive) as f64);
    meter.latency("client_send", send as f64);
    meter.latency("client_receive", receive as f64);
    meter.latency("latency", stages.latency_ns() as f64);
}

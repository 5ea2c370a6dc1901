//! `net.stages`: the stages of a round trip, by the kernel's timestamps.

use crate::net::rtt;
use crate::prelude::*;
use crate::rpc::axes::Kind;
use crate::two_ends::stamped::{Recording, Stamping, measure_stamped};
use crate::two_ends::{
    ClientRole, Connector, Exchange, Exchanges, Over, SOCKETS, ServerRole, Wait, answer, exchange,
};
use costof_exchange::pattern::ping_pong::ClientStages;

pub(crate) static PROBE: Probe = Probe::new::<Stages>();

point! {
    /// Where does a round trip spend its time?
    ///
    /// One message at a time, as in net.rtt, goes over a socket whose packets the kernel stamps
    /// (SO_TIMESTAMPING, in software: SCHED, SND and RX). The stamps use the same clock that the
    /// process reads before it sends and after it has received, so the four stages of a message add
    /// up to its round trip. All stamps are from the client's host, because clocks of two hosts
    /// cannot be subtracted: the other end's time is inside driver_to_stack. Stamping itself
    /// costs some microseconds, so the latency is higher than net.rtt's. If a message takes several
    /// packets, the last one is stamped.
    ///
    /// # Predicted from
    /// the round trip over the same link with the same wait and size (net.rtt), and system calls
    /// for the stamps
    ///
    /// # Sources
    /// - Linux Documentation/networking/timestamping.rst
    /// - CSE 221 System Measurement Project, 2014, which found no cost of the protocol itself
    ///   between ping and TCP
    ///
    /// # Needs
    /// - software timestamps of the kernel (SO_TIMESTAMPING)
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct Stages of "net.stages" {
        /// what carries the message
        over: Over = Over::that(Over::Udp, |over, it| it.stamped.is_some() && SOCKETS.contains(&over)),
        /// bytes of the message, and of the answer; up to 65,507 over UDP
        size: usize = bytes(1..=64 << 10, &[56, 1024, 16 << 10]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Exchanges for Stages {
    fn exchange(&self) -> Exchange {
        let Stages { over, size, wait, cpus, wake } = *self;
        Exchange { over, payload: Kind::String(size), wait, cpus, wake }
    }
}

impl Measure for Stages {
    const METRICS: &'static [Metric] = metrics! {
        /// the round trip, stamping included: from just before the message is sent until the whole
        /// answer has arrived
        latency: Nanoseconds Lower,
        /// from just before the send until the message's last packet enters the queue discipline:
        /// the call, the copy, UDP or TCP, and IP
        send_to_queue: Nanoseconds Lower,
        /// from there until the driver has the packet
        queue_to_driver: Nanoseconds Lower,
        /// from there until the answer arrives at this host: the wire, and all of the other end; on
        /// loopback also the rest of the send
        driver_to_stack: Nanoseconds Lower,
        /// from there until the receiving process has the answer: IP, UDP or TCP, waking it, and
        /// the copy
        stack_to_receive: Nanoseconds Lower,
        /// the share of messages without an answer or a stamp; they enter no other metric
        missing: One Lower,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch", "net.rtt"];
    const CROSSINGS: &'static [NameList] = &[&["over", "wait"]];
    const ROLE_NAMES: NameList = exchange::ROLE_NAMES;
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stages>(ServerRole::start(launch, answer)?),
        |launch| role::<Stages>(Stamping::start(|| ClientRole::start(launch, measure))?),
    ];

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
        "round trip: UDP on loopback, stamped by the kernel": {},
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let exchange = point.exchange();
        let round_trip =
            if let Some(ns) = rtt::measured_ns(&point.link, &exchange, point.size, measured) {
                Cost::new(ns, "for the round trip without stamps (net.rtt)") * (0.9, 1.3)
            } else {
                rtt::round_trip(&point.link, &exchange, exchange.waiting_ends(), measured)?
            };
        // Two clones of the packet are stamped and queued, and another call fetches each.
        let stamps = syscall::measured_cost(measured, syscall::Call::Read)? * (2.0, 80.0);
        (round_trip + stamps.named("the stamps")).predict("latency")
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        leading(reports)
    }
}

fn measure(point: &At<Stages>, connector: &mut Connector, meter: &mut Meter<'_>) -> Result {
    let recording = Recording { queue: true, first: true, each: record };
    measure_stamped(point, &recording, connector, meter)
}

fn record(stages: &ClientStages, meter: &mut Meter<'_>) {
    let ClientStages { sent, queued, left, received, answered } = *stages;
    let queued = queued.unwrap_or(left);
    for (metric, from, to) in [
        ("latency", sent, answered),
        ("send_to_queue", sent, queued),
        ("queue_to_driver", queued, left),
        ("driver_to_stack", left, received),
        ("stack_to_receive", received, answered),
    ] {
        meter.latency(metric, (to - from) as f64);
    }
}

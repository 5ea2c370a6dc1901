//! `net.stages`: where a round trip spends its time, by the kernel's own stamps.

use crate::ends::Cpus;
use crate::net::axes::{Over, Wait};
use crate::net::exchange::{Exchange, Exchanges, Transport, client_and_server};
use crate::net::lost::share_lost;
use crate::net::path;
use crate::net::peers::Connector;
use crate::net::ping_pong::{self, ClientRole, ServerRole, Stamping};
use crate::net::rendezvous::broken;
use crate::net::rtt;
use crate::os::syscall;
use crate::prelude::*;
use crate::wake::{self, Wake};
use costof_exchange::ping_pong::{Client, ClientStages};
use costof_exchange::transport::stamped::Stamped;
use std::io;

pub(crate) static PROBE: Probe = Probe::new::<Stages>();

point! {
    /// Where does a round trip spend its time?
    ///
    /// One message at a time, as in net.rtt, goes over a socket whose packets the kernel stamps
    /// (SO_TIMESTAMPING, in software: SCHED, SND and RX). The stamps use the same clock that the
    /// process reads before it sends and after it has received, so the four stages of a message add
    /// up to its round trip. All stamps are from the client's host, because clocks of two hosts
    /// cannot be subtracted: what the other end took is inside driver_to_stack. Stamping itself
    /// costs some microseconds, so the latency is higher than net.rtt's. If a message takes several
    /// packets, the last one is stamped.
    ///
    /// # Predicted from
    /// the round trip as net.rtt has measured it over the same link, the same wait and size, and
    /// system calls for the stamps
    ///
    /// # Sources
    /// - Linux Documentation/networking/timestamping.rst
    /// - CSE 221 System Measurement Project, 2014, which found no time of the protocol's own
    ///   between ping and TCP
    ///
    /// # Needs
    /// - software timestamps of the kernel (SO_TIMESTAMPING)
    /// - cpus=cross: two CPUs (--cpu)
    pub(crate) struct Stages of "net.stages" {
        /// what carries the message
        over: Over = words_of(&[Over::Udp, Over::Tcp]),
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
        Exchange {
            transport: Transport::Socket(self.over),
            size: self.size,
            wait: self.wait,
            cpus: self.cpus,
            wake: self.wake,
        }
    }
}

impl Measure for Stages {
    const METRICS: &'static [Metric] = metrics! {
        /// the round trip, with the stamps: from before the message is sent until the whole answer
        /// is there
        latency: Nanoseconds Lower,
        /// from before the send until the message's last packet enters the queue discipline: the
        /// call, the copy, UDP or TCP, and IP
        send_to_queue: Nanoseconds Lower,
        /// from there until the driver is given the packet
        queue_to_driver: Nanoseconds Lower,
        /// from there until this host receives the answer: the wire, and all of the other end; on
        /// loopback also the rest of the send
        driver_to_stack: Nanoseconds Lower,
        /// from there until the receiving process has the answer: IP, UDP or TCP, waking it, and
        /// the copy
        stack_to_receive: Nanoseconds Lower,
        /// the share of messages of which an answer or a stamp was missing; they count for nothing
        /// else
        missing: One Lower,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "net.rtt"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["over", "wait"]];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stages>(ServerRole::start(launch)?),
        |launch| role::<Stages>(Stamping::start(|| ClientRole::start(launch, measure))?),
    ];

    client_and_server!();

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "round trip: UDP on loopback, stamped by the kernel",
            Stages::default(),
        )]
    }

    fn predict(point: &At<Stages>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict(point, measured)
    }

    fn derive(_: &At<Stages>, reports: Vec<Report>) -> Report {
        leading(reports)
    }
}

fn measure(
    point: &At<Stages>,
    connector: &mut Connector,
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    let exchange = point.exchange();
    let (_awake, socket) = exchange.connect_socket(connector)?;
    let stamped = ping_pong::stamped(socket, Stamped::with_queue)?;
    let mut client = Client::new(stamped, exchange.size);
    client.set_min_rto(exchange.may_take(&point.link));
    let mut stamped = || {
        let stages = client.exchange_stamped()?;
        Ok(stages.filter(|stages| stages.queued.is_some()))
    };
    let first = first_stamped(&mut stamped)?;
    record(&first, meter);
    measure_stages(first, &mut stamped, record, meter)
}

/// Measures stages of messages until the point's time is over, and which share of messages has none.
/// `first` was measured before; `stamped` exchanges one more.
///
/// # Errors
/// Those of `stamped`; that the kernel has ceased to stamp packets.
pub(crate) fn measure_stages(
    first: ClientStages,
    stamped: &mut impl FnMut() -> io::Result<Option<ClientStages>>,
    record: fn(&ClientStages, &mut Meter<'_>),
    meter: &mut Meter<'_>,
) -> Result<(), Failure> {
    /// How many messages in a row may have no stamps.
    const MAX_UNSTAMPED: u32 = 1000;
    let latency_ns = |stages: ClientStages| stages.latency_ns() as f64;
    let first_ns = latency_ns(first);
    let mut stamped = || stamped().map_err(|error| broken(&error));
    let each_ns = ping_pong::warm_up(first_ns, meter, || Ok(stamped()?.map(latency_ns)))?;
    let mut unstamped = 0;
    let mut slow = meter.lasting(path::lasts_ns(first_ns));
    let missing = share_lost(&mut slow, each_ns, |meter| {
        let stages = stamped()?;
        match &stages {
            Some(stages) => {
                record(stages, meter);
                unstamped = 0;
            }
            None => unstamped += 1,
        }
        if unstamped == MAX_UNSTAMPED {
            return Err(Failure::error("the kernel has ceased to stamp packets"));
        }
        Ok(stages.is_none())
    })?;
    meter.value("missing", missing);
    Ok(())
}

/// The stages of the first message that is stamped all over.
///
/// # Errors
/// Those of `stamped`; that none of the first messages is.
pub(crate) fn first_stamped(
    stamped: &mut impl FnMut() -> io::Result<Option<ClientStages>>,
) -> Result<ClientStages, Failure> {
    /// How many messages may have no stamps before any has.
    const MAX_UNSTAMPED: u32 = 10;
    for _ in 0..MAX_UNSTAMPED {
        if let Some(stages) = stamped().map_err(|error| broken(&error))? {
            return Ok(stages);
        }
    }
    Err(Failure::error(
        "no message has an answer and all of its stamps: does a firewall drop it, or has \
         the link no such stamps?",
    ))
}

fn record(stages: &ClientStages, meter: &mut Meter<'_>) {
    let ClientStages {
        sent,
        queued,
        left,
        received,
        answered,
    } = *stages;
    let queued = queued.unwrap_or(left);
    // They are ascending.
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

fn predict(point: &At<Stages>, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let exchange = point.exchange();
    let round_trip = if let Some(ns) = rtt::measured_ns(&point.link, &exchange, measured) {
        Cost::new(ns, "for the round trip without stamps (net.rtt)") * (0.9, 1.3)
    } else {
        rtt::round_trip(&point.link, &exchange, exchange.waiting_ends(), measured)?
    };
    // Two clones of the packet are stamped and queued, and one more call fetches each.
    let stamps = syscall::measured_cost(measured, syscall::Call::Read)? * (2.0, 80.0);
    (round_trip + stamps.named("the stamps")).predict("latency")
}

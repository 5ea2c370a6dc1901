//! `net.stages`: where a round trip spends its time, by the kernel's own stamps.

use crate::ends::Cpus;
use crate::net::axes::{Exchange, Over, Wait};
use crate::net::caller::Caller;
use crate::net::echo::Echo;
use crate::net::lost::share_lost;
use crate::net::meeting::broken;
use crate::net::path::{self, TCP_HEADERS};
use crate::net::rtt::{self, Rtt};
use crate::os::syscall;
use crate::prelude::*;
use crate::wake::{self, Wake};
use costof_exchange::timestamping::{self};
use costof_os::net::timestamps::SwitchedOn;
use std::io;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe::new::<Stages>();

point! {
    /// Where does a round trip spend its time?
    ///
    /// As net.rtt, one message at a time, on a socket whose packets the kernel stamps
    /// (SO_TIMESTAMPING, in software: SCHED, SND and RX) with the clock that the process reads
    /// before it sends and after it has received. The four stages of a message add up to its round
    /// trip. All stamps are of the client's host, since the clocks of two hosts are never
    /// subtracted: what the other end took is inside driver_to_stack. Stamping costs some
    /// microseconds itself, so latency is more than net.rtt's. Of a message of several packets, the
    /// last one is stamped.
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
    /// - cpus=cross: two processors (--cpu)
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

impl From<&Stages> for Exchange {
    fn from(point: &Stages) -> Exchange {
        let Stages {
            over,
            size,
            wait,
            cpus,
            wake,
        } = *point;
        Exchange {
            over,
            size,
            wait,
            cpus,
            wake,
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
    const ROLE_NAMES: &'static [&'static str] = &["server", "client"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stages>(Echo::start(launch)?),
        |launch| role::<Stages>(Client::start(launch)?),
    ];

    fn least_ns(point: &At<Stages>) -> f64 {
        path::least_ns(&point.link, point.size as u64, TCP_HEADERS)
    }

    fn processors(point: &At<Stages>) -> usize {
        point.cpus.count()
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "round trip: UDP on loopback, stamped by the kernel",
            Stages::default(),
        )]
    }

    fn predict(point: &At<Stages>, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict(point, known)
    }

    fn derive(_: &At<Stages>, reports: Vec<Report>) -> Report {
        leading(reports)
    }
}

struct Client {
    caller: Caller,
    /// During the launch, from before any processor is kept awake.
    stamps: io::Result<SwitchedOn>,
}

impl Client {
    fn start(launch: &Launch) -> Result<Client, Failure> {
        Ok(Client {
            stamps: SwitchedOn::within(SWITCHED_ON),
            caller: Caller::start(launch)?,
        })
    }
}

/// How long the kernel may take to switch stamps on.
pub(crate) const SWITCHED_ON: Duration = Duration::from_secs(5);
/// How many messages may have none of them before any has.
const UNSTAMPED_FIRST: u32 = 10;
/// How many messages must fit into a point's time, so that some are for warming up.
const MESSAGES_PER_POINT: f64 = 20.0;
/// Messages before those that count.
const WARM_UP: u32 = 20;

impl RoleAt<Stages> for Client {
    fn blocks(&self, point: &At<Stages>) -> bool {
        point.wait == Wait::Block
    }

    fn prepare(&mut self, point: &At<Stages>, offers: &Offers) -> Result<Offers, Failure> {
        self.stamps.as_ref().map_err(absent)?;
        let (cpus, waits) = ((point.cpus, point.wake), point.wait == Wait::Block);
        self.caller.prepare(&point.link, cpus, offers, waits)
    }

    fn run(&mut self, point: &At<Stages>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (over, wait) = (point.over.into(), point.wait.into());
        let (_kept, mut conversation) = self.caller.call(over, wait)?;
        let bytes = point.size as u64;
        conversation.may_take(path::may_take(&point.link, bytes, TCP_HEADERS));
        let mut stamper =
            timestamping::Stamper::new(conversation, over, wait).map_err(|error| absent(&error))?;
        let mut message = Exchange::from(&point.axes).message();
        let mut answer = vec![0; message.len()];
        let mut ask = || {
            stamper
                .ask(&mut message, &mut answer)
                .map_err(|error| broken(&error))
        };
        let first = first_stamped(&mut ask)?;
        let first_ns = took_ns(&first);
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let stages = ask()?;
                each_ns = stages.map_or(each_ns, |stages| each_ns.min(took_ns(&stages)));
            }
        }
        record(&first, meter);
        let mut unstamped = 0;
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let missing = share_lost(&mut slow, each_ns, |meter| {
            let stages = ask()?;
            match &stages {
                Some(stages) => {
                    record(stages, meter);
                    unstamped = 0;
                }
                None => unstamped += 1,
            }
            match unstamped {
                UNSTAMPED_MOST => Err(Failure::error("the kernel has ceased to stamp packets")),
                _ => Ok(stages.is_none()),
            }
        })?;
        meter.value("missing", missing);
        match answer == message {
            true => Ok(()),
            false => Err(Failure::error("the answer is not what was sent")),
        }
    }
}

/// How many messages in a row may have no stamps.
pub(crate) const UNSTAMPED_MOST: u32 = 1000;

/// A failure to have packets stamped.
pub(crate) fn absent(error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "this kernel does not stamp packets as asked: {error} (SO_TIMESTAMPING; net.rtt needs none)"
    ))
}

/// The stages of the first message that is stamped all over.
///
/// # Errors
/// Those of `ask`; that none of the first messages is.
pub(crate) fn first_stamped<T>(
    ask: &mut impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    for _ in 0..UNSTAMPED_FIRST {
        if let Some(stages) = ask()? {
            return Ok(stages);
        }
    }
    Err(Failure::error(
        "no message has an answer and all of its stamps: does a firewall drop it, or has \
         the link no such stamps?",
    ))
}

fn took_ns(stages: &timestamping::Stages) -> f64 {
    (stages.answered - stages.asked) as f64
}

fn record(stages: &timestamping::Stages, meter: &mut Meter<'_>) {
    let timestamping::Stages {
        asked,
        scheduled,
        handed_over,
        received,
        answered,
    } = *stages;
    // They are ascending.
    for (metric, from, to) in [
        ("latency", asked, answered),
        ("send_to_queue", asked, scheduled),
        ("queue_to_driver", scheduled, handed_over),
        ("driver_to_stack", handed_over, received),
        ("stack_to_receive", received, answered),
    ] {
        meter.latency(metric, (to - from) as f64);
    }
}

fn predict(point: &At<Stages>, known: &Known<'_>) -> Option<Prediction> {
    let exchange = Exchange::from(&point.axes);
    let round_trip = if let Some(ns) = known.at_over(&point.link, &Rtt::from(exchange)) {
        Cost::new(ns, "for the round trip without stamps (net.rtt)") * (0.9, 1.3)
    } else {
        let waits = if exchange.wait == Wait::Block {
            2.0
        } else {
            0.0
        };
        rtt::round_trip(&point.link, exchange, TCP_HEADERS, waits, known)?
    };
    // Two clones of the packet are stamped and queued, and one more call fetches each.
    let stamps = syscall::measured(known, syscall::Call::Read)? * (2.0, 80.0);
    (round_trip + stamps.named("the stamps")).predict("latency")
}

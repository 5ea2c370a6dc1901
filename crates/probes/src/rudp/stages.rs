//! `rudp.stages`: what making datagrams reliable takes at either end, by the kernel's own stamps.

use crate::ends::Cpus;
use crate::net::axes::{Over, Wait};
use crate::net::caller::Caller;
use crate::net::echo::serve;
use crate::net::lost::share_lost;
use crate::net::meeting::{self, broken};
use crate::net::path::{self, End, UDP_HEADERS};
use crate::net::rtt;
use crate::net::stages::{SWITCHED_ON, UNSTAMPED_MOST, absent, first_stamped};
use crate::os::{context_switch, syscall};
use crate::prelude::*;
use crate::rudp::ends;
use crate::rudp::expect::library;
use crate::rudp::rtt::{Messages, Stack, with_the_servers};
use crate::rudp::stamped::{Answered, Asked, Ends, LIBRARY_MOST, fits_one};
use crate::wake::{self, Kept, Wake};
use costof_exchange::conversation::Conversation;
use costof_exchange::rendezvous::Listener;
use costof_model::protocol::Meeting;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use costof_os::net::timestamps::SwitchedOn;
use rudp::{Config, Control};
use std::io;
use std::time::Duration;

pub(crate) static PROBE: Probe = Probe::new::<Stages>();

point! {
    /// What does making a datagram reliable take at either end?
    ///
    /// As rudp.rtt, one message at a time, on sockets whose datagrams the kernel stamps
    /// (SO_TIMESTAMPING, in software: SND and RX), where the study captured them with a sniffer.
    /// Either end subtracts stamps of its own host alone, since the clocks of two hosts are never
    /// subtracted. stack=udp is what the kernel and the waiting take, so that the difference to it
    /// is what the library takes. All stacks send each message as one datagram, which IP cuts where
    /// the link's packets are shorter; then the kernel stamps one of them. The library's state
    /// machine is driven here by a loop like that of its own driver, one datagram at a time.
    /// Stamping costs some microseconds itself, most of them between the stages; the stamps of what
    /// left are fetched after the answer.
    ///
    /// # Predicted from
    /// half of the two sends, receives and context switches of a UDP round trip, from system calls
    /// and context switches as this run has measured them; and half of what the library adds to a
    /// round trip
    ///
    /// # Sources
    /// - CS 739 mini-project 1, part 2: server and client 9.9 and 8.4 µs for 1400 B on one machine,
    ///   17.2 and 24.6 µs for the largest datagram; over a LAN 95.7 and 28.8, 83.7 and 180.9 µs
    /// - Linux Documentation/networking/timestamping.rst
    ///
    /// # Needs
    /// - software timestamps of the kernel (SO_TIMESTAMPING)
    /// - cpus=cross: two processors (--cpu)
    pub(crate) struct Stages of "rudp.stages" {
        stack: Stack = Stack::axis(),
        /// bytes of the message, which is one datagram; 65,400 and its headers are the largest
        size: usize = bytes(1..=DATAGRAM_MOST_BYTES as u64, &[1400, 56, LIBRARY_MOST as u64]),
        /// how an end waits for a message
        wait: Wait = words(),
        cpus: Cpus = Cpus::cross_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl From<&Stages> for Messages {
    fn from(point: &Stages) -> Messages {
        Messages {
            carrier: point.stack.into(),
            size: point.size,
            wait: point.wait,
            cpus: point.cpus,
            wake: point.wake,
        }
    }
}

impl Measure for Stages {
    const METRICS: &'static [Metric] = metrics! {
        /// at the end that asks, its two stages together: the round trip less what lies between the
        /// datagram's leaving and its answer's coming; the study's T4 - T1 - (T3 - T2)
        client: Nanoseconds Lower,
        /// from before the process sends the message until the driver is given its datagram; T2 -
        /// T1
        client_send: Nanoseconds Lower,
        /// from when the stack received the answer's datagram until the process has the answer; T4
        /// - T3
        client_receive: Nanoseconds Lower,
        /// at the end that answers, from when the stack received the datagram until the driver is
        /// given its answer's; S2 - S1
        server: Nanoseconds Lower,
        /// of that, until the process has the message and begins to answer
        server_receive: Nanoseconds Lower,
        /// of that, from there on
        server_send: Nanoseconds Lower,
        /// the round trip, with the stamps: from before the message is sent until the whole answer
        /// is there, or with stack=study its acknowledgement
        latency: Nanoseconds Lower,
        /// the share of messages of which an answer or a stamp was missing at the end that asks;
        /// they count for nothing else there
        missing: One Lower,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "os.context_switch"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["stack", "size"], &["stack", "wait"]];
    // The stacks are held against each other.
    const ROUNDS: u32 = 2;
    const ROLE_NAMES: &'static [&'static str] = &["server", "client"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Stages>(Server::start(launch)?),
        |launch| role::<Stages>(Client::start(launch)?),
    ];

    fn least_ns(point: &At<Stages>) -> f64 {
        path::least_ns(&point.link, point.size as u64, UDP_HEADERS)
    }

    fn processors(point: &At<Stages>) -> usize {
        point.cpus.count()
    }

    fn headlines(_: &Facts) -> Vec<Headline> {
        vec![Headline::new(
            "reliable datagram: send and receive at one end",
            Stages::default(),
        )]
    }

    fn predict(point: &At<Stages>, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict(point, known)
    }

    fn derive(_: &At<Stages>, reports: Vec<Report>) -> Report {
        with_the_servers(reports)
    }
}

/// After how long without an answer a plain datagram is taken for lost, at least.
const LOST: Duration = Duration::from_secs(1);

/// What an end of the point is to be.
fn ends_of<'a>(point: &At<Stages>, meeting: &'a Meeting) -> Ends<'a> {
    let bytes = point.size as u64;
    Ends {
        stack: point.stack,
        wait: point.wait.into(),
        size: point.size,
        meeting,
        config: Config {
            // As the others, which IP cuts.
            datagram_bytes: DATAGRAM_MOST_BYTES,
            ..ends::config(&point.link, Control::default(), point.size)
        },
        lost_after: LOST.max(3 * path::may_take(&point.link, bytes, UDP_HEADERS)),
    }
}

/// The end that answers.
struct Server {
    end: End,
    kept: Option<Kept>,
    listener: Option<Listener>,
    /// During the launch, from before any processor is kept awake.
    stamps: io::Result<SwitchedOn>,
}

impl Server {
    fn start(launch: &Launch) -> Result<Server, Failure> {
        Ok(Server {
            stamps: SwitchedOn::within(SWITCHED_ON),
            end: End::of(launch, false)?,
            kept: None,
            listener: None,
        })
    }
}

impl RoleAt<Stages> for Server {
    fn blocks(&self, point: &At<Stages>) -> bool {
        point.wait == Wait::Block
    }

    fn prepare(&mut self, point: &At<Stages>, _: &Offers) -> Result<Offers, Failure> {
        Messages::from(&point.axes).fits()?;
        fits_one(point.stack, point.size)?;
        self.stamps.as_ref().map_err(absent)?;
        let (meeting, link) = (&self.end.meeting, &point.link);
        let waits = point.wait == Wait::Block;
        let kept = self.end.settle(link, point.cpus, point.wake, waits)?;
        self.kept = Some(kept);
        let (listener, offers) = meeting::listen(link, meeting, Over::Udp.into(), 1)?;
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &At<Stages>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let _kept = self.kept.take();
        let listener = self.listener.take().expect("it is prepared");
        let accepted = Conversation::accept(&listener, point.wait.into(), meter.stop());
        let Some(conversation) = meeting::met(accepted)? else {
            return Ok(());
        };
        let ends = ends_of(point, &self.end.meeting);
        let mut answers = ends.answers(conversation).map_err(|error| absent(&error))?;
        serve(meter, |meter| {
            if let Some(Answered { came, had, left }) = answers.answer()? {
                for (metric, from, to) in [
                    ("server", came, left),
                    ("server_receive", came, had),
                    ("server_send", had, left),
                ] {
                    meter.latency(metric, (to - from) as f64);
                }
            }
            Ok(())
        })
    }
}

/// The end that asks.
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

/// How many messages must fit into a point's time, so that some are for warming up.
const MESSAGES_PER_POINT: f64 = 20.0;
/// Messages before those that count.
const WARM_UP: u32 = 20;
/// Bytes of a message's number, where it has as many.
const NUMBER: usize = 8;

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
        let (_kept, mut asks) = self.caller.call_by(|meeting, offers| {
            let conversation = meeting::call(meeting, offers, Over::Udp.into(), point.wait.into())?;
            let asks = ends_of(point, meeting).asks(conversation);
            asks.map_err(|error| broken(&error))
        })?;
        let mut message = Messages::from(&point.axes).exchange().message();
        let (mut number, length) = (0_u64, message.len().min(NUMBER));
        let mut ask = || {
            number += 1;
            message[..length].copy_from_slice(&number.to_le_bytes()[..length]);
            asks.ask(&message).map_err(|error| broken(&error))
        };
        let first = first_stamped(&mut ask)?;
        let first_ns = took_ns(&first);
        let mut each_ns = first_ns;
        if first_ns * MESSAGES_PER_POINT < meter.time_ns() {
            for _ in 0..WARM_UP {
                let asked = ask()?;
                each_ns = asked.map_or(each_ns, |asked| each_ns.min(took_ns(&asked)));
            }
        }
        let mut unstamped = 0;
        let mut slow = meter.lasting(path::lasts_ns(first_ns));
        let missing = share_lost(&mut slow, each_ns, |meter| {
            let asked = ask()?;
            match &asked {
                Some(asked) => {
                    record(asked, meter);
                    unstamped = 0;
                }
                None => unstamped += 1,
            }
            match unstamped {
                UNSTAMPED_MOST => Err(Failure::error("the kernel has ceased to stamp packets")),
                _ => Ok(asked.is_none()),
            }
        })?;
        meter.value("missing", missing);
        Ok(())
    }
}

fn took_ns(asked: &Asked) -> f64 {
    (asked.answered - asked.sent) as f64
}

fn record(asked: &Asked, meter: &mut Meter<'_>) {
    // They are ascending.
    let send = asked.left - asked.sent;
    let receive = asked.answered - asked.came;
    meter.latency("client", (send + receive) as f64);
    meter.latency("client_send", send as f64);
    meter.latency("client_receive", receive as f64);
    meter.latency("latency", took_ns(asked));
}

fn predict(point: &At<Stages>, known: &Known<'_>) -> Option<Prediction> {
    let read = syscall::measured(known, syscall::Call::Read)?;
    let kernel = rtt::kernel(Over::Udp, point.size, read.clone());
    let mut cost = kernel * (1.0 / 3.0, 0.5) + (read * (0.0, 16.0)).named("the stamps");
    if point.wait == Wait::Block {
        cost += context_switch::measured(point.cpus, point.wake, known)? * (0.4, 1.25);
    }
    if point.stack == Stack::Rudp {
        cost += library(&point.link, point.size, known)? * 0.5;
    }
    cost.predict("client")
}

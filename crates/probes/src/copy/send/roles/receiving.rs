//! The end that takes messages in.

use super::{failed, is_first, messages, singles};
use crate::copy::send::axes::{CopySend, Over, Pattern};
use crate::copy::send::check;
use crate::net::both_ends::{ARRIVED, DROPPED};
use crate::net::congestion_control::refused;
use crate::net::flows::{Processors, each};
use crate::net::meeting::{self, broken};
use crate::net::soft_interrupts::{COUNTED, SoftInterrupts, listed};
use crate::net::windows;
use crate::prelude::*;
use costof_exchange::delivery::{self, Receiver};
use costof_exchange::rendezvous::Listener;
use costof_model::protocol::Meeting;
use costof_os::memory::fields::Messages;
use fastrand::Rng;
use std::io::{self, ErrorKind};
use std::thread::sleep;
use std::time::Duration;

/// How many bursts are kept at most, of those that it asks for.
const BURSTS_MOST: usize = 1 << 20;

/// Takes in what comes, and says how much that was.
pub(in crate::copy::send) struct Receiving {
    meeting: Meeting,
    cpus: Processors,
    random: Rng,
    listener: Option<Listener>,
    answers: Vec<Option<Messages>>,
    /// None where people send by hand.
    singles: bool,
    /// Which points have had their single messages.
    seen: Vec<At<CopySend>>,
    /// What has arrived at the last point, in bytes, even where that failed.
    pub(in crate::copy::send) arrived_bytes: u64,
}

impl Receiving {
    pub(in crate::copy::send) fn start(launch: &Launch) -> Result<Receiving, Failure> {
        let meeting = meeting::place(launch)?;
        Ok(Receiving {
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            random: Rng::with_seed(launch.seed),
            listener: None,
            answers: Vec::new(),
            singles: true,
            seen: Vec::new(),
            arrived_bytes: 0,
        })
    }

    /// The receiving end where people send by hand: all that comes is what they asked for.
    pub(in crate::copy::send) fn by_hand(launch: &Launch) -> Result<Receiving, Failure> {
        Ok(Receiving {
            singles: false,
            ..Receiving::start(launch)?
        })
    }
}

impl RoleAt<CopySend> for Receiving {
    fn blocks(&self, _: &At<CopySend>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<CopySend>, _: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        self.listener = None;
        if self.meeting.sink.is_some() {
            return Ok(Offers::new());
        }
        self.answers = match point.pattern {
            Pattern::Echo => messages(point, &mut self.random)?
                .into_iter()
                .map(Some)
                .collect(),
            Pattern::Stream | Pattern::Trigger => (0..point.threads).map(|_| None).collect(),
        };
        let (listener, mut offers) =
            meeting::listen(&point.link, &self.meeting, point.over.into(), point.threads)?;
        if let Some(control) = point.congestion_control.name()
            && point.pattern == Pattern::Echo
        {
            let chosen = listener.set_congestion_control(control);
            chosen.map_err(|error| {
                refused(point.congestion_control.name(), &error).unwrap_or_else(|| broken(&error))
            })?;
        }
        self.listener = Some(listener);
        offers.insert(COUNTED.into(), listed(&self.cpus.used(point.threads)));
        Ok(offers)
    }

    fn run(&mut self, point: &At<CopySend>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let Some(listener) = self.listener.take() else {
            // In a sink nothing arrives.
            meter.until_stopped(|| sleep(Duration::from_millis(1)));
            return Ok(());
        };
        let stop = meter.stop();
        let accept = match point.over {
            Over::UdpGso => delivery::accept_segmented,
            Over::Tcp | Over::Udp | Over::Unix => delivery::accept,
        };
        let accepted = accept(&listener, point.shape(), stop);
        let accepted = accepted.map_or_else(
            |error| match error.kind() {
                ErrorKind::Unsupported => Err(Failure::unsupported(error.to_string())),
                _ => meeting::unless_stopped(Err(error)),
            },
            |flows| Ok(Some(flows)),
        );
        let Some(mut flows) = accepted? else {
            return Ok(());
        };
        if self.singles && point.pattern == Pattern::Stream && is_first(&mut self.seen, point) {
            flows[0].mark_after(singles::most(point));
        }
        let way = point.way()?;
        let used = self.cpus.used(flows.len());
        let interrupts = SoftInterrupts::watch(used.into_iter().collect());
        let mut flows: Vec<_> = flows.into_iter().zip(self.answers.drain(..)).collect();
        let received = each(&mut flows, &self.cpus, |(flow, answers)| {
            let mut bursts = Vec::new();
            match (answers.take(), point.pattern) {
                (Some(answers), _) => flow.answer(way, answers, stop)?,
                (None, Pattern::Trigger) => {
                    bursts.reserve_exact(BURSTS_MOST);
                    flow.ask(point.in_flight, stop, &mut |asked_ns, took_ns| {
                        if bursts.len() < bursts.capacity() {
                            bursts.push((asked_ns as f64, took_ns as f64));
                        }
                    })?;
                }
                (None, Pattern::Stream | Pattern::Echo) => flow.receive(stop)?,
            }
            Ok(bursts)
        });
        let flows: Vec<Receiver> = flows.into_iter().map(|(flow, _)| flow).collect();
        self.arrived_bytes = flows.iter().map(Receiver::bytes).sum();
        let bursts = received.map_err(|error| failed(point, &error))?;
        if !flows.iter().all(Receiver::last_piece_is_right) {
            return Err(Failure::error("other bytes arrived than were sent"));
        }
        let marks: Vec<_> = flows.iter().map(Receiver::marks).collect();
        match windows::settled(&marks) {
            Some(settled) => {
                meter.value("throughput", windows::throughput(&marks, settled));
                for (asked_ns, took_ns) in bursts.into_iter().flatten() {
                    if asked_ns >= settled.0 {
                        meter.latency("latency", took_ns);
                    }
                }
                for (kib, ns) in windows::windows(&marks, settled) {
                    meter.batch_done("cost", kib, ns);
                }
                let used = windows::used(&marks, settled);
                meter.value("cpu_receiver", used.cpu_ns_per_kib);
                meter.value("receiver_running", used.running);
            }
            None if self.singles => {
                return Err(Failure::error("too little arrived to say how fast"));
            }
            // Of a few messages that people send, the sender knows how long they took.
            None => {}
        }
        interrupts.report(flows.iter().map(Receiver::bytes).sum(), meter);
        if point.over.is_udp() {
            let arrived: u64 = flows.iter().map(Receiver::datagrams).sum();
            meter.value(ARRIVED, arrived as f64);
            // Of several that come at once, the socket counts one.
            if point.over != Over::UdpGso {
                let dropped = flows.iter().map(Receiver::dropped).sum::<io::Result<u64>>();
                let dropped = dropped.map_err(|error| failed(point, &error))?;
                meter.value(DROPPED, dropped as f64);
            }
        }
        meter.allocated(flows.iter().map(Receiver::allocations).sum());
        Ok(())
    }
}

//! The end that receives messages.

use super::{failed, is_first, messages, singles};
use crate::copy::send::axes::{CopySend, Pattern, check};
use crate::prelude::*;
use crate::two_ends::reports::{ARRIVED, DROPPED};
use crate::two_ends::soft_interrupts::{COUNTED, listed};
use crate::two_ends::{Over, Processors, SoftInterrupts, broken, each, refused, rendezvous};
use costof_exchange::pattern::flow::{self, Content, Receiver};
use costof_exchange::progress::windows;
use costof_exchange::rendezvous::Listener;
use costof_exchange::stream::Datagrams;
use costof_model::protocol::BY_HAND;
use costof_os::memory::fields::Messages;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;

/// The most bursts recorded.
const BURSTS_MAX: usize = 1 << 20;

/// When a burst was requested, and how long it took, both in nanoseconds.
type Burst = (f64, f64);

pub(crate) struct Receiving {
    rendezvous: Rendezvous,
    cpus: Processors,
    random: Rng,
    listener: Option<Listener>,
    answers: Vec<Option<Messages>>,
    /// Whether a user sends by hand, so that few or no messages are normal.
    is_by_hand: bool,
    /// The points whose single messages were sent.
    seen: Vec<At<CopySend>>,
}

impl Receiving {
    pub(crate) fn start(launch: &Launch) -> Result<Receiving> {
        let rendezvous = rendezvous::from_launch(launch)?;
        Ok(Receiving {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            random: Rng::with_seed(launch.seed),
            listener: None,
            answers: Vec::new(),
            is_by_hand: launch.by_hand.is_some(),
            seen: Vec::new(),
        })
    }

    /// The sender's flows; none if the sender has failed, which then reports why.
    fn accept(
        listener: &Listener,
        point: &At<CopySend>,
        stop: &AtomicBool,
    ) -> Result<Option<Vec<Receiver>>> {
        match flow::accept(listener, point.socket(), Content::Fields(point.shape()), stop) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                unsupported!("{error}")
            }
            accepted => rendezvous::unless_stopped(accepted),
        }
    }

    /// Receives through these flows until `stop` is set. Returns the bursts that were requested.
    fn receive(
        &mut self,
        point: &At<CopySend>,
        flows: &mut [Receiver],
        stop: &AtomicBool,
    ) -> Result<Vec<Burst>> {
        let primitive = point.full_primitive()?;
        let mut flows: Vec<_> = flows.iter_mut().zip(self.answers.drain(..)).collect();
        let bursts = each(&mut flows, &self.cpus, |(flow, answers)| {
            let mut bursts = Vec::new();
            match (answers.take(), point.pattern) {
                (Some(answers), _) => flow.answer(primitive, answers, stop)?,
                (None, Pattern::Trigger) => {
                    bursts.reserve_exact(BURSTS_MAX);
                    flow.ask(point.in_flight, stop, &mut |asked_ns, took_ns| {
                        if bursts.len() < bursts.capacity() {
                            bursts.push((asked_ns as f64, took_ns as f64));
                        }
                    })?;
                }
                (None, Pattern::Stream | Pattern::Echo) => flow.receive(stop)?,
            }
            Ok(bursts)
        })
        .map_err(|error| failed(point, &error))?;
        Ok(bursts.into_iter().flatten().collect())
    }

    /// Reports the rate of messages. Of a few that a user sends, only the sender knows it.
    fn report_rate(&self, flows: &[Receiver], bursts: Vec<Burst>, meter: &mut Meter<'_>) -> Result {
        let checkpoints: Vec<_> = flows.iter().map(|flow| flow.progress.checkpoints()).collect();
        let Some(settled) = windows::settled(&checkpoints) else {
            if self.is_by_hand {
                return Ok(());
            }
            fail!("too little arrived to measure a rate");
        };
        meter.value("throughput", windows::throughput(&checkpoints, settled));
        for (asked_ns, took_ns) in bursts {
            if asked_ns >= settled.0 {
                meter.latency("latency", took_ns);
            }
        }
        for (kib, ns) in windows::windows(&checkpoints, settled) {
            meter.batch_done("cost", kib, ns);
        }
        let used = windows::used(&checkpoints, settled);
        meter.value("cpu_receiver", used.cpu_ns_per_kib);
        meter.value("receiver_running", used.running);
        Ok(())
    }

    /// Reports how many datagrams arrived, and how many the receiver's queue dropped.
    fn report_datagrams(point: &At<CopySend>, flows: &[Receiver], meter: &mut Meter<'_>) -> Result {
        let datagrams = flows.iter().map(Receiver::datagrams).collect::<io::Result<Vec<_>>>();
        let datagrams = datagrams.map_err(|error| failed(point, &error))?;
        let sum =
            |of: fn(&Datagrams) -> u64| datagrams.iter().flatten().map(of).sum::<u64>() as f64;
        meter.value(ARRIVED, sum(|datagrams| datagrams.arrived));
        // The socket counts several that arrive at once as one.
        if point.over != Over::UdpGso {
            meter.value(DROPPED, sum(|datagrams| datagrams.dropped));
        }
        Ok(())
    }
}

impl RoleAt<CopySend> for Receiving {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<CopySend>, _: &Offers) -> Result<Offers> {
        check(point)?;
        self.listener = None;
        if self.rendezvous.sink.is_some() {
            return Ok(Offers::new());
        }
        self.answers = match point.pattern {
            Pattern::Echo => messages(point, &mut self.random)?.into_iter().map(Some).collect(),
            Pattern::Stream | Pattern::Trigger => (0..point.threads).map(|_| None).collect(),
        };
        let (listener, mut offers) =
            rendezvous::listen(&point.link, &self.rendezvous, point.socket(), point.threads)?;
        if let Some(control) = point.congestion_control.name()
            && point.pattern == Pattern::Echo
        {
            let chosen = listener.set_congestion_control(control);
            chosen.map_err(|error| {
                refused(point.congestion_control.name(), &error).unwrap_or_else(|| broken(error))
            })?;
        }
        self.listener = Some(listener);
        offers.insert(COUNTED.into(), listed(&self.cpus.used(point.threads)));
        Ok(offers)
    }

    fn run(&mut self, point: &At<CopySend>, meter: &mut Meter<'_>) -> Result {
        let Some(listener) = self.listener.take() else {
            // In a sink nothing arrives.
            meter.until_stopped(|| sleep(Duration::from_millis(1)));
            return Ok(());
        };
        let stop = meter.stop();
        let Some(mut flows) = Receiving::accept(&listener, point, stop)? else {
            return Ok(());
        };
        if !self.is_by_hand && point.pattern == Pattern::Stream && is_first(&mut self.seen, point) {
            flows[0].mark_after(singles::count(point));
        }
        let used = self.cpus.used(flows.len());
        let interrupts = SoftInterrupts::watch(used.into_iter().collect());
        let bursts = self.receive(point, &mut flows, stop);
        let arrived_bytes = flows.iter().map(|flow| flow.progress.bytes).sum();
        if self.is_by_hand {
            meter.value(BY_HAND, arrived_bytes as f64);
        }
        let bursts = bursts?;
        let are_right = flows.iter().all(Receiver::last_piece_is_right);
        ensure!(are_right, "the received bytes differ from those sent");
        self.report_rate(&flows, bursts, meter)?;
        interrupts.report(arrived_bytes, meter);
        if point.socket().is_datagrams() {
            Receiving::report_datagrams(point, &flows, meter)?;
        }
        meter.allocated(flows.iter().map(|flow| flow.progress.allocations).sum());
        Ok(())
    }
}

//! The end that sends.

use super::duration::duration;
use super::singles::{self, Victims};
use super::{Layout, failed, is_first, messages};
use crate::copy::send::axes::{Allocate, CopySend, Nagle, Pattern, check};
use crate::copy::send::{LEFT, LEFT_COST};
use crate::prelude::*;
use crate::two_ends::reports::SENT;
use crate::two_ends::soft_interrupts::left_to_count;
use crate::two_ends::{Over, Processors, SoftInterrupts, cannot_reach, each, refused, rendezvous};
use costof_exchange::pattern::flow::{self, Counts, Sender};
use costof_exchange::progress::Ending;
use costof_exchange::progress::windows::{self, KIB};
use costof_exchange::rendezvous::Address;
use costof_model::protocol::{BY_HAND, ByHand, ClockSource};
use costof_os::memory::fields::Messages;
use costof_os::net::sink::Acknowledger;
use costof_os::perf::Event;

pub(crate) struct Sending {
    rendezvous: Rendezvous,
    cpus: Processors,
    all_cpus: Vec<usize>,
    partners: Vec<usize>,
    /// The frequency of the counter by which cycles are counted, if it is the CPU's own.
    reference_hz: Option<f64>,
    random: Rng,
    offers: Offers,
    /// The layout and its messages: points with the same layout send them again.
    messages: Option<(Layout, Vec<Messages>)>,
    /// The points whose single messages were sent.
    seen: Vec<At<CopySend>>,
    /// An array per cache level, and its metric.
    victims: Victims,
    /// What a user sends by hand.
    by_hand: Option<ByHand>,
}

impl Sending {
    pub(crate) fn start(launch: &Launch) -> Result<Sending> {
        // By hand, only what the user asked for is sent.
        let victims = match launch.by_hand {
            Some(_) => Victims::new(),
            None => singles::victims(launch.cpus.first().copied().unwrap_or(0)),
        };
        let rendezvous = rendezvous::from_launch(launch)?;
        let is_cycles = launch.clock.source == ClockSource::Counter && cfg!(target_arch = "x86_64");
        Ok(Sending {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            all_cpus: launch.cpus.clone(),
            partners: launch.partners.clone(),
            reference_hz: is_cycles.then_some(launch.clock.hz),
            random: Rng::with_seed(launch.seed),
            offers: Offers::new(),
            messages: None,
            seen: Vec::new(),
            victims,
            by_hand: launch.by_hand,
        })
    }

    /// The thread that acknowledges TCP packets sent into a sink, preferably on a CPU that no
    /// sender uses; none where nothing is to be acknowledged.
    fn acknowledger(&self, point: &At<CopySend>) -> Result<Option<Acknowledger>> {
        if self.rendezvous.sink.is_none() || point.over != Over::Tcp {
            return Ok(None);
        }
        let used = self.cpus.used(point.threads);
        let all = self.all_cpus.iter().chain(&self.partners).copied();
        let free: Vec<usize> = all.filter(|cpu| !used.contains(cpu)).collect();
        let started = Acknowledger::start(&free).or_unsupported_hint(
            "this sink cannot acknowledge TCP",
            "it needs a network namespace with veth; --set over=udp",
        );
        started.map(Some)
    }

    fn connect(
        &self,
        point: &At<CopySend>,
        acknowledger: Option<&Acknowledger>,
        messages: Vec<Messages>,
    ) -> Result<Vec<Sender>> {
        let (transport, control) = (point.socket(), point.congestion_control.name());
        let primitive = point.full_primitive()?;
        let flows = if let Some(sink) = self.rendezvous.sink {
            let addresses = (self.rendezvous.address, sink);
            flow::into_sink(transport, addresses, acknowledger, control, primitive, messages)
        } else {
            let address: Address = rendezvous::offered(&self.offers)?;
            let token = self.rendezvous.token.as_bytes();
            flow::call(transport, &address, control, token, primitive, messages)
        };
        flows.map_err(|error| {
            refused(control, &error).unwrap_or_else(|| match error.kind() {
                ErrorKind::Unsupported => Failure::unsupported(error.to_string()),
                _ => cannot_reach(&self.rendezvous.address, &error),
            })
        })
    }

    /// Lets TCP hold back the end of a message for the next one where the point wants that. Single
    /// messages are not held back: nothing follows them.
    fn join_small(point: &At<CopySend>, flows: &mut [Sender]) -> Result {
        if point.nagle == Nagle::On {
            let joined = flows.iter_mut().try_for_each(Sender::join_small);
            joined.map_err(|error| failed(point, &error))?;
        }
        Ok(())
    }

    /// Sends through these flows, and reports the cost.
    fn send(&self, point: &At<CopySend>, flows: &mut [Sender], meter: &mut Meter<'_>) -> Result {
        let round_trip = flows.iter().map(Sender::round_trip).max();
        let duration = match self.by_hand {
            Some(_) => Duration::from_nanos(meter.time_ns() as u64),
            None => duration(point, meter.time_ns(), round_trip.unwrap_or_default()),
        };
        if let Some(messages) = self.messages_by_hand() {
            for flow in &mut *flows {
                flow.end_by(Ending { messages, stop: meter.stop() });
            }
        }
        let used = self.cpus.used(flows.len());
        let interrupts = if self.rendezvous.sink.is_some() {
            Some(used.into_iter().collect())
        } else {
            left_to_count(used, &self.offers, self.rendezvous.apart)
        };
        let interrupts = interrupts.map(SoftInterrupts::watch);
        let latencies = each(flows, &self.cpus, |flow| self.send_through(flow, point, duration));
        for ns in latencies.map_err(|error| failed(point, &error))?.into_iter().flatten() {
            meter.latency("latency", ns as f64);
        }
        self.report_rate(flows, meter)?;
        if let Some(interrupts) = interrupts {
            let bytes = flows.iter().map(|flow| windows::bytes(flow.progress.checkpoints()));
            interrupts.report(bytes.sum(), meter);
        }
        Self::report_calls(flows, meter);
        meter.allocated(match point.allocate {
            // Allocation is part of what is measured.
            Allocate::PerMessage => 0,
            Allocate::Once => flows.iter().map(|flow| flow.progress.allocations).sum(),
        });
        Ok(())
    }

    /// How many messages of each connection a user sends at most, by hand.
    fn messages_by_hand(&self) -> Option<u64> {
        self.by_hand.map(|by_hand| by_hand.messages.unwrap_or(u64::MAX))
    }

    /// Sends through one flow. Returns how long each message of an echo took, in nanoseconds.
    fn send_through(
        &self,
        flow: &mut Sender,
        point: &At<CopySend>,
        duration: Duration,
    ) -> io::Result<Vec<u64>> {
        let mut latencies = Vec::new();
        match point.pattern {
            Pattern::Echo => {
                // Enough capacity for the whole round, so that nothing is allocated while it is
                // timed.
                let most = self.messages_by_hand().unwrap_or(u64::MAX);
                let most = (duration.as_micros() * 2).min(most.into()).min(4 << 20);
                latencies.reserve_exact(most as usize);
                flow.echo(duration, point.in_flight as usize, &mut |ns| {
                    if latencies.len() < latencies.capacity() {
                        latencies.push(ns);
                    }
                })?;
            }
            Pattern::Trigger => flow.trigger(duration, point.in_flight)?,
            Pattern::Stream => flow.stream(duration)?,
        }
        Ok(latencies)
    }

    /// Reports the CPU time of sending, and the rate where the receiver may not know it.
    fn report_rate(&self, flows: &[Sender], meter: &mut Meter<'_>) -> Result {
        let checkpoints: Vec<_> = flows.iter().map(|flow| flow.progress.checkpoints()).collect();
        let mut settled = windows::settled(&checkpoints);
        if self.by_hand.is_some() {
            settled = settled.or_else(|| windows::whole(&checkpoints));
        }
        let Some(settled) = settled else {
            fail!("too little was sent to measure a rate");
        };
        let used = windows::used(&checkpoints, settled);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
        let bytes: u64 = checkpoints.iter().map(|flow| windows::bytes(flow)).sum();
        let counted = counted(flows, Event::Cycles).filter(|_| bytes > 0);
        let reference = || Some(used.cpu_ns_per_kib / KIB * self.reference_hz? / 1e9);
        let cycles = counted.map(|cycles| cycles as f64 / bytes as f64);
        if let Some(cycles) = cycles.or_else(reference) {
            meter.value("cycles_per_byte", cycles);
            meter.value("cycles_by_pmu", f64::from(u8::from(counted.is_some())));
        }
        if self.rendezvous.sink.is_some() || self.by_hand.is_some() {
            meter.value(LEFT, windows::throughput(&checkpoints, settled));
            for (kib, ns) in windows::windows(&checkpoints, settled) {
                meter.batch_done(LEFT_COST, kib, ns);
            }
        }
        Ok(())
    }

    /// Reports the calls of all flows, before waiting for completions.
    fn report_calls(flows: &[Sender], meter: &mut Meter<'_>) {
        let sum = |count: fn(&Counts) -> u64| flows.iter().map(|flow| count(&flow.sent)).sum();
        let messages = u64::max(sum(|counts| counts.messages), 1) as f64;
        let system_calls: u64 = sum(|counts| counts.system_calls);
        meter.value("system_calls", system_calls as f64 / messages);
        let used = flows.iter().map(|flow| flow.usage.resources);
        let switches = used.map(|used| used.voluntary_switches + used.involuntary_switches);
        meter.value("context_switches", switches.sum::<u64>() as f64 / messages);
        let migrations = flows.iter().map(|flow| flow.usage.migrations);
        if let Some(migrations) = migrations.sum::<Option<u64>>() {
            meter.value("migrations", migrations as f64);
        }
        for (event, metric) in [
            (Event::L1dLoadMisses, "l1d_load_misses"),
            (Event::L2LoadMisses, "l2_load_misses"),
            (Event::LlcLoadMisses, "llc_load_misses"),
            (Event::DtlbLoadMisses, "dtlb_load_misses"),
        ] {
            if let Some(count) = counted(flows, event) {
                meter.value(metric, count as f64 / messages);
            }
        }
    }

    /// Reports copies, retransmissions and losses, once the kernel has finished.
    fn report_fate(point: &At<CopySend>, flows: &[Sender], meter: &mut Meter<'_>) -> Result {
        let sum = |count: fn(&Sender) -> u64| flows.iter().map(count).sum::<u64>() as f64;
        let messages = sum(|flow| flow.counts().messages).max(1.0);
        if point.socket().is_datagrams() {
            let each = point.socket().datagrams_per_message(point.size as usize);
            meter.value(SENT, (messages + sum(|flow| flow.refused)) * each as f64);
            if point.pattern == Pattern::Echo {
                let asked = sum(|flow| flow.unanswered().0).max(1.0);
                meter.value("unanswered", sum(|flow| flow.unanswered().1) / asked);
            }
        }
        let completed = sum(|flow| flow.counts().completed);
        if completed > 0.0 {
            meter.value("asked", completed);
            meter.value("copied", sum(|flow| flow.counts().copied) / completed);
        }
        // Also where no zero-copy send succeeded, so that nothing was completed.
        if point.primitive.asks_for_no_copy() {
            meter.value("fallbacks", sum(|flow| flow.counts().fallbacks) / messages);
        }
        let infos = flows
            .iter()
            .map(Sender::tcp_info)
            .collect::<io::Result<Option<Vec<_>>>>()
            .map_err(|error| failed(point, &error))?
            .unwrap_or_default();
        let sent: u64 = infos.iter().map(|info| info.sent_bytes).sum();
        let retransmitted: u64 = infos.iter().map(|info| info.retransmitted_bytes).sum();
        if sent > 0 {
            meter.value("retransmissions", retransmitted as f64 / sent as f64);
        }
        Ok(())
    }
}

impl RoleAt<CopySend> for Sending {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<CopySend>, offers: &Offers) -> Result<Offers> {
        check(point)?;
        if self.rendezvous.sink.is_some() && point.over == Over::Unix {
            unsupported!("a Unix socket cannot lead to a sink (--link loopback)");
        }
        let layout = Layout::new(point);
        if self.messages.as_ref().is_none_or(|(has, _)| *has != layout) {
            // Frees those of an earlier point first.
            self.messages = None;
            self.messages = Some((layout, messages(point, &mut self.random)?));
        }
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<CopySend>, meter: &mut Meter<'_>) -> Result {
        let (layout, messages) = self.messages.take().expect("a point is prepared");
        let is_first = is_first(&mut self.seen, point);
        let acknowledger = self.acknowledger(point)?;
        let mut flows = self.connect(point, acknowledger.as_ref(), messages)?;
        if self.by_hand.is_none() && point.pattern == Pattern::Stream && is_first {
            singles::measure(point, &mut flows[0], &self.victims, meter)?;
        }
        Self::join_small(point, &mut flows)?;
        let sent = self.send(point, &mut flows, meter);
        if self.by_hand.is_some() {
            let sent: u64 = flows.iter().map(|flow| flow.counts().messages).sum();
            meter.value(BY_HAND, sent as f64);
        }
        sent?;
        each(&mut flows, &self.cpus, <Sender>::end).map_err(|error| failed(point, &error))?;
        Self::report_fate(point, &flows, meter)?;
        if self.rendezvous.sink.is_some() {
            // No receiver checks which message arrives. The next point starts with the messages
            // sent longest ago, so that cold ones are cold.
            let messages = flows.into_iter().map(Sender::into_messages);
            self.messages = Some((layout, messages.collect()));
        }
        Ok(())
    }
}

/// The event's count, all sending threads together; none if one thread was not counted.
fn counted(flows: &[Sender], event: Event) -> Option<u64> {
    flows.iter().map(|flow| flow.usage.count(event)).sum()
}

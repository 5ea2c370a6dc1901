//! The end that sends.

use super::duration::duration;
use super::singles::{self, Victims};
use super::{Laid, failed, is_first, messages};
use crate::copy::send::axes::{Allocate, CopySend, Nagle, Over, Pattern};
use crate::copy::send::{LEFT, LEFT_COST, check};
use crate::net::both_ends::SENT;
use crate::net::congestion_control::refused;
use crate::net::flows::{Processors, each};
use crate::net::meeting::{self, cannot_reach};
use crate::net::soft_interrupts::{SoftInterrupts, left_to_count};
use crate::net::windows::{self, KIB};
use crate::prelude::*;
use costof_exchange::delivery::{self, Counts, Sender};
use costof_exchange::rendezvous::Address;
use costof_model::protocol::{ClockSource, Meeting};
use costof_os::memory::fields::Messages;
use costof_os::net::segments;
use costof_os::net::sink::Acknowledger;
use costof_os::perf::Event;
use fastrand::Rng;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Sends as fast as it can, or as answers come.
pub(in crate::copy::send) struct Sending {
    meeting: Meeting,
    cpus: Processors,
    all_cpus: Vec<usize>,
    partners: Vec<usize>,
    /// Of the counter that cycles are counted by, where it is the processor's own.
    reference_hz: Option<f64>,
    random: Rng,
    offers: Offers,
    /// Laid out, and for messages of which shape: those of earlier points are sent on.
    messages: Option<(Laid, Vec<Messages>)>,
    /// Which points have had their single messages.
    seen: Vec<At<CopySend>>,
    /// An array for each level of caches, and its metric.
    victims: Victims,
    /// Where people send by hand, when that ends.
    ending: Option<Ending>,
    /// Messages that were sent at the last point, even where that failed.
    pub(in crate::copy::send) sent: u64,
}

/// When sending by hand ends: by the first of these.
#[derive(Clone, Debug)]
pub(in crate::copy::send) struct Ending {
    pub(in crate::copy::send) duration: Duration,
    /// Messages of each connection.
    pub(in crate::copy::send) messages: u64,
    pub(in crate::copy::send) stop: Arc<AtomicBool>,
}

impl Sending {
    pub(in crate::copy::send) fn start(launch: &Launch) -> Result<Sending, Failure> {
        let victims = singles::victims(launch.cpus.first().copied().unwrap_or(0));
        Sending::of(launch, victims, None)
    }

    /// The sending end where people send by hand: nothing but what they asked for.
    pub(in crate::copy::send) fn by_hand(
        launch: &Launch,
        ending: Ending,
    ) -> Result<Sending, Failure> {
        Sending::of(launch, Vec::new(), Some(ending))
    }

    fn of(launch: &Launch, victims: Victims, ending: Option<Ending>) -> Result<Sending, Failure> {
        let meeting = meeting::place(launch)?;
        let is_cycles = launch.clock.source == ClockSource::Counter && cfg!(target_arch = "x86_64");
        Ok(Sending {
            cpus: Processors::new(&launch.cpus, &meeting),
            meeting,
            all_cpus: launch.cpus.clone(),
            partners: launch.partners.clone(),
            reference_hz: is_cycles.then_some(launch.clock.hz),
            random: Rng::with_seed(launch.seed),
            offers: Offers::new(),
            messages: None,
            seen: Vec::new(),
            victims,
            ending,
            sent: 0,
        })
    }

    /// The thread that acknowledges what is sent into a sink, on a processor that no sender uses
    /// where there is one.
    fn acknowledger(&self, point: &At<CopySend>) -> Result<Acknowledger, Failure> {
        let used = self.cpus.used(point.threads);
        let all = self.all_cpus.iter().chain(&self.partners).copied();
        let free: Vec<usize> = all.filter(|cpu| !used.contains(cpu)).collect();
        Acknowledger::start(&free).map_err(|error| {
            Failure::unsupported(format!(
                "nothing can acknowledge what is sent into this sink over TCP: {error} (it needs a \
                 network namespace with veth; --set over=udp)"
            ))
        })
    }

    fn reached(&self, point: &At<CopySend>, error: &io::Error) -> Failure {
        refused(point.congestion_control.name(), error).unwrap_or_else(|| match error.kind() {
            ErrorKind::Unsupported => Failure::unsupported(error.to_string()),
            _ => cannot_reach(&self.meeting.address, error),
        })
    }

    /// Has messages go as several datagrams where they are to.
    fn segment(&self, point: &At<CopySend>, flows: &mut [Sender]) -> Result<(), Failure> {
        if point.over == Over::UdpGso {
            let segmented = flows.iter_mut().try_for_each(Sender::segment);
            segmented.map_err(|error| self.reached(point, &error))?;
        }
        Ok(())
    }

    /// Has the end of a message wait for the next one where it is to: not of single messages, behind
    /// which nothing comes.
    fn join(point: &At<CopySend>, flows: &mut [Sender]) -> Result<(), Failure> {
        if point.nagle == Nagle::On {
            let joined = flows.iter_mut().try_for_each(Sender::join_small);
            joined.map_err(|error| failed(point, &error))?;
        }
        Ok(())
    }

    /// Sends through these flows, and adds what that was.
    fn send(
        &self,
        point: &At<CopySend>,
        flows: &mut [Sender],
        meter: &mut Meter<'_>,
    ) -> Result<(), Failure> {
        let round_trip = flows.iter().map(Sender::round_trip).max();
        let duration = match &self.ending {
            Some(ending) => ending.duration,
            None => duration(point, meter.time_ns(), round_trip.unwrap_or_default()),
        };
        if let Some(ending) = &self.ending {
            for flow in &mut *flows {
                flow.end_by(ending.messages, Arc::clone(&ending.stop));
            }
        }
        let in_sink = self.meeting.sink.is_some();
        let used = self.cpus.used(flows.len());
        let interrupts = if in_sink {
            Some(used.into_iter().collect())
        } else {
            left_to_count(used, &self.offers, self.meeting.apart)
        };
        let interrupts = interrupts.map(SoftInterrupts::watch);
        let latencies = each(flows, &self.cpus, |flow| {
            let mut latencies = Vec::new();
            match point.pattern {
                Pattern::Echo => {
                    // Room for as many as there can be, so that none is allocated meanwhile.
                    let most = self.ending.as_ref().map_or(u64::MAX, |end| end.messages);
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
        })
        .map_err(|error| failed(point, &error))?;
        for ns in latencies.into_iter().flatten() {
            meter.latency("latency", ns as f64);
        }
        let marks: Vec<_> = flows.iter().map(Sender::marks).collect();
        let by_hand = || windows::whole(&marks).filter(|_| self.ending.is_some());
        let settled = windows::settled(&marks)
            .or_else(by_hand)
            .ok_or_else(|| Failure::error("too little could be sent to say how fast"))?;
        let used = windows::used(&marks, settled);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
        let bytes: u64 = marks.iter().map(|marks| windows::bytes(marks)).sum();
        let counted = counted(flows, Event::Cycles).filter(|_| bytes > 0);
        let reference = || Some(used.cpu_ns_per_kib / KIB * self.reference_hz? / 1e9);
        let cycles = counted.map(|cycles| cycles as f64 / bytes as f64);
        if let Some(cycles) = cycles.or_else(reference) {
            meter.value("cycles_per_byte", cycles);
            meter.value("cycles_by_pmu", f64::from(u8::from(counted.is_some())));
        }
        if in_sink || self.ending.is_some() {
            meter.value(LEFT, windows::throughput(&marks, settled));
            for (kib, ns) in windows::windows(&marks, settled) {
                meter.batch_done(LEFT_COST, kib, ns);
            }
        }
        if let Some(interrupts) = interrupts {
            interrupts.report(bytes, meter);
        }
        Self::count_calls(flows, meter);
        meter.allocated(match point.allocate {
            // It is what is measured.
            Allocate::PerMessage => 0,
            Allocate::Once => flows.iter().map(Sender::allocations).sum(),
        });
        Ok(())
    }

    /// What sending took all flows together, before anything was waited for.
    fn count_calls(flows: &[Sender], meter: &mut Meter<'_>) {
        let counts: Vec<_> = flows.iter().map(Sender::sent).collect();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        let messages = sum(|counts| counts.messages).max(1.0);
        meter.value("system_calls", sum(|counts| counts.system_calls) / messages);
        let used = flows.iter().map(|flow| flow.counted().usage);
        let switches = used.map(|used| used.voluntary_switches + used.involuntary_switches);
        meter.value("context_switches", switches.sum::<u64>() as f64 / messages);
        let migrations = flows.iter().map(|flow| flow.counted().migrations);
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

    /// What became of it all, once the kernel is done with it.
    fn count(point: &At<CopySend>, flows: &[Sender], meter: &mut Meter<'_>) -> Result<(), Failure> {
        let counts: Vec<_> = flows.iter().map(Sender::counts).collect();
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>() as f64;
        let messages = sum(|counts| counts.messages).max(1.0);
        if point.over.is_udp() {
            let refused: u64 = flows.iter().map(Sender::refused).sum();
            let each = match point.over {
                Over::UdpGso => segments::count(point.size as usize),
                Over::Tcp | Over::Udp | Over::Unix => 1,
            };
            meter.value(SENT, (messages + refused as f64) * each as f64);
        }
        if point.over.is_udp() && point.pattern == Pattern::Echo {
            let asked: u64 = flows.iter().map(|flow| flow.unanswered().0).sum();
            let unanswered: u64 = flows.iter().map(|flow| flow.unanswered().1).sum();
            meter.value("unanswered", unanswered as f64 / asked.max(1) as f64);
        }
        let completed = sum(|counts| counts.completed);
        if completed > 0.0 {
            meter.value("asked", completed);
            meter.value("copied", sum(|counts| counts.copied) / completed);
        }
        // Said of every send that would ask: where there was room for none, nothing is completed.
        if point.primitive.asks_for_no_copy() {
            meter.value("fallbacks", sum(|counts| counts.fallbacks) / messages);
        }
        let infos = flows.iter().map(Sender::tcp_info);
        let infos = infos
            .collect::<io::Result<Option<Vec<_>>>>()
            .map_err(|error| failed(point, &error))?
            .unwrap_or_default();
        let sent: u64 = infos.iter().map(|info| info.sent_bytes).sum();
        let again: u64 = infos.iter().map(|info| info.sent_again_bytes).sum();
        if sent > 0 {
            meter.value("retransmissions", again as f64 / sent as f64);
        }
        Ok(())
    }
}

impl RoleAt<CopySend> for Sending {
    fn blocks(&self, _: &At<CopySend>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<CopySend>, offers: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        if self.meeting.sink.is_some() && point.over == Over::Unix {
            return Err(Failure::unsupported(
                "a Unix socket does not lead to a sink (--link loopback)",
            ));
        }
        let laid = Laid::of(point);
        if self.messages.as_ref().is_none_or(|(has, _)| *has != laid) {
            // What an earlier point has used is given back first.
            self.messages = None;
            self.messages = Some((laid, messages(point, &mut self.random)?));
        }
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<CopySend>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (laid, messages) = self.messages.take().expect("a point is prepared");
        let way = point.way()?;
        let is_first = is_first(&mut self.seen, point);
        let (over, control) = (point.over.into(), point.congestion_control.name());
        if let Some(sink) = self.meeting.sink {
            let acknowledger = match point.over {
                Over::Tcp => Some(self.acknowledger(point)?),
                Over::Udp | Over::UdpGso | Over::Unix => None,
            };
            let ends = (self.meeting.address, sink);
            let acknowledged = acknowledger.as_ref();
            let mut flows = delivery::into_sink(over, ends, acknowledged, control, way, messages)
                .map_err(|error| self.reached(point, &error))?;
            self.segment(point, &mut flows)?;
            if is_first {
                singles::look(point, &mut flows[0], &self.victims, meter)?;
            }
            Self::join(point, &mut flows)?;
            self.send(point, &mut flows, meter)?;
            each(&mut flows, &self.cpus, Sender::end_in_sink)
                .map_err(|error| failed(point, &error))?;
            Self::count(point, &flows, meter)?;
            // Nobody there looks which message it is: the next point goes on with those that were not
            // sent for longest, so that cold ones are.
            let messages = flows.into_iter().map(Sender::into_messages);
            self.messages = Some((laid, messages.collect()));
            return Ok(());
        }
        let address: Address = meeting::offered(&self.offers)?;
        let token = self.meeting.token.as_bytes();
        let mut flows = delivery::call(over, &address, control, token, way, messages)
            .map_err(|error| self.reached(point, &error))?;
        self.segment(point, &mut flows)?;
        if self.ending.is_none() && point.pattern == Pattern::Stream && is_first {
            singles::look(point, &mut flows[0], &self.victims, meter)?;
        }
        Self::join(point, &mut flows)?;
        let sent = self.send(point, &mut flows, meter);
        self.sent = flows.iter().map(|flow| flow.counts().messages).sum();
        sent?;
        each(&mut flows, &self.cpus, Sender::end).map_err(|error| failed(point, &error))?;
        Self::count(point, &flows, meter)
    }
}

/// What the processor counted of all sending threads; none where one of them was not counted.
fn counted(flows: &[Sender], event: Event) -> Option<u64> {
    flows.iter().map(|flow| flow.counted().count(event)).sum()
}

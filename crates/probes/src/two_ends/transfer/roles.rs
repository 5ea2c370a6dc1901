//! The two ends of a transfer of messages, over any transport.

use super::Transfer;
use super::order::{order, stream_duration};
use crate::prelude::*;
use crate::two_ends::reports::{ARRIVED, BYTES, CPU_OF_ALL, DROPPED, SENT};
use crate::two_ends::{Processors, broken, cannot_reach, each, refused, rendezvous};
use costof_exchange::progress::steady;
use costof_exchange::progress::windows;
use costof_exchange::rendezvous::{Address, Listener};
use costof_exchange::stream::{Incoming, MessageSender, Order, Outgoing};
use costof_exchange::transport::{Endpoint, Transport};
use costof_model::protocol::{BY_HAND, ByHand};

/// How long to wait for messages in flight at the end of a user's transfer.
const ARRIVING: Duration = Duration::from_secs(2);

/// The roles of every transfer; the second one leads.
pub(crate) const ROLE_NAMES: &[&str] = &["receiver", "sender"];

/// The metrics that every transfer reports.
const METRICS: &[Metric] = metrics! {
    /// CPU time of the sending thread per KiB, in the time that throughput counts
    cpu_sender: Nanoseconds Lower,
    /// the same for the receiving thread; for RPCs, in the whole time
    cpu_receiver: Nanoseconds Lower,
    /// share of that time for which the sending thread ran: 1 where its CPU is the
    /// bottleneck
    sender_running: One Neither,
    /// share of that time for which the receiving thread ran; absent for RPCs
    receiver_running: One Neither,
    /// what was retransmitted or considered lost, as a share of all that was sent: bytes
    /// for TCP, datagrams for the others
    retransmissions: One Lower,
    /// datagrams that did not arrive, including those in flight at the end, as a share of
    /// those sent
    lost: One Lower,
    /// the lost datagrams for which the receiver's socket had no room, as a share of those
    /// sent; several that arrive at once count as one
    lost_in_queue: One Lower,
    /// their number in a launch
    dropped_in_queue: One Lower,
    /// the path's largest packet, IP header included; rudp and QUIC size their datagrams by
    /// it
    mtu: Bytes Neither,
};

/// The metrics of a probe, `ALL` in number: its own, and those that every transfer reports.
pub(crate) const fn metrics_after<const ALL: usize>(own: &[Metric]) -> [Metric; ALL] {
    assert!(own.len() + METRICS.len() == ALL, "another number of metrics");
    let mut all = [METRICS[0]; ALL];
    let mut at = 0;
    while at < ALL {
        all[at] = if at < own.len() { own[at] } else { METRICS[at - own.len()] };
        at += 1;
    }
    all
}

pub(crate) struct Receiving {
    rendezvous: Rendezvous,
    cpus: Processors,
    listener: Option<(Listener, Box<dyn Transport>)>,
    /// What a user sends by hand: few or no messages are then normal.
    by_hand: Option<ByHand>,
}

impl Receiving {
    pub(crate) fn start(launch: &Launch) -> Result<Receiving> {
        let rendezvous = rendezvous::with_receiver(launch)?;
        Ok(Receiving {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            listener: None,
            by_hand: launch.by_hand,
        })
    }

    /// Reports the rate of messages. Of a few that a user sends, only the sender knows it.
    fn report_rate(&self, incoming: &Incoming, is_timed: bool, meter: &mut Meter<'_>) -> Result {
        let reported = if is_timed {
            let rate = incoming.rate().ok_or_else(too_little);
            rate.map(|rate| meter.value("throughput", rate))
        } else {
            report_rate(incoming, meter)
        };
        if self.by_hand.is_some() {
            return Ok(());
        }
        reported
    }
}

impl<P> RoleAt<P> for Receiving
where
    for<'a> Transfer: From<&'a P>,
{
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<P>, _: &Offers) -> Result<Offers> {
        let transfer = Transfer::from(&point.axes).under(self.by_hand);
        transfer.check()?;
        let mut transport = transfer.open().map_err(broken)?;
        let own = transport.prepare().map_err(broken)?;
        let (listener, mut offers) =
            rendezvous::listen(&point.link, &self.rendezvous, transfer.over.into(), 1)?;
        if transfer.lose > 0.0 {
            listener.lose(transfer.lose).map_err(broken)?;
        }
        offers.extend(own);
        self.listener = Some((listener, transport));
        Ok(offers)
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        let mut point = point.to::<Transfer>();
        point.axes = point.axes.under(self.by_hand);
        let point = &point;
        let (listener, transport) = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        meter.operation_allocates();
        let Some(receiver) = rendezvous::unless_stopped(transport.accept(&listener, stop))? else {
            return Ok(());
        };
        if point.lose > 0.0 {
            receiver.receive_singly().map_err(broken)?;
        }
        let timed = point.timed_window();
        let incoming = match point.has_header() {
            true => Incoming::new(point.size, timed),
            false => Incoming::without_header(point.size, stream_duration(point)),
        };
        let mut ends = [(receiver, incoming)];
        let received =
            each(&mut ends, &self.cpus, |(receiver, incoming)| receiver.receive(incoming, stop));
        let [(receiver, incoming)] = ends;
        if self.by_hand.is_some() {
            meter.value(BY_HAND, incoming.bytes as f64);
        }
        received.map_err(broken)?;
        if point.carrier().sender_counts {
            // The sender knows how much arrived, and when.
            if let Some(cpu_ns) = receiver.cpu_ns() {
                meter.value(CPU_OF_ALL, cpu_ns);
            }
            return Ok(());
        }
        self.report_rate(&incoming, timed.is_some(), meter)?;
        if let Some(datagrams) = receiver.datagrams().map_err(broken)? {
            meter.value(ARRIVED, datagrams.arrived as f64);
            // The kernel also counts datagrams that are dropped on purpose.
            if point.lose == 0.0 {
                meter.value(DROPPED, datagrams.dropped as f64);
            }
        }
        Ok(())
    }
}

fn too_little() -> Failure {
    Failure::error("too little arrived to measure a rate")
}

fn report_rate(incoming: &Incoming, meter: &mut Meter<'_>) -> Result {
    let checkpoints = &[incoming.checkpoints()];
    let steady = steady(incoming.checkpoints(), incoming.duration());
    // If the whole second half is a stall, the whole time counts.
    let stretch = steady.map(|steady| steady.stretch).or_else(|| windows::whole(checkpoints));
    let stretch = stretch.ok_or_else(too_little)?;
    meter.value("throughput", windows::throughput(checkpoints, stretch));
    if let Some(steady) = steady {
        meter.value("start_up", steady.start_up_ns);
    }
    let used = windows::used(checkpoints, stretch);
    meter.value("cpu_receiver", used.cpu_ns_per_kib);
    meter.value("receiver_running", used.running);
    Ok(())
}

pub(crate) struct Sending {
    rendezvous: Rendezvous,
    cpus: Processors,
    offers: Offers,
    /// The last point's sender, if it made RPCs: the called end's threads must exist until their
    /// CPU time was read.
    last: Option<Box<dyn MessageSender>>,
    /// What a user sends by hand.
    by_hand: Option<ByHand>,
}

impl Sending {
    pub(crate) fn start(launch: &Launch) -> Result<Sending> {
        let rendezvous = rendezvous::with_receiver(launch)?;
        Ok(Sending {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            offers: Offers::new(),
            last: None,
            by_hand: launch.by_hand,
        })
    }

    fn order(&self, point: &At<Transfer>, point_ns: f64, round_trip: Duration) -> Order {
        match self.by_hand {
            Some(ByHand { messages, .. }) => Order {
                size: point.size,
                window: point.in_flight(),
                duration: Duration::from_nanos(point_ns as u64),
                grace: ARRIVING,
                messages: Some(messages.unwrap_or(u64::MAX)),
                has_header: true,
            },
            None => order(point, point_ns, round_trip),
        }
    }
}

impl<P> RoleAt<P> for Sending
where
    for<'a> Transfer: From<&'a P>,
{
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<P>, offers: &Offers) -> Result<Offers> {
        // The other end may be a different build.
        Transfer::from(&point.axes).check()?;
        self.offers = offers.clone();
        self.last = None;
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<P>, meter: &mut Meter<'_>) -> Result {
        let mut point = point.to::<Transfer>();
        point.axes = point.axes.under(self.by_hand);
        let point = &point;
        let address: Address = rendezvous::offered(&self.offers)?;
        meter.operation_allocates();
        let receiver = Endpoint {
            address: &address,
            parameters: &self.offers,
            token: self.rendezvous.token.as_bytes(),
        };
        let connected =
            point.open().and_then(|transport| transport.connect(&receiver)).map_err(|error| {
                refused(point.congestion_control.name(), &error)
                    .unwrap_or_else(|| cannot_reach(&address, &error))
            })?;
        let order = self.order(point, meter.time_ns(), connected.round_trip);
        let mut outgoing = Outgoing::new(order);
        if self.by_hand.is_some() {
            outgoing.end_by(meter.stop());
        }
        let mut ends = [(connected.sender, outgoing)];
        let sent = each(&mut ends, &self.cpus, |(sender, outgoing)| {
            outgoing.start();
            sender.send(outgoing)
        });
        let [(sender, outgoing)] = ends;
        if self.by_hand.is_some() {
            meter.value(BY_HAND, outgoing.sent as f64);
        }
        sent.map_err(broken)?;
        meter.value("mtu", f64::from(connected.mtu));
        let statistics = sender.statistics().map_err(broken)?;
        meter.value("retransmissions", statistics.retransmissions);
        if let Some(datagrams) = statistics.datagrams {
            meter.value(SENT, datagrams as f64);
        }
        if point.carrier().sender_counts {
            meter.value(BYTES, outgoing.bytes() as f64);
            let steady = steady(outgoing.checkpoints(), order.duration);
            let steady =
                steady.ok_or_else(|| Failure::error("too little was sent to measure a rate"))?;
            meter.value("throughput", steady.throughput);
            meter.value("start_up", steady.start_up_ns);
            self.last = Some(sender);
        }
        let is_timed = order.messages.is_some() && order.window.is_some();
        if is_timed {
            report_round_trips(&outgoing, meter);
        }
        if !is_timed || self.by_hand.is_some() {
            report_use(&outgoing, meter);
        }
        Ok(())
    }
}

fn report_use(outgoing: &Outgoing, meter: &mut Meter<'_>) {
    let checkpoints = outgoing.checkpoints();
    let steady = steady(checkpoints, outgoing.order.duration);
    let half = steady.map(|steady| steady.stretch);
    // A socket may have taken everything in the first half.
    if let Some(stretch) = half.or_else(|| windows::whole(&[checkpoints])) {
        let used = windows::used(&[checkpoints], stretch);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
    }
}

fn report_round_trips(outgoing: &Outgoing, meter: &mut Meter<'_>) {
    for ns in &outgoing.latencies_ns {
        meter.latency("latency", *ns as f64);
    }
    if let Some(completed_in_ns) = outgoing.completed_in_ns() {
        meter.value("elapsed", completed_in_ns as f64);
    }
    let unanswered = outgoing.waiting_ns().count() as f64;
    let starved = outgoing.starved() as f64;
    let count = (outgoing.arrived as f64 + unanswered).max(1.0);
    meter.value("starved", starved / count);
    meter.value("starved_count", starved);
    meter.value("unanswered", unanswered / count);
    meter.value("asked", outgoing.sent as f64);
}

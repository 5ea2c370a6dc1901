//! `net.bandwidth`: bytes per second that reach the receiver over a link.

mod predict;

use crate::prelude::*;
use crate::two_ends::flows::{self, MIN_DURATION};
use crate::two_ends::reports::{ARRIVED, DROPPED, SENT};
use crate::two_ends::soft_interrupts::{COUNTED, left_to_count, listed};
use crate::two_ends::{
    CongestionControl, Over, Processors, SOCKETS, SoftInterrupts, broken, cannot_reach, each,
    joined, path, refused, rendezvous,
};
use costof_exchange::pattern::flow::{
    self, Block, Content, MESSAGE_MIN_BYTES as BLOCK_MIN_BYTES, Receiver,
};
use costof_exchange::progress::windows;
use costof_exchange::rendezvous::{Address, Listener};
use costof_exchange::stream::Datagrams;
use costof_os::net::socket::TcpInfo;
use predict::predict;

pub(crate) static PROBE: Probe = Probe::new::<Bandwidth>();

point! {
    /// How many bytes per second reach the receiver over a link?
    ///
    /// One end connects and writes blocks of one size from the same buffer. The other reads up to
    /// 128 KiB at once, whatever the size, for 300 ms or more, and over TCP for 40 round trips or
    /// more. The flows of an end use every second CPU of the run, so that the ends share none if
    /// there are enough, or all CPUs in order if each end has a machine of its own. Every quarter
    /// of a millisecond each end records its progress and its threads' CPU time
    /// (CLOCK_THREAD_CPUTIME_ID). The first third is discarded, because windows and buffers still
    /// grow. Payload counts, headers do not; a datagram that arrives twice counts twice. Every
    /// block begins with its number. The receiver compares the number of the first block in each
    /// piece of a stream, the first 64 bytes after the number and the last 8 of each datagram, and
    /// at the end the whole last piece. Buffers have the kernel's default size, which TCP lets
    /// grow. The sender is the client, and the only end on a link that discards.
    ///
    /// # Predicted from
    /// two copies, at the same time or one after the other (memory.bandwidth), and the protocol's
    /// work for each packet in system calls (os.syscall); on links with a rate, that rate less
    /// headers
    ///
    /// # Sources
    /// - iperf3(1), -l 128K; netperf, TCP_STREAM and UDP_STREAM; neper, tcp_stream
    /// - tcp(7), udp(7), TCP_INFO; proc_stat(5)
    /// - CSE 221 System Measurement Project, 2014: peak bandwidth on loopback and remote
    ///
    /// # Needs
    /// - congestion_control: a kernel that has it, and allows this user to choose it
    /// - over=unix: both ends in one network namespace (--link loopback)
    pub(crate) struct Bandwidth of "net.bandwidth" {
        /// what carries the blocks
        over: Over = Over::that(Over::Tcp, |over, it| SOCKETS.contains(&over) && it.round_trips.is_some()),
        /// bytes of each write, or of a datagram (65507 at most)
        size: usize =
            bytes(BLOCK_MIN_BYTES as u64..=1 << 20, &[128 << 10, 64, 1024, 16 << 10, 65507, 1 << 20]),
        /// connections at the same time, each with a thread at both ends
        flows: usize = count(1..=64, &[1, 2, 4]),
        congestion_control: CongestionControl = CongestionControl::axis(),
    }
}

impl Measure for Bandwidth {
    const METRICS: &'static [Metric] = metrics! {
        /// payload received, by the receiver's clock, all flows together, stalls included
        throughput: BytesPerSecond Higher,
        /// the time for 1 KiB, in each of up to 24 windows of equally many KiB
        cost: Nanoseconds Lower,
        /// CPU time of the sending threads per KiB
        cpu_sender: Nanoseconds Lower,
        /// CPU time of the receiving threads per KiB
        cpu_receiver: Nanoseconds Lower,
        /// CPU time in soft interrupts per KiB, on both ends' CPUs, by the kernel's ticks; includes
        /// the soft interrupts of other processes on these CPUs
        softirq: Nanoseconds Lower,
        /// the possible error of softirq: a tick of /proc/stat on each of these CPUs
        softirq_error: Nanoseconds Lower,
        /// share of the time for which the sending threads ran: 1 where their CPUs are the
        /// bottleneck
        sender_running: One Neither,
        /// share of the time for which the receiving threads ran: 1 where their CPUs are the
        /// bottleneck
        receiver_running: One Neither,
        /// payload that TCP retransmitted, as a share of all that it sent
        retransmissions: One Lower,
        /// datagrams that did not arrive, as a share of those sent
        lost: One Lower,
        /// the lost datagrams for which the receiver's socket had no room, as a share of those sent
        lost_in_queue: One Lower,
        /// their number in a launch
        dropped_in_queue: One Lower,
        /// the largest packet, IP header included
        mtu: Bytes Neither,
        /// payload of TCP's largest segment
        segment: Bytes Neither,
        /// the sender's socket buffer at the end, as the kernel counts it
        send_buffer: Bytes Neither,
        /// the receiver's socket buffer at the end
        receive_buffer: Bytes Neither,
    };
    const AFTER: NameList = &["os.syscall", "memory.bandwidth"];
    const CROSSINGS: &'static [NameList] = &[&["over", "size"]];
    const ROLE_NAMES: NameList = &["receiver", "sender"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Bandwidth>(Receiving::start(launch)?),
        |launch| role::<Bandwidth>(Sending::start(launch)?),
    ];

    fn check_axes(point: &At<Self>) -> Result {
        check(point)
    }

    fn least_ns(point: &At<Self>) -> f64 {
        let round_trip = Duration::from_nanos(path::delays_ns(&point.link) as u64);
        duration(point.over, 0.0, round_trip).as_nanos() as f64
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        (point.flows * (2 * point.size + (8 << 20))) as u64
    }

    fn processors(point: &At<Self>) -> usize {
        2 * point.flows
    }

    headlines! {
        "network bandwidth: TCP on loopback, 128 KiB writes": {},
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict(point, facts, measured)
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        joined(reports)
    }
}

/// Refuses what cannot be measured anywhere.
fn check(point: &Bandwidth) -> Result {
    let reason = if point.over == Over::Udp && point.size > DATAGRAM_MAX_BYTES {
        "a datagram has 65507 B of payload at most (--set size=65507)"
    } else if point.over != Over::Tcp && point.congestion_control.name().is_some() {
        "only TCP has a congestion control (--set congestion_control=default)"
    } else {
        return Ok(());
    };
    Err(Failure::unsupported(reason))
}

struct Receiving {
    rendezvous: Rendezvous,
    cpus: Processors,
    listener: Option<Listener>,
}

impl Receiving {
    fn start(launch: &Launch) -> Result<Receiving> {
        let rendezvous = rendezvous::with_receiver(launch)?;
        Ok(Receiving {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            listener: None,
        })
    }
}

impl RoleAt<Bandwidth> for Receiving {
    const BLOCKS: bool = true;

    fn prepare(&mut self, point: &At<Bandwidth>, _: &Offers) -> Result<Offers> {
        check(point)?;
        let (listener, mut offers) =
            rendezvous::listen(&point.link, &self.rendezvous, point.over.into(), point.flows)?;
        self.listener = Some(listener);
        offers.insert(COUNTED.into(), listed(&self.cpus.used(point.flows)));
        Ok(offers)
    }

    fn run(&mut self, point: &At<Bandwidth>, meter: &mut Meter<'_>) -> Result {
        let listener = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        let blocks = Content::Blocks(point.size);
        let accepted = flow::accept(&listener, point.over.into(), blocks, stop);
        let Some(mut flows) = rendezvous::unless_stopped(accepted)? else {
            return Ok(());
        };
        let used = self.cpus.used(flows.len());
        let interrupts = SoftInterrupts::watch(used.into_iter().collect());
        // The controller stops it when the sender is done: what a link has lost never arrives.
        each(&mut flows, &self.cpus, |flow| flow.receive(stop)).map_err(broken)?;
        let are_right = flows.iter().all(Receiver::last_piece_is_right);
        ensure!(are_right, "the received bytes differ from those sent");
        let checkpoints: Vec<_> = flows.iter().map(|flow| flow.progress.checkpoints()).collect();
        let settled = windows::settled(&checkpoints)
            .ok_or_else(|| Failure::error("too little arrived to measure a rate"))?;
        meter.value("throughput", windows::throughput(&checkpoints, settled));
        for (kib, ns) in windows::windows(&checkpoints, settled) {
            meter.batch_done("cost", kib, ns);
        }
        let used = windows::used(&checkpoints, settled);
        meter.value("cpu_receiver", used.cpu_ns_per_kib);
        meter.value("receiver_running", used.running);
        let bytes = checkpoints.iter().map(|flow| windows::bytes(flow)).sum();
        interrupts.report(bytes, meter);
        meter.allocated(flows.iter().map(|flow| flow.progress.allocations).sum());
        report_receiver(&flows, meter).map_err(broken)
    }
}

type Sender = flow::Sender<Block>;

fn report_receiver(flows: &[Receiver], meter: &mut Meter<'_>) -> io::Result<()> {
    meter.value("receive_buffer", f64::from(flows[0].buffer_bytes()?));
    let datagrams = flows.iter().map(Receiver::datagrams);
    if let Some(datagrams) = datagrams.collect::<io::Result<Option<Vec<Datagrams>>>>()? {
        let sum = |of: fn(&Datagrams) -> u64| datagrams.iter().map(of).sum::<u64>() as f64;
        meter.value(ARRIVED, sum(|datagrams| datagrams.arrived));
        meter.value(DROPPED, sum(|datagrams| datagrams.dropped));
    }
    Ok(())
}

struct Sending {
    rendezvous: Rendezvous,
    cpus: Processors,
    offers: Offers,
}

impl Sending {
    fn start(launch: &Launch) -> Result<Sending> {
        let rendezvous = rendezvous::with_receiver(launch)?;
        Ok(Sending {
            cpus: Processors::new(&launch.cpus, &rendezvous),
            rendezvous,
            offers: Offers::new(),
        })
    }

    fn connect(&self, point: &At<Bandwidth>) -> Result<Vec<Sender>> {
        let address: Address = rendezvous::offered(&self.offers)?;
        let shape = (point.flows, point.size);
        let token = self.rendezvous.token.as_bytes();
        let control = point.congestion_control.name();
        let over = point.over.into();
        flow::call_with_blocks(over, &address, shape, control, token).map_err(|error| {
            refused(control, &error).unwrap_or_else(|| cannot_reach(&address, &error))
        })
    }
}

impl RoleAt<Bandwidth> for Sending {
    const BLOCKS: bool = true;

    fn prepare(&mut self, _: &At<Bandwidth>, offers: &Offers) -> Result<Offers> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Bandwidth>, meter: &mut Meter<'_>) -> Result {
        let mut flows = self.connect(point)?;
        let round_trip = flows.iter().map(Sender::round_trip).max();
        let duration = duration(point.over, meter.time_ns(), round_trip.unwrap_or_default());
        let used = self.cpus.used(flows.len());
        let interrupts =
            left_to_count(used, &self.offers, self.rendezvous.apart).map(SoftInterrupts::watch);
        each(&mut flows, &self.cpus, |flow| flow.stream(duration)).map_err(broken)?;
        let checkpoints: Vec<_> = flows.iter().map(|flow| flow.progress.checkpoints()).collect();
        let settled = windows::settled(&checkpoints)
            .ok_or_else(|| Failure::error("too little was sent to measure a rate"))?;
        let used = windows::used(&checkpoints, settled);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
        if let Some(interrupts) = interrupts {
            let bytes = checkpoints.iter().map(|flow| windows::bytes(flow)).sum();
            interrupts.report(bytes, meter);
        }
        report_sender(&flows, meter).map_err(broken)?;
        if point.over == Over::Udp {
            let datagrams: u64 = flows.iter().map(Sender::blocks).sum();
            meter.value(SENT, datagrams as f64);
        }
        meter.allocated(flows.iter().map(|flow| flow.progress.allocations).sum());
        each(&mut flows, &self.cpus, Sender::end).map_err(broken)?;
        Ok(())
    }
}

fn report_sender(flows: &[Sender], meter: &mut Meter<'_>) -> io::Result<()> {
    meter.value("send_buffer", f64::from(flows[0].buffer_bytes()?));
    if let Some(mtu) = flows[0].mtu_bytes()? {
        meter.value("mtu", f64::from(mtu));
    }
    let infos = flows.iter().map(Sender::tcp_info);
    if let Some(infos) = infos.collect::<io::Result<Option<Vec<TcpInfo>>>>()? {
        meter.value("segment", f64::from(infos[0].segment_bytes));
        let sum = |of: fn(&TcpInfo) -> u64| infos.iter().map(of).sum::<u64>() as f64;
        let sent = sum(|info| info.sent_bytes);
        if sent > 0.0 {
            let retransmitted = sum(|info| info.retransmitted_bytes);
            meter.value("retransmissions", retransmitted / sent);
        }
    }
    Ok(())
}

/// How long to send, for a point that is to be measured for `point_ns`.
fn duration(over: Over, point_ns: f64, round_trip: Duration) -> Duration {
    // Other sockets have no congestion window.
    let round_trip = if over == Over::Tcp { round_trip } else { Duration::ZERO };
    flows::duration(point_ns, MIN_DURATION, round_trip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_ends::flows::MAX_DURATION;

    #[test]
    fn what_cannot_be_says_the_way_out() {
        use CongestionControl as By;
        let at = |over, size, congestion_control| {
            let point = Bandwidth { over, size, congestion_control, ..Bandwidth::default() };
            check(&point).map_err(|failure| failure.reason)
        };
        assert!(at(Over::Udp, 65507, By::Default).is_ok());
        assert!(at(Over::Unix, 1 << 20, By::Default).is_ok());
        assert!(at(Over::Tcp, 1 << 20, By::Cubic).is_ok());
        for (refused, says) in [
            (at(Over::Udp, 65508, By::Default), "size=65507"),
            (at(Over::Udp, 64, By::Bbr), "congestion_control=default"),
        ] {
            assert!(refused.as_ref().unwrap_err().contains(says), "{refused:?}");
        }
    }

    #[test]
    fn long_ways_take_longer() {
        let ms = Duration::from_millis;
        assert_eq!(duration(Over::Tcp, 10e6, Duration::ZERO), MIN_DURATION);
        assert_eq!(duration(Over::Tcp, 500e6, Duration::ZERO), ms(500));
        assert_eq!(duration(Over::Tcp, 10e6, ms(190)), ms(7600));
        assert_eq!(duration(Over::Tcp, 10e6, ms(3000)), MAX_DURATION);
        let least_ms = |over, link: &'static str| {
            let axes = Bandwidth { over, ..Bandwidth::default() };
            let link = link.into();
            Bandwidth::least_ns(&At { axes, link }) / 1e6
        };
        let tcp = |link| least_ms(Over::Tcp, link);
        assert_eq!((tcp("loopback"), tcp("remote")), (300.0, 300.0));
        assert_eq!(tcp("lan"), 300.0);
        assert_eq!(tcp("wan"), 7600.0);
        assert_eq!(tcp("up.delay=50ms"), 2000.0);
        assert_eq!(tcp("delay=2s"), 15_000.0);
        assert_eq!(least_ms(Over::Udp, "wan"), 300.0);
    }
}

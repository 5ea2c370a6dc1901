//! `net.bandwidth`: how many bytes a second reach the other end of a link.

mod predict;
pub(crate) mod windows;

use crate::derived;
use crate::literal::{cost, list, metric, text, word, words};
use crate::net::echo::{over, size};
use crate::net::meeting::{self, broken, cannot_reach};
use crate::net::path;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_model::axis::{Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::{Data, MetricInfo};
use costof_model::point::{Headline, Point};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Meeting, Offers, Report};
use costof_model::rows::State;
use costof_model::unit::{Better, Unit};
use costof_os::meeting::{Address, DATAGRAM_MOST_BYTES, Listener, Over};
use costof_os::transfer::{self, BLOCK_LEAST_BYTES, Receiver, Sender};
use costof_os::{affinity, softirq};
use predict::predict;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

pub(crate) const KIB: f64 = 1024.0;
/// How long a transfer lasts at least. What a KiB takes of a processor falls in the first 0.1 s, in
/// which buffers grow, by about a tenth.
const LEAST: Duration = Duration::from_millis(300);
/// In round trips of TCP: slow start takes ten to fill 16 MiB from ten segments, in the third that is
/// left out. How soon a link is filled is known too late to plan with.
const ROUND_TRIPS: u32 = 40;
/// And at most.
const MOST: Duration = Duration::from_secs(15);

pub(crate) static PROBE: Probe = Probe {
    info: ProbeInfo {
        id: text("net.bandwidth"),
        method: 1,
        question: text("How many bytes a second reach the other end of a link?"),
        axes: list![
            words(
                "over",
                "what carries them",
                list![
                    word("tcp", "TCP connections with TCP_NODELAY"),
                    word("udp", "UDP, sent as fast as it can be, whatever is lost"),
                    word("unix", "Unix stream sockets; both ends on this machine"),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of each write, and of a datagram, which has 65507 at most"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: BLOCK_LEAST_BYTES as u64,
                    high: 1 << 20,
                    usual: list![128 << 10, 64, 1024, 16 << 10, 65507, 1 << 20],
                },
            },
            Axis {
                name: text("flows"),
                about: text(
                    "how many go at the same time, each with a connection and a thread at both ends"
                ),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 1,
                    high: 64,
                    usual: list![1, 2, 4],
                },
            },
            words(
                "congestion_control",
                "by what TCP decides how much may be under way",
                list![
                    word("default", "the kernel's own choice"),
                    word("cubic", "CUBIC (RFC 9438)"),
                    word("bbr", "BBR, as the kernel has it"),
                    word("reno", "NewReno (RFC 6582)"),
                ],
            ),
        ],
        crossings: list![list![text("over"), text("size")]],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "payload that arrived, by the receiver's clock, all flows together, stalls included",
            ),
            cost("1 KiB of it, in each of up to 24 windows of equally many KiB"),
            ns_per_kib(
                "cpu_sender",
                "processor time of the sending threads for 1 KiB"
            ),
            ns_per_kib(
                "cpu_receiver",
                "processor time of the receiving threads for 1 KiB"
            ),
            ns_per_kib(
                "softirq",
                "of both ends' processors in soft interrupts for 1 KiB, by the kernel's ticks; on these processors others' count too",
            ),
            ns_per_kib(
                "softirq_error",
                "how far off that may be: a tick of /proc/stat on each of these processors",
            ),
            share(
                "sender_running",
                "share of the time for which the sending threads ran: 1 where their processors are what limits",
            ),
            share(
                "receiver_running",
                "share of the time for which the receiving threads ran: 1 where their processors are what limits",
            ),
            metric(
                "retransmissions",
                Unit::One,
                Better::Lower,
                "payload that TCP sent again, as a share of all that it sent",
            ),
            metric(
                "lost",
                Unit::One,
                Better::Lower,
                "datagrams that did not arrive, as a share of those sent",
            ),
            metric(
                "lost_in_queue",
                Unit::One,
                Better::Lower,
                "of which the receiver's socket had no room for, as a share of those sent",
            ),
            bytes("mtu", "the largest packet, IP header included"),
            bytes("segment", "payload of TCP's largest segment"),
            bytes(
                "send_buffer",
                "the sender's socket's, at the end, as the kernel counts it"
            ),
            bytes("receive_buffer", "the receiver's socket's, at the end"),
        ],
        how: text(
            "One end connects and writes blocks of one size from the same buffer, the other reads \
             up to 128 KiB at once, whatever the size, for 300 ms or more, and by TCP for 40 round \
             trips or more. Flow by flow they run on every second of the run's processors, so that the ends \
             share none where there are enough, or in order where each has a machine of its own. \
             Each end notes every quarter of a millisecond how far it is and its threads' \
             processor time (CLOCK_THREAD_CPUTIME_ID). The first third is left out, since windows \
             and buffers grow meanwhile. Payload counts, not headers; a datagram that comes twice \
             counts twice. Every block begins with its number, no other byte is zeroed: the \
             receiver compares the number of the first block in each piece of a stream, of each \
             datagram the first 64 bytes behind its number and the last 8, and at the end the whole \
             last piece. Buffers are the kernel's usual \
             ones, which TCP lets grow. The sender leads: it is the client's end, and all that there \
             is on a link that discards.",
        ),
        sources: list![
            text("iperf3(1), -l 128K; netperf, TCP_STREAM and UDP_STREAM; neper, tcp_stream"),
            text("tcp(7), udp(7), TCP_INFO; proc_stat(5)"),
            text("CSE 221 System Measurement Project, 2014: peak bandwidth on loopback and remote"),
        ],
        predicted_from: text(
            "two copies as memory.bandwidth has measured them, at the same time or one after the other, and the protocol's part of each packet in system calls as os.syscall has; on links with a rate, that rate less headers",
        ),
        after: list![text("os.syscall"), text("memory.bandwidth")],
        needs: list![
            text("congestion_control: that the kernel has it, and lets this user choose it"),
            text("over=unix: both ends in one network namespace (--link loopback)"),
        ],
        roles: list![text("receiver"), text("sender")],
    },
    rounds: 1,
    blocks_by: &[],
    least_ns: |point| {
        let round_trip = Duration::from_nanos(path::delays_ns(point) as u64);
        duration(point, 0.0, round_trip).as_nanos() as f64
    },
    // A buffer of each end, and what lies between them.
    memory_bytes: |point| flows(point) as u64 * (2 * point.axes.number("size") + (8 << 20)),
    processors: |point| 2 * flows(point),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[
        |launch| Ok(Box::new(Receiving::start(launch)?)),
        |launch| Ok(Box::new(Sending::start(launch)?)),
    ],
    derive,
};

const fn ns_per_kib(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

const fn share(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::One, Better::Neither, about)
}

const fn bytes(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Bytes, Better::Neither, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "network bandwidth: TCP on loopback, 128 KiB writes",
        PROBE.info.defaults(),
    )]
}

fn flows(point: &Point) -> usize {
    point.axes.number("flows") as usize
}

/// The congestion control that is asked for.
fn control(point: &Point) -> Option<&str> {
    Some(point.axes.word("congestion_control")).filter(|control| *control != "default")
}

/// What cannot be, wherever it is tried.
fn check(point: &Point) -> Result<(), Failure> {
    let unsupported = |reason: &str| Err(Failure::unsupported(reason));
    match over(point) {
        Over::Udp if size(point) > DATAGRAM_MOST_BYTES => {
            unsupported("a datagram has 65507 B of payload at most (--set size=65507)")
        }
        Over::Udp | Over::Unix if control(point).is_some() => {
            unsupported("only TCP has a congestion control (--set congestion_control=default)")
        }
        _ => Ok(()),
    }
}

/// Where the flows of one end run, in their order; anywhere if it is empty.
pub(crate) struct Processors(Vec<usize>);

impl Processors {
    /// Those of a role: on one machine every second one, since the other role has the same in an
    /// order turned by one; where the roles are on two machines, each has all of its own.
    pub(crate) fn of(cpus: &[usize], meeting: &Meeting) -> Processors {
        if meeting.apart {
            return Processors(cpus.to_vec());
        }
        let every_second = (0..cpus.len()).map(|number| cpus[2 * number % cpus.len()]);
        Processors(every_second.collect())
    }

    fn of_flow(&self, flow: usize) -> Option<usize> {
        self.0.iter().copied().cycle().nth(flow)
    }

    /// Those that so many flows use.
    pub(crate) fn used(&self, flows: usize) -> BTreeSet<usize> {
        self.0.iter().copied().take(flows).collect()
    }
}

/// Lets each flow do its work at the same time as the others, the first in this thread, each on its
/// processor.
pub(crate) fn each<F: Send, T: Send>(
    flows: &mut [F],
    cpus: &Processors,
    work: impl Fn(&mut F) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let work = |position: usize, flow: &mut F| {
        if let Some(cpu) = cpus.of_flow(position) {
            affinity::pin(&[cpu])?;
        }
        work(flow)
    };
    let (first, others) = flows.split_first_mut().expect("there is a flow");
    std::thread::scope(|scope| {
        let started: Vec<_> = others
            .iter_mut()
            .zip(1..)
            .map(|(flow, position)| {
                let thread = std::thread::Builder::new().name(format!("flow {position}"));
                thread.spawn_scoped(scope, move || work(position, flow))
            })
            .collect();
        let first = work(0, first);
        let others = started.into_iter().map(|thread| {
            let ended = thread?.join();
            ended.map_err(|_| io::Error::other("a thread of a flow has panicked"))?
        });
        std::iter::once(first).chain(others).collect()
    })
}

/// By which name the receiver offers the processors whose soft interrupts it counts, and names of
/// what the roles count for [`derive()`].
pub(crate) const COUNTED: &str = "counted";
pub(crate) const SENT: &str = "datagrams_sent";
pub(crate) const ARRIVED: &str = "datagrams_arrived";
pub(crate) const DROPPED: &str = "datagrams_dropped";

pub(crate) fn listed(cpus: &BTreeSet<usize>) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(",")
}

/// The processors whose soft interrupts the sender counts, of those that it uses: not those which
/// the receiver, as it offers, counts on the same machine. None where nothing is left, or the
/// receiver counts all there are.
pub(crate) fn left_to_count(
    mut used: BTreeSet<usize>,
    offers: &Offers,
    apart: bool,
) -> Option<Vec<usize>> {
    if apart {
        return Some(used.into_iter().collect());
    }
    let counted = offers.get(COUNTED).map_or("", String::as_str);
    for cpu in counted.split(',').filter_map(|cpu| cpu.parse().ok()) {
        used.remove(&cpu);
    }
    (!counted.is_empty() && !used.is_empty()).then(|| used.into_iter().collect())
}

/// What a role's processors did in soft interrupts.
pub(crate) struct SoftInterrupts {
    cpus: Vec<usize>,
    before_ns: Option<u64>,
}

impl SoftInterrupts {
    pub(crate) fn watch(cpus: Vec<usize>) -> SoftInterrupts {
        SoftInterrupts {
            before_ns: softirq::spent_ns(&cpus).ok(),
            cpus,
        }
    }

    /// For each KiB of `bytes`; nothing where the kernel does not tell.
    pub(crate) fn report(&self, bytes: u64, meter: &mut Meter<'_>) {
        let after_ns = softirq::spent_ns(&self.cpus).ok();
        if let (Some(before_ns), Some(after_ns)) = (self.before_ns, after_ns)
            && bytes > 0
        {
            let kib = bytes as f64 / KIB;
            let spent_ns = after_ns.saturating_sub(before_ns);
            let error_ns = softirq::TICK_NS * self.cpus.len().max(1) as u64;
            meter.value("softirq", spent_ns as f64 / kib);
            meter.value("softirq_error", error_ns as f64 / kib);
        }
    }
}

/// Takes in what comes, and says how much that was.
struct Receiving {
    meeting: Meeting,
    cpus: Processors,
    listener: Option<Listener>,
}

impl Receiving {
    fn start(launch: &Launch) -> Result<Receiving, Failure> {
        let meeting = meeting::meeting(launch)?;
        Ok(Receiving {
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            listener: None,
        })
    }
}

impl Role for Receiving {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        check(point)?;
        let (listener, mut offers) =
            meeting::listen(point, &self.meeting, over(point), flows(point))?;
        self.listener = Some(listener);
        offers.insert(COUNTED.into(), listed(&self.cpus.used(flows(point))));
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        let accepted = transfer::accept(&listener, stop);
        let Some(mut flows) = meeting::met(accepted)? else {
            return Ok(());
        };
        let used = self.cpus.used(flows.len());
        let interrupts = SoftInterrupts::watch(used.into_iter().collect());
        // Until the sender is done and the controller says so: what a link has lost is not waited for.
        each(&mut flows, &self.cpus, |flow| {
            flow.receive(size(point), stop)
        })
        .map_err(|error| broken(&error))?;
        if !flows.iter().all(Receiver::last_piece_is_right) {
            return Err(Failure::error("other bytes arrived than were sent"));
        }
        let marks: Vec<_> = flows.iter().map(Receiver::marks).collect();
        let settled = windows::settled(&marks)
            .ok_or_else(|| Failure::error("too little arrived to say how fast"))?;
        meter.value("throughput", windows::throughput(&marks, settled));
        for (kib, ns) in windows::windows(&marks, settled) {
            meter.batch_done("cost", kib, ns);
        }
        let used = windows::used(&marks, settled);
        meter.value("cpu_receiver", used.cpu_ns_per_kib);
        meter.value("receiver_running", used.running);
        interrupts.report(marks.iter().map(|marks| windows::bytes(marks)).sum(), meter);
        let failed = |error: io::Error| broken(&error);
        let buffer = flows[0].buffer_bytes().map_err(failed)?;
        meter.value("receive_buffer", f64::from(buffer));
        let datagrams: Vec<_> = flows
            .iter()
            .map(Receiver::datagrams)
            .collect::<io::Result<Option<_>>>()
            .map_err(failed)?
            .unwrap_or_default();
        let sum = |of: fn(&transfer::Datagrams) -> u64| datagrams.iter().map(of).sum::<u64>();
        if !datagrams.is_empty() {
            meter.value(ARRIVED, sum(|datagrams| datagrams.arrived) as f64);
            meter.value(DROPPED, sum(|datagrams| datagrams.dropped) as f64);
        }
        meter.allocated(flows.iter().map(Receiver::allocations).sum());
        Ok(())
    }
}

/// Sends as fast as it can.
struct Sending {
    meeting: Meeting,
    cpus: Processors,
    offers: Offers,
}

impl Sending {
    fn start(launch: &Launch) -> Result<Sending, Failure> {
        let meeting = meeting::meeting(launch)?;
        Ok(Sending {
            cpus: Processors::of(&launch.cpus, &meeting),
            meeting,
            offers: Offers::new(),
        })
    }

    fn call(&self, point: &Point) -> Result<Vec<Sender>, Failure> {
        let address: Address = meeting::offered(&self.offers)?;
        let shape = (flows(point), size(point));
        let token = self.meeting.token.as_bytes();
        transfer::call(over(point), &address, shape, control(point), token).map_err(|error| match (
            control(point),
            error.kind(),
        ) {
            (Some(control), io::ErrorKind::NotFound) => Failure::unsupported(format!(
                "this kernel has no congestion control {control} \
                     (net.ipv4.tcp_available_congestion_control lists those it has; modprobe \
                     tcp_{control} may add it)"
            )),
            (Some(control), io::ErrorKind::PermissionDenied) => Failure::unsupported(format!(
                "only the administrator may use the congestion control {control} here \
                     (net.ipv4.tcp_allowed_congestion_control)"
            )),
            _ => cannot_reach(&address, &error),
        })
    }
}

impl Role for Sending {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, _: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut flows = self.call(point)?;
        let round_trip = flows.iter().map(Sender::round_trip).max();
        let duration = duration(point, meter.time_ns(), round_trip.unwrap_or_default());
        let used = self.cpus.used(flows.len());
        let interrupts = left_to_count(used, &self.offers, self.meeting.apart);
        let interrupts = interrupts.map(SoftInterrupts::watch);
        let failed = |error: io::Error| broken(&error);
        each(&mut flows, &self.cpus, |flow| flow.send(duration)).map_err(failed)?;
        let marks: Vec<_> = flows.iter().map(Sender::marks).collect();
        let settled = windows::settled(&marks)
            .ok_or_else(|| Failure::error("too little could be sent to say how fast"))?;
        let used = windows::used(&marks, settled);
        meter.value("cpu_sender", used.cpu_ns_per_kib);
        meter.value("sender_running", used.running);
        if let Some(interrupts) = interrupts {
            interrupts.report(marks.iter().map(|marks| windows::bytes(marks)).sum(), meter);
        }
        let buffer = flows[0].buffer_bytes().map_err(failed)?;
        meter.value("send_buffer", f64::from(buffer));
        if let Some(mtu) = flows[0].mtu_bytes().map_err(failed)? {
            meter.value("mtu", f64::from(mtu));
        }
        let infos = flows.iter().map(Sender::tcp_info);
        let infos = infos
            .collect::<io::Result<Option<Vec<_>>>>()
            .map_err(failed)?;
        for info in infos.iter().flat_map(|infos| infos.first()) {
            meter.value("segment", f64::from(info.segment_bytes));
        }
        let infos = infos.unwrap_or_default();
        let sent: u64 = infos.iter().map(|info| info.sent_bytes).sum();
        let again: u64 = infos.iter().map(|info| info.sent_again_bytes).sum();
        if sent > 0 {
            meter.value("retransmissions", again as f64 / sent as f64);
        }
        if over(point) == Over::Udp {
            let datagrams: u64 = flows.iter().map(Sender::blocks).sum();
            meter.value(SENT, datagrams as f64);
        }
        meter.allocated(flows.iter().map(Sender::allocations).sum());
        each(&mut flows, &self.cpus, Sender::end).map_err(failed)?;
        Ok(())
    }
}

/// How long to send, where a point is to be measured for so long.
fn duration(point: &Point, point_ns: f64, round_trip: Duration) -> Duration {
    let asked = Duration::from_nanos(point_ns as u64);
    let until_full = match over(point) {
        Over::Tcp => ROUND_TRIPS * round_trip,
        // They have no window that grows.
        Over::Udp | Over::Unix => Duration::ZERO,
    };
    asked.max(LEAST).max(until_full).min(MOST)
}

/// The receiver's report and the sender's in one; soft interrupts of both ends together. What was
/// sent is known at one end, and what of it arrived at the other.
fn derive(_: &Point, reports: Vec<Report>) -> Report {
    let [mut report, sender] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if sender.state != State::Ok || report.state != State::Ok {
        report.state = State::Failed;
        report.metrics.clear();
        return report;
    }
    for measured in sender.metrics {
        let same = report
            .metrics
            .iter_mut()
            .find(|have| have.name == measured.name);
        match (same.map(|have| &mut have.data), &measured.data) {
            (Some(Data::Value(sum)), Data::Value(more)) => *sum += more,
            _ => report.metrics.push(measured),
        }
    }
    report.allocations += sender.allocations;
    let [sent, arrived, dropped] = [SENT, ARRIVED, DROPPED].map(|name| take(&mut report, name));
    if let (Some(sent), Some(arrived), Some(dropped)) = (sent, arrived, dropped)
        && sent > 0.0
    {
        // A duplicate arrives twice.
        derived::add(&mut report, "lost", (sent - arrived).max(0.0) / sent);
        derived::add(&mut report, "lost_in_queue", dropped / sent);
    }
    report
}

/// Takes a number out of a report.
pub(crate) fn take(report: &mut Report, name: &str) -> Option<f64> {
    let at = report
        .metrics
        .iter()
        .position(|metric| metric.name == name)?;
    match report.metrics.swap_remove(at).data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::point;
    use costof_model::metric::Measured;

    fn report(metrics: &[(&'static str, Data)]) -> Report {
        Report {
            state: State::Ok,
            allocations: 1,
            metrics: metrics
                .iter()
                .map(|(name, data)| Measured {
                    name: text(name),
                    data: data.clone(),
                    disturbed: Vec::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn both_ends_reports_become_one() {
        let point = point(&PROBE, PROBE.info.defaults());
        let receiver = report(&[
            ("throughput", Data::Value(1e9)),
            ("softirq", Data::Value(3.0)),
        ]);
        let sender = report(&[
            ("cpu_sender", Data::Value(200.0)),
            ("softirq", Data::Value(4.0)),
        ]);
        let report = derive(&point, vec![receiver.clone(), sender.clone()]);
        let value = |name: &str| {
            let found = report.metrics.iter().find(|metric| metric.name == name);
            found.map(|metric| metric.data.clone())
        };
        assert_eq!(value("throughput"), Some(Data::Value(1e9)));
        assert_eq!(value("softirq"), Some(Data::Value(7.0)));
        assert_eq!(value("cpu_sender"), Some(Data::Value(200.0)));
        assert_eq!(report.allocations, 2);
        let failed = Report {
            state: State::Failed,
            ..sender
        };
        let report = derive(&point, vec![receiver, failed]);
        assert_eq!((report.state, report.metrics.len()), (State::Failed, 0));
    }

    /// Where a role's flows run that is told of these processors.
    fn processors(cpus: &[usize], apart: bool) -> Processors {
        let meeting = Meeting {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            ports: (0, 0),
            token: String::new(),
            apart,
            sink: None,
        };
        Processors::of(cpus, &meeting)
    }

    fn of_flows(cpus: &[usize], apart: bool, flows: usize) -> Vec<usize> {
        let processors = processors(cpus, apart);
        (0..flows)
            .filter_map(|flow| processors.of_flow(flow))
            .collect()
    }

    #[test]
    fn ends_share_no_processor_where_there_are_enough() {
        assert_eq!(of_flows(&[4, 5, 6, 7], false, 2), [4, 6]);
        assert_eq!(of_flows(&[5, 6, 7, 4], false, 2), [5, 7]);
        assert_eq!(of_flows(&[0, 1], false, 3), [0, 0, 0]);
        assert_eq!(of_flows(&[1, 0], false, 3), [1, 1, 1]);
        assert_eq!(of_flows(&[0, 1, 2], false, 4), [0, 2, 1, 0]);
        assert_eq!(of_flows(&[9], false, 2), [9, 9]);
        assert!(of_flows(&[], false, 2).is_empty());
    }

    #[test]
    fn on_two_machines_each_end_uses_all_of_its_own() {
        assert_eq!(of_flows(&[4, 5, 6, 7], true, 3), [4, 5, 6]);
        assert_eq!(of_flows(&[4, 5], true, 3), [4, 5, 4]);
        assert!(of_flows(&[], true, 2).is_empty());
    }

    #[test]
    fn soft_interrupts_of_a_processor_are_counted_at_one_end() {
        let left = |own: &[usize], others: &[usize], apart: bool, flows: usize| {
            let counted = processors(others, apart).used(flows);
            let offers = Offers::from([(COUNTED.into(), listed(&counted))]);
            left_to_count(processors(own, apart).used(flows), &offers, apart)
        };
        assert_eq!(
            left(&[4, 5, 6, 7], &[5, 6, 7, 4], false, 2),
            Some(vec![4, 6])
        );
        // An odd number, of which both ends use some, or all.
        assert_eq!(left(&[0, 1, 2], &[1, 2, 0], false, 2), Some(vec![2]));
        assert_eq!(left(&[0, 1, 2], &[1, 2, 0], false, 3), None);
        assert_eq!(left(&[9], &[9], false, 1), None);
        // Without processors of its own, an end counts all that there are.
        assert_eq!(left(&[], &[], false, 1), None);
        assert_eq!(left(&[3], &[], false, 1), None);
        // The same numbers on two machines are not the same processors.
        assert_eq!(left(&[0, 1], &[0, 1], true, 2), Some(vec![0, 1]));
        assert_eq!(left(&[], &[], true, 2), Some(vec![]));
    }

    #[test]
    fn what_was_lost_is_known_from_both_ends() {
        let point = point(&PROBE, PROBE.info.defaults().with("over", "udp"));
        let lost = |sent: f64, arrived: f64| {
            let receiver = report(&[
                (ARRIVED, Data::Value(arrived)),
                (DROPPED, Data::Value(20.0)),
            ]);
            let sender = report(&[(SENT, Data::Value(sent))]);
            let report = derive(&point, vec![receiver, sender]);
            let names: Vec<&str> = report.metrics.iter().map(|metric| &*metric.name).collect();
            if names.is_empty() {
                return None;
            }
            assert_eq!(names, ["lost", "lost_in_queue"]);
            let values = report.metrics.iter().map(|metric| metric.data.clone());
            Some(values.collect::<Vec<_>>())
        };
        let value = Data::Value;
        assert_eq!(lost(200.0, 150.0), Some(vec![value(0.25), value(0.1)]));
        assert_eq!(lost(200.0, 201.0), Some(vec![value(0.0), value(0.1)]));
        assert_eq!(lost(0.0, 0.0), None);
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        let at = |over: &'static str, size: u64, control: &'static str| {
            let axes = PROBE.info.defaults().with("over", over).with("size", size);
            let point = point(&PROBE, axes.with("congestion_control", control));
            check(&point).map_err(|failure| failure.reason)
        };
        assert!(at("udp", 65507, "default").is_ok());
        assert!(at("unix", 1 << 20, "default").is_ok());
        assert!(at("tcp", 1 << 20, "cubic").is_ok());
        for (refused, says) in [
            (at("udp", 65508, "default"), "size=65507"),
            (at("udp", 64, "bbr"), "congestion_control=default"),
        ] {
            assert!(refused.as_ref().unwrap_err().contains(says), "{refused:?}");
        }
    }

    #[test]
    fn long_ways_take_longer() {
        let ms = Duration::from_millis;
        let mut point = point(&PROBE, PROBE.info.defaults());
        assert_eq!(duration(&point, 10e6, Duration::ZERO), LEAST);
        assert_eq!(duration(&point, 500e6, Duration::ZERO), ms(500));
        assert_eq!(duration(&point, 10e6, ms(190)), ms(7600));
        assert_eq!(duration(&point, 10e6, ms(3000)), MOST);
        let mut least_ms = |link: &'static str| {
            point.link = text(link);
            (PROBE.least_ns)(&point) / 1e6
        };
        assert_eq!((least_ms("loopback"), least_ms("remote")), (300.0, 300.0));
        assert_eq!(least_ms("lan"), 300.0);
        assert_eq!(least_ms("wan"), 7600.0);
        assert_eq!(least_ms("up.delay=50ms"), 2000.0);
        assert_eq!(least_ms("delay=2s"), 15_000.0);
        point.link = text("wan");
        point.axes = point.axes.with("over", "udp");
        assert_eq!((PROBE.least_ns)(&point), 300e6);
    }

    #[test]
    fn work_of_all_flows_is_done_and_its_errors_are_told() {
        let mut flows = [1, 2, 3];
        let doubled = each(&mut flows, &Processors(Vec::new()), |flow| Ok(2 * *flow)).unwrap();
        assert_eq!(doubled, [2, 4, 6]);
        let failed = each(&mut flows, &Processors(Vec::new()), |flow| match flow {
            2 => Err(io::Error::other("no")),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}

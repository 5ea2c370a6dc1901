//! `copy.receive`: what receiving a message of several fields costs, by each way to do it.

use super::pieces::{AFTER, Pieces, packets};
use crate::derived;
use crate::expect::throughput;
use crate::literal::{cost, list, metric, text, word, words};
use crate::net::meeting::{self, broken, cannot_reach};
use crate::sum::{Range, Sum};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role};
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::link::Link;
use costof_model::metric::MetricInfo;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Meeting, Offers, Report};
use costof_model::rows::State;
use costof_model::unit::{Better, Unit};
use costof_os::affinity;
use costof_os::arena::base_page_bytes;
use costof_os::meeting::{Address, Listener, Over};
use costof_os::receive::{By, FIELDS_MOST, How, MESSAGE_LEAST_BYTES, Receiver, Sender, Shape};
use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const KIB: f64 = 1024.0;
/// For how long is received before anything is timed: sockets' buffers grow meanwhile, and TCP's
/// windows, which take ten round trips to 16 MiB.
const RAMP: Duration = Duration::from_millis(50);
const RAMP_ROUND_TRIPS: u32 = 20;
const RAMP_MOST: Duration = Duration::from_secs(5);
/// How long a batch lasts at least: many times what a stream's buffers hold.
const BATCH_NS: f64 = 5e6;
/// What the options of TCP take of a segment, where both ends put timestamps into it.
const OPTIONS_BYTES: usize = 12;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("copy.receive"),
        method: 1,
        question: text("What does receiving a message cost with two copies, one and none?"),
        axes: list![
            words(
                "how",
                "how the message's bytes come to its fields",
                list![
                    word(
                        "recv",
                        "into one buffer, out of which each field is copied: two copies"
                    ),
                    word("recvmsg", "into an entry for each field: one copy"),
                    word(
                        "zero_copy",
                        "TCP_ZEROCOPY_RECEIVE: pages are mapped where they can be, and the fields are where the bytes are; one copy of what cannot"
                    ),
                    word(
                        "discard",
                        "not at all (MSG_TRUNC): what receiving costs without the copy"
                    ),
                    word(
                        "multishot",
                        "one request of io_uring for all messages, into a ring of buffers, out of which each field is copied: two copies"
                    ),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of a message"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: MESSAGE_LEAST_BYTES as u64,
                    high: 16 << 20,
                    usual: list![64 << 10, 64, 1 << 10, 4 << 10, 16 << 10, 1 << 20],
                },
            },
            words(
                "over",
                "what carries them",
                list![
                    word("tcp", "a TCP connection with TCP_NODELAY"),
                    word("unix", "a Unix stream socket; both ends on this machine"),
                ],
            ),
            Axis {
                name: text("fields"),
                about: text("fields of a message, with equal shares and the rest in the last"),
                domain: Domain::Number {
                    unit: Unit::One,
                    low: 1,
                    high: FIELDS_MOST as u64,
                    usual: list![8, 1],
                },
            },
            words(
                "sent_by",
                "how the other end sends, which decides what can be mapped",
                list![
                    word("send", "send, from one buffer"),
                    word(
                        "zero_copy",
                        "MSG_ZEROCOPY, whose copy, where the receiver is on this machine, is made page by page"
                    ),
                ],
            ),
            words(
                "segments",
                "what TCP puts into a segment",
                list![
                    word("usual", "what the link's MTU leaves"),
                    word(
                        "pages",
                        "one page of the smallest size (TCP_MAXSEG), so that packets hold whole pages"
                    ),
                ],
            ),
        ],
        crossings: list![
            list![text("how"), text("size")],
            list![text("how"), text("over")],
            list![text("how"), text("sent_by")],
        ],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "payload that the receiver has, by its own clock",
            ),
            cost("one message"),
            ns_per_kib(
                "cpu_receiver",
                "processor time of the receiving thread for 1 KiB, the softirq work that runs inside it included",
            ),
            ns_per_kib(
                "cpu_sender",
                "processor time of the sending thread for 1 KiB"
            ),
            share(
                "receiver_running",
                "share of the time for which the receiving thread ran: 1 where it is what limits",
            ),
            share(
                "sender_running",
                "share of the time for which the sending thread ran: 1 where it is what limits",
            ),
            metric(
                "mapped",
                Unit::One,
                Better::Higher,
                "of zero_copy: share of the bytes that were mapped, not copied",
            ),
            metric(
                "calls",
                Unit::One,
                Better::Lower,
                "system calls of the receiver for one message, those included that only waited",
            ),
            metric(
                "segment",
                Unit::Bytes,
                Better::Neither,
                "payload of TCP's largest segment, at the end",
            ),
        ],
        how: text(
            "The sender repeats one message as fast as it goes, of which only the number changes. The \
             receiver asks for what is left of one message at a time, but for multishot, where the \
             kernel fills 32 buffers of 4 to 64 KiB as it can. The ends run on a processor each where \
             there are two, for 50 ms and 20 round trips before anything is timed. Nothing reads the \
             bytes while it is timed: a copy leaves them in a cache and a mapping does not, so a \
             program that reads what it has mapped pays for that later. The number of messages is \
             then known at both ends: the next message must have it, and every other byte as it was \
             sent, in its field. The kernel maps nothing but what fills whole pages. Where the other \
             end sends uncopied on this machine, the copy of a packet is made after all, page by page \
             and from a page's start: with a payload that is no multiple of a page the rest of each \
             packet is copied (of 65483 B, 15 pages are mapped), and a message that begins in the \
             midst of a page has all of that packet copied. What plain sends have copied lies in \
             larger pieces, which are never mapped.",
        ),
        sources: list![
            text("recv(2), recvmsg(2), tcp(7) on MSG_TRUNC"),
            text(
                "TCP_ZEROCOPY_RECEIVE: Linux net/ipv4/tcp.c, tools/testing/selftests/net/tcp_mmap.c"
            ),
            text("io_uring_prep_recv_multishot(3), io_uring_register_buf_ring(3)"),
            text(
                "Network I/O primitives, three course reports, 2026, which count the copies of a receiver and measure those of a sender"
            ),
        ],
        predicted_from: text(
            "each end's copies as cpu.memcpy and memory.bandwidth measured them, its parts as copy.parts and os.pin, calls as os.syscall, and its share of a packet as net.rtt; BBR's pacing as os.timer; the slower end decides, or both on one processor",
        ),
        after: AFTER,
        needs: list![
            text("how=zero_copy: TCP, and Linux 4.18"),
            text("how=multishot: io_uring of Linux 6.0, not disabled (kernel.io_uring_disabled)"),
            text("sent_by=zero_copy: TCP"),
            text("segments=pages: TCP, and a link whose MTU takes a page and its headers"),
            text("over=unix: both ends in one network namespace (--link loopback)"),
        ],
        roles: list![text("sender"), text("receiver")],
    }),
    rounds: 2,
    blocks_by: &["size", "over", "fields"],
    least_ns: |_| 180e6,
    // Each end's messages and what lies between them; those that go uncopied lie in 16 MiB or more.
    memory_bytes: |point| 5 * point.axes.number("size") + (32 << 20),
    processors: |_| 2,
    headlines,
    more_points: |_| Planned::anywhere(more_points()),
    budget: None,
    predict,
    roles: &[
        |launch| Ok(Box::new(Sending::start(launch)?)),
        |launch| Ok(Box::new(Receiving::start(launch)?)),
    ],
    derive,
};

const fn ns_per_kib(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::Nanoseconds, Better::Lower, about)
}

const fn share(name: &'static str, about: &'static str) -> MetricInfo {
    metric(name, Unit::One, Better::Neither, about)
}

fn headlines(_: &Facts) -> Vec<Headline> {
    let axes = PROBE.info.defaults().with("how", "recvmsg");
    vec![Headline::new(
        "receive 64 KiB into 8 fields: TCP on loopback",
        axes,
    )]
}

/// Where pages can be mapped, with packets of whole ones and without; and one field by one copy, as
/// the plan has it by two.
fn more_points() -> Vec<Axes> {
    let one_field = PROBE.info.defaults().with("fields", 1);
    let uncopied = PROBE.info.defaults().with("sent_by", "zero_copy");
    let ways = ["recv", "zero_copy"].into_iter();
    ways.flat_map(|how| {
        let uncopied = uncopied.clone().with("how", how);
        [16 << 10, 64 << 10, 1 << 20]
            .into_iter()
            .flat_map(move |size| {
                let uncopied = uncopied.clone().with("size", size);
                ["usual", "pages"].map(|segments| uncopied.clone().with("segments", segments))
            })
    })
    .chain([one_field.with("how", "recvmsg")])
    .collect()
}

fn how(point: &Point) -> How {
    match point.axes.word("how") {
        "recvmsg" => How::Scattered,
        "zero_copy" => How::Mapped,
        "discard" => How::Discarded,
        "multishot" => How::Multishot,
        _ => How::Buffered,
    }
}

fn over(point: &Point) -> Over {
    match point.axes.word("over") {
        "unix" => Over::Unix,
        _ => Over::Tcp,
    }
}

fn shape(point: &Point) -> Shape {
    Shape {
        size: point.axes.number("size") as usize,
        fields: point.axes.number("fields") as usize,
    }
}

fn sent_by(point: &Point) -> By {
    match point.axes.word("sent_by") {
        "zero_copy" => By::ZeroCopy,
        _ => By::Send,
    }
}

fn whole_pages(point: &Point) -> bool {
    point.axes.word("segments") == "pages"
}

/// What cannot be, wherever it is tried.
fn check(point: &Point, page_bytes: usize) -> Result<(), Failure> {
    let unsupported = |reason: &str| Err(Failure::unsupported(reason));
    match (over(point), how(point)) {
        (Over::Unix, How::Mapped) => {
            unsupported("pages of a Unix socket cannot be mapped (--set over=tcp, or how=recvmsg)")
        }
        (Over::Unix, How::Discarded) => unsupported(
            "a Unix stream socket throws nothing away that it is not given room for (--set over=tcp)",
        ),
        (Over::Unix, _) if sent_by(point) == By::ZeroCopy => {
            unsupported("a Unix socket copies all that is sent (--set sent_by=send, or over=tcp)")
        }
        (Over::Unix, _) if whole_pages(point) => {
            unsupported("only TCP has segments (--set segments=usual, or over=tcp)")
        }
        (_, How::Mapped) if shape(point).size < page_bytes => unsupported(&format!(
            "whole pages are mapped, and a message of {} B has none (--set size={page_bytes}, or \
             how=recvmsg)",
            shape(point).size
        )),
        _ => Ok(()),
    }
}

/// A failure of one end, which may not have what it is asked for.
fn failed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::Unsupported => Failure::unsupported(error.to_string()),
        _ => broken(error),
    }
}

/// Sends messages until the receiver has enough.
struct Sending {
    meeting: Meeting,
    cpus: Vec<usize>,
    listener: Option<Listener>,
}

impl Sending {
    fn start(launch: &Launch) -> Result<Sending, Failure> {
        Ok(Sending {
            meeting: meeting::meeting(launch)?,
            cpus: launch.cpus.clone(),
            listener: None,
        })
    }
}

impl Role for Sending {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let page_bytes = base_page_bytes();
        check(point, page_bytes)?;
        let (listener, offers) = meeting::listen(&point.link, &self.meeting, over(point), 1)?;
        if whole_pages(point) {
            let segment = (page_bytes + OPTIONS_BYTES) as u32;
            listener.limit_segments(segment).map_err(|error| {
                Failure::unsupported(format!(
                    "a segment cannot have a page of {page_bytes} B: {error} (--set segments=usual)"
                ))
            })?;
        }
        self.listener = Some(listener);
        Ok(offers)
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        pin(&self.cpus)?;
        let mut sender = match Sender::accept(&listener, stop, shape(point).size, sent_by(point)) {
            Ok(sender) => sender,
            // The receiver has failed and says why.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        if whole_pages(point)
            && let Some(segment) = sender.segment_bytes().map_err(|error| failed(&error))?
            && !(segment as usize).is_multiple_of(base_page_bytes())
        {
            return Err(Failure::unsupported(format!(
                "segments have {segment} B here, not whole pages: the link's MTU is smaller, or \
                 an end has no timestamps (--set segments=usual, or --link loopback)"
            )));
        }
        sender.send(stop).map_err(|error| failed(&error))?;
        // They grow with the receiver's window, so what they were at the end is told.
        if let Some(segment) = sender.segment_bytes().map_err(|error| failed(&error))? {
            meter.value("segment", f64::from(segment));
        }
        if sender.bytes() > 0 && sender.wall_ns() > 0 {
            let cpu_ns = sender.cpu_ns() as f64;
            meter.value("cpu_sender", cpu_ns / (sender.bytes() as f64 / KIB));
            meter.value(
                "sender_running",
                (cpu_ns / sender.wall_ns() as f64).min(1.0),
            );
        }
        meter.allocated(sender.allocations());
        Ok(())
    }
}

/// Receives messages, and counts them.
struct Receiving {
    meeting: Meeting,
    cpus: Vec<usize>,
    offers: Offers,
}

impl Receiving {
    fn start(launch: &Launch) -> Result<Receiving, Failure> {
        Ok(Receiving {
            meeting: meeting::meeting(launch)?,
            cpus: launch.cpus.clone(),
            offers: Offers::new(),
        })
    }
}

impl Role for Receiving {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, _: &Point, offers: &Offers) -> Result<Offers, Failure> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let address: Address = meeting::offered(&self.offers)?;
        pin(&self.cpus)?;
        let token = self.meeting.token.as_bytes();
        let called = Receiver::call(how(point), over(point), &address, shape(point), token);
        let mut receiver = called.map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => failed(&error),
            _ => cannot_reach(&address, &error),
        })?;
        // A MiB, or some messages of one.
        let some = ((1 << 20) / point.axes.number("size")).clamp(1, 1024);
        let (began, ramp) = (Instant::now(), ramp(receiver.round_trip()));
        while began.elapsed() < ramp {
            receiver.receive(some).map_err(|error| failed(&error))?;
        }
        let before = receiver.counts();
        let mut error: Option<io::Error> = None;
        meter.batches_last(BATCH_NS);
        meter.repeatable("cost", |n| {
            if error.is_none() {
                error = receiver.receive(n).err();
            }
        });
        if let Some(error) = error {
            return Err(failed(&error));
        }
        let counts = receiver.counts();
        let bytes = (counts.bytes - before.bytes) as f64;
        let cpu_ns = (counts.cpu_ns - before.cpu_ns) as f64;
        let wall_ns = (counts.wall_ns - before.wall_ns) as f64;
        let messages = (counts.messages - before.messages) as f64;
        meter.value("cpu_receiver", cpu_ns / (bytes / KIB));
        meter.value("receiver_running", (cpu_ns / wall_ns).min(1.0));
        meter.value("calls", (counts.calls - before.calls) as f64 / messages);
        if how(point) == How::Mapped {
            let mapped = (counts.mapped_bytes - before.mapped_bytes) as f64;
            meter.value("mapped", mapped / bytes);
        }
        match receiver.next_is_right().map_err(|error| failed(&error))? {
            true => Ok(()),
            false => Err(Failure::error("other bytes arrived than were sent")),
        }
    }
}

fn ramp(round_trip: Duration) -> Duration {
    (RAMP_ROUND_TRIPS * round_trip).clamp(RAMP, RAMP_MOST)
}

/// This thread runs on the first of its role's processors: each role has another first one, where
/// there are two.
fn pin(cpus: &[usize]) -> Result<(), Failure> {
    match cpus.first() {
        Some(first) => affinity::pin(&[*first])
            .map_err(|error| Failure::error(format!("cannot run on processor {first}: {error}"))),
        None => Ok(()),
    }
}

/// The receiver's report with what the sender has to add.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let [sender, mut report] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if sender.state != State::Ok || report.state != State::Ok {
        report.state = State::Failed;
        report.metrics.clear();
        return report;
    }
    // The sender waits for this end, and this end for it: that is no disturbance.
    derived::forget_disturbances(&mut report);
    derived::add_throughput(&mut report, point.axes.number("size"));
    report.metrics.extend(sender.metrics);
    report.allocations += sender.allocations;
    report
}

/// What mapping a page and taking it away again is, in reads of one byte.
const PAGE_READS: Range = Range(0.1, 3.0);

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    // Of other links it is the rate or the delay that decides.
    if !matches!(point.link.parse().ok()?, Link::Loopback | Link::Veth) {
        return None;
    }
    let pieces = Pieces::of(known, facts)?;
    let bytes = point.axes.number("size") as f64;
    let fields = point.axes.number("fields") as f64;
    let pages = bytes / base_page_bytes() as f64;
    let uncopied = sent_by(point) == By::ZeroCopy;
    let packets = packets(bytes, if uncopied { pages + 1.0 } else { 0.0 });
    let (sends, receives, packet) = pieces.packet(&point.link, point.axes.word("over"));

    let mut sender = Sum::new();
    sender.add(pieces.calls(Range::exactly(1.0)), "of calls");
    if uncopied {
        // They are copied after all, into others.
        let references = pieces.references(2.0 * (pages + 1.0), "4KiB");
        sender.add(references, "for references to pages and from them");
    }
    sender.add(pieces.copy_in(bytes, true), "of copying into the kernel");
    sender.add(packets * sends, format!("for its packets, {packet}"));
    if over(point) == Over::Tcp
        && let Some((paced, words)) = pieces.pacing(None, bytes)?
    {
        sender.add(paced, words);
    }

    let mut receiver = Sum::new();
    // Whole messages at best, else what has come.
    let calls = match how(point) {
        How::Multishot => Range(0.1, 1.0),
        _ => Range(1.0, 2.0),
    };
    receiver.add(pieces.calls(calls), "of calls");
    receiver.add(packets * receives, "for its packets");
    let copy = pieces.copy_out(bytes);
    match how(point) {
        How::Discarded => {}
        How::Mapped if uncopied => {
            receiver.add(Range(0.0, copy.1), "of copying what is not mapped");
            let mapped = PAGE_READS * (pages * pieces.read_ns);
            receiver.add(mapped, format!("for {pages:.0} mapped pages"));
        }
        _ => receiver.add(copy, "of copying out of the kernel"),
    }
    match how(point) {
        How::Buffered | How::Multishot => {
            let copied = pieces.serialise(bytes, fields, true);
            receiver.add(copied, "of copying into the fields");
        }
        How::Scattered if fields > 1.0 => {
            receiver.add(pieces.entries(bytes, fields), "for iovec entries");
        }
        How::Scattered | How::Mapped | How::Discarded => {}
    }

    let (one, other) = (sender.total(), receiver.total());
    let (takes, together) = match facts.planned_cpus().len() {
        1 => (one + other, "one after the other on one processor"),
        _ => (one.longer(other), "at the same time"),
    };
    throughput(
        bytes / takes.1 * 1e9,
        bytes / takes.0 * 1e9,
        format!(
            "for a message the receiver needs {}; the sender {}, {together}",
            receiver.in_words(),
            sender.in_words(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{measured, point};
    use costof_model::metric::{Data, Measured};

    fn at(how: &'static str, size: u64) -> Axes {
        PROBE.info.defaults().with("how", how).with("size", size)
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        let tried = |axes: Axes| {
            let tried = check(&point(&PROBE, axes), 4096);
            tried.map_err(|failure| failure.reason)
        };
        for how in ["recv", "recvmsg", "zero_copy", "discard", "multishot"] {
            assert_eq!(tried(at(how, 4096)), Ok(()));
        }
        let unix = |axes: Axes| axes.with("over", "unix");
        for (axes, says) in [
            (unix(at("zero_copy", 4096)), "over=tcp"),
            (unix(at("discard", 64)), "over=tcp"),
            (
                unix(at("recv", 64).with("sent_by", "zero_copy")),
                "sent_by=send",
            ),
            (
                unix(at("recv", 64).with("segments", "pages")),
                "segments=usual",
            ),
            (at("zero_copy", 4095), "size=4096"),
        ] {
            let reason = tried(axes).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
    }

    #[test]
    fn long_ways_take_longer_to_begin() {
        let ms = Duration::from_millis;
        assert_eq!(ramp(Duration::ZERO), RAMP);
        assert_eq!(ramp(ms(10)), ms(200));
        assert_eq!(ramp(ms(3000)), RAMP_MOST);
    }

    #[test]
    fn both_ends_reports_become_one() {
        let point = point(&PROBE, at("recv", 1000));
        let report = |name: &'static str, data: Data| Report {
            state: State::Ok,
            allocations: 1,
            metrics: vec![Measured {
                disturbed: vec![0],
                ..Measured::new(text(name), data)
            }],
        };
        let receiver = report("cost", Data::Samples(vec![(10, 1000.0)]));
        let sender = report("cpu_sender", Data::Value(7.0));
        let both = derive(&point, vec![sender.clone(), receiver.clone()]);
        let names: Vec<&str> = both.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(names, ["cost", "throughput", "cpu_sender"]);
        assert_eq!(both.metrics[1].data, Data::Value(1e10));
        assert!(both.metrics[0].disturbed.is_empty());
        assert_eq!(both.allocations, 2);
        let failed = Report {
            state: State::Failed,
            ..sender
        };
        assert_eq!(derive(&point, vec![failed, receiver]).metrics, []);
    }

    #[test]
    fn fewer_copies_are_expected_to_be_no_slower() {
        let read = crate::os::syscall::PROBE
            .info
            .defaults()
            .with("call", "read");
        let copy = Axes::default().with("op", "copy");
        let rows = [
            measured(&crate::os::syscall::PROBE, read, 100.0),
            measured(&crate::memory::bandwidth::PROBE, copy, 10e9),
        ];
        // On one processor each end's part counts.
        let facts = Facts {
            run_cpus: vec![0],
            ..Facts::default()
        };
        let expected = |how: &'static str, sent_by: &'static str, link: &'static str| {
            let mut point = point(&PROBE, at(how, 1 << 20).with("sent_by", sent_by));
            point.link = text(link);
            predict(&point, &facts, &Known(&rows))
        };
        let low = |how, sent_by| expected(how, sent_by, "loopback").unwrap().low;
        assert!(low("discard", "send") > low("recvmsg", "send"));
        assert!(low("recvmsg", "send") > low("recv", "send"));
        assert!(low("discard", "send") > low("zero_copy", "zero_copy"));
        // A call, a small packet's share, two copies out and one in, of which a cached one takes a
        // quarter of one in memory, as nothing better is known.
        let cached_ns = (1 << 20) as f64 / 10.0 / 4.0;
        let sender_ns = 100.0 + cached_ns + 16.0 * 6.0 * 100.0;
        let copied_ns = 0.9 * cached_ns + f64::max(cached_ns, 0.5 * 4.0 / 1.5 * cached_ns);
        let receiver_ns = 100.0 + copied_ns + 16.0 * 100.0;
        let most = expected("recv", "send", "loopback").unwrap().high;
        let least_ns = (1 << 20) as f64 / most * 1e9;
        assert!(
            (least_ns - sender_ns - receiver_ns).abs() < 1.0,
            "{least_ns}"
        );
        assert_eq!(expected("recv", "send", "wan"), None);
        assert_eq!(expected("recv", "send", "sink"), None);
    }
}

//! `copy.receive`: what receiving a message of several fields costs, by each way to do it.

use super::pieces::{AFTER, Pieces, packets};
use crate::arenas::Pages;
use crate::derived;
use crate::net::meeting::{self, broken, cannot_reach};
use crate::prelude::*;
use costof_exchange::receive::{By, Sender, call};
use costof_exchange::rendezvous::{Address, Listener};
use costof_model::link::Link;
use costof_model::protocol::Meeting;
use costof_model::rows::State;
use costof_os::memory::arena::base_page_bytes;
use costof_os::net::receive::{self, FIELDS_MOST, MESSAGE_LEAST_BYTES, Shape};
use costof_os::sched::affinity;
use std::io;
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

words! {
    /// How the bytes of a message come to its fields.
    pub(crate) enum How {
        /// into one buffer, out of which each field is copied: two copies
        Recv = "recv",
        /// into an entry for each field: one copy
        Recvmsg = "recvmsg",
        /// TCP_ZEROCOPY_RECEIVE: pages are mapped where they can be, and the fields are where the bytes
        /// are; one copy of what cannot
        ZeroCopy = "zero_copy",
        /// not at all (MSG_TRUNC): what receiving costs without the copy
        Discard = "discard",
        /// one request of io_uring for all messages, into a ring of buffers, out of which each field is
        /// copied: two copies
        Multishot = "multishot",
    }
}

words! {
    /// What carries messages.
    pub(crate) enum Over {
        /// a TCP connection with TCP_NODELAY
        Tcp = "tcp",
        /// a Unix stream socket; both ends on this machine
        Unix = "unix",
    }
}

words! {
    /// How the other end sends.
    pub(crate) enum SentBy {
        /// send, from one buffer
        Send = "send",
        /// MSG_ZEROCOPY, whose copy, where the receiver is on this machine, is made page by page
        ZeroCopy = "zero_copy",
    }
}

words! {
    /// What TCP puts into a segment.
    pub(crate) enum Segments {
        /// what the link's MTU leaves
        Usual = "usual",
        /// one page of the smallest size (TCP_MAXSEG), so that packets hold whole pages
        Pages = "pages",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Receive>();

point! {
    /// What does receiving a message cost with two copies, one and none?
    ///
    /// The sender repeats one message as fast as it goes, of which only the number changes. The
    /// receiver asks for what is left of one message at a time, but for multishot, where the kernel
    /// fills 32 buffers of 4 to 64 KiB as it can. The ends run on a processor each where there are
    /// two, for 50 ms and 20 round trips before anything is timed. Nothing reads the bytes while it
    /// is timed: a copy leaves them in a cache and a mapping does not, so a program that reads what
    /// it has mapped pays for that later. The number of messages is then known at both ends: the
    /// next message must have it, and every other byte as it was sent, in its field. The kernel
    /// maps nothing but what fills whole pages. Where the other end sends uncopied on this machine,
    /// the copy of a packet is made after all, page by page and from a page's start: with a payload
    /// that is no multiple of a page the rest of each packet is copied (of 65483 B, 15 pages are
    /// mapped), and a message that begins in the midst of a page has all of that packet copied.
    /// What plain sends have copied lies in larger pieces, which are never mapped.
    ///
    /// # Predicted from
    /// each end's copies as cpu.memcpy and memory.bandwidth measured them, its parts as copy.parts
    /// and os.pin, calls as os.syscall, and its share of a packet as net.rtt; BBR's pacing as
    /// os.timer; the slower end decides, or both on one processor
    ///
    /// # Sources
    /// - recv(2), recvmsg(2), tcp(7) on MSG_TRUNC
    /// - TCP_ZEROCOPY_RECEIVE: Linux net/ipv4/tcp.c, tools/testing/selftests/net/tcp_mmap.c
    /// - io_uring_prep_recv_multishot(3), io_uring_register_buf_ring(3)
    /// - Network I/O primitives, three course reports, 2026, which count the copies of a receiver
    ///   and measure those of a sender
    ///
    /// # Needs
    /// - how=zero_copy: TCP, and Linux 4.18
    /// - how=multishot: io_uring of Linux 6.0, not disabled (kernel.io_uring_disabled)
    /// - sent_by=zero_copy: TCP
    /// - segments=pages: TCP, and a link whose MTU takes a page and its headers
    /// - over=unix: both ends in one network namespace (--link loopback)
    pub(crate) struct Receive of "copy.receive" {
        /// how the message's bytes come to its fields
        how: How = words(),
        /// bytes of a message
        size: usize =
            bytes(MESSAGE_LEAST_BYTES as u64..=16 << 20, &[64 << 10, 64, 1 << 10, 4 << 10, 16 << 10, 1 << 20]),
        /// what carries them
        over: Over = words(),
        /// fields of a message, with equal shares and the rest in the last
        fields: usize = count(1..=FIELDS_MOST as u64, &[8, 1]),
        /// how the other end sends, which decides what can be mapped
        sent_by: SentBy = words(),
        /// what TCP puts into a segment
        segments: Segments = words(),
    }
}

impl Measure for Receive {
    const METRICS: &'static [Metric] = metrics! {
        /// payload that the receiver has, by its own clock
        throughput: BytesPerSecond Higher,
        /// one message
        cost: Nanoseconds Lower,
        /// processor time of the receiving thread for 1 KiB, the softirq work that runs inside it
        /// included
        cpu_receiver: Nanoseconds Lower,
        /// processor time of the sending thread for 1 KiB
        cpu_sender: Nanoseconds Lower,
        /// share of the time for which the receiving thread ran: 1 where it is what limits
        receiver_running: One Neither,
        /// share of the time for which the sending thread ran: 1 where it is what limits
        sender_running: One Neither,
        /// of zero_copy: share of the bytes that were mapped, not copied
        mapped: One Higher,
        /// system calls of the receiver for one message, those included that only waited
        calls: One Lower,
        /// payload of TCP's largest segment, at the end
        segment: Bytes Neither,
    };
    const AFTER: &'static [&'static str] = AFTER;
    const CROSSINGS: &'static [&'static [&'static str]] =
        &[&["how", "size"], &["how", "over"], &["how", "sent_by"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: &'static [&'static str] = &["size", "over", "fields"];
    const ROLE_NAMES: &'static [&'static str] = &["sender", "receiver"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Receive>(Sending::start(launch)?),
        |launch| role::<Receive>(Receiving::start(launch)?),
    ];

    fn headlines(_: &Facts) -> Vec<Headline> {
        let axes = Receive {
            how: How::Recvmsg,
            ..Receive::default()
        };
        vec![Headline::new(
            "receive 64 KiB into 8 fields: TCP on loopback",
            axes,
        )]
    }

    /// Where pages can be mapped, with packets of whole ones and without; and one field by one copy, as
    /// the plan has it by two.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let mut points = Vec::new();
        for how in [How::Recv, How::ZeroCopy] {
            for size in [16 << 10, 64 << 10, 1 << 20] {
                points.extend([Segments::Usual, Segments::Pages].map(|segments| Receive {
                    how,
                    size,
                    sent_by: SentBy::ZeroCopy,
                    segments,
                    ..Receive::default()
                }));
            }
        }
        points.push(Receive {
            how: How::Recvmsg,
            fields: 1,
            ..Receive::default()
        });
        Planned::all(points)
    }

    fn least_ns(_: &At<Receive>) -> f64 {
        180e6
    }

    fn memory_bytes(point: &At<Receive>) -> u64 {
        // Each end's messages and what lies between them; those that go uncopied lie in 16 MiB or more.
        5 * point.size as u64 + (32 << 20)
    }

    fn processors(_: &At<Receive>) -> usize {
        2
    }

    fn predict(point: &At<Receive>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        // Of other links it is the rate or the delay that decides.
        if !matches!(point.link.parse().ok()?, Link::Loopback | Link::Veth) {
            return None;
        }
        let pieces = Pieces::of(known, facts)?;
        let bytes = point.size as f64;
        let fields = point.fields as f64;
        let pages = bytes / base_page_bytes() as f64;
        let uncopied = point.sent_by == SentBy::ZeroCopy;
        let packets = packets(bytes, if uncopied { pages + 1.0 } else { 0.0 });
        let (sends, receives, packet) = pieces.packet(&point.link, point.over.word());

        let mut sender = Cost::default();
        sender += Cost::new(pieces.calls(Range::from(1.0)), "of calls");
        if uncopied {
            // They are copied after all, into others.
            let references = pieces.references(2.0 * (pages + 1.0), Pages::Base);
            sender += Cost::new(references, "for references to pages and from them");
        }
        sender += Cost::new(pieces.copy_in(bytes, true), "of copying into the kernel");
        sender += Cost::new(packets * sends, format!("for its packets, {packet}"));
        if point.over == Over::Tcp {
            sender += pieces.pacing(None, bytes)?;
        }

        let mut receiver = Cost::default();
        // Whole messages at best, else what has come.
        let calls = match point.how {
            How::Multishot => Range(0.1, 1.0),
            How::Recv | How::Recvmsg | How::ZeroCopy | How::Discard => Range(1.0, 2.0),
        };
        receiver += Cost::new(pieces.calls(calls), "of calls");
        receiver += Cost::new(packets * receives, "for its packets");
        let copy = pieces.copy_out(bytes);
        match point.how {
            How::Discard => {}
            How::ZeroCopy if uncopied => {
                receiver += Cost::new(Range(0.0, copy.1), "of copying what is not mapped");
                let mapped = PAGE_READS * (pages * pieces.read_ns);
                receiver += Cost::new(mapped, format!("for {pages:.0} mapped pages"));
            }
            How::Recv | How::Recvmsg | How::ZeroCopy | How::Multishot => {
                receiver += Cost::new(copy, "of copying out of the kernel");
            }
        }
        match point.how {
            How::Recv | How::Multishot => {
                let copied = pieces.serialise(bytes, fields, true);
                receiver += Cost::new(copied, "of copying into the fields");
            }
            How::Recvmsg if fields > 1.0 => {
                receiver += Cost::new(pieces.entries(bytes, fields), "for iovec entries");
            }
            How::Recvmsg | How::ZeroCopy | How::Discard => {}
        }

        let (sender, receiver) = (sender.named("the sender"), receiver.named("the receiver"));
        let message = match facts.planned_cpus().len() {
            1 => sender + receiver,
            _ => receiver.max(sender),
        };
        message.predict_throughput(bytes)
    }

    /// The receiver's report with what the sender has to add.
    fn derive(point: &At<Receive>, reports: Vec<Report>) -> Report {
        let [sender, mut report] = <[Report; 2]>::try_from(reports).expect("a report of each role");
        if sender.state != State::Ok || report.state != State::Ok {
            report.state = State::Failed;
            report.metrics.clear();
            return report;
        }
        // The sender waits for this end, and this end for it: that is no disturbance.
        derived::forget_disturbances(&mut report);
        derived::add_throughput(&mut report, point.size as u64);
        report.metrics.extend(sender.metrics);
        report.allocations += sender.allocations;
        report
    }
}

/// What mapping a page and taking it away again is, in reads of one byte.
const PAGE_READS: Range = Range(0.1, 3.0);

impl From<How> for receive::How {
    fn from(how: How) -> receive::How {
        match how {
            How::Recv => receive::How::Buffered,
            How::Recvmsg => receive::How::Scattered,
            How::ZeroCopy => receive::How::Mapped,
            How::Discard => receive::How::Discarded,
            How::Multishot => receive::How::Multishot,
        }
    }
}

impl From<Over> for costof_exchange::rendezvous::Over {
    fn from(over: Over) -> costof_exchange::rendezvous::Over {
        match over {
            Over::Tcp => costof_exchange::rendezvous::Over::Tcp,
            Over::Unix => costof_exchange::rendezvous::Over::Unix,
        }
    }
}

impl From<SentBy> for By {
    fn from(sent_by: SentBy) -> By {
        match sent_by {
            SentBy::Send => By::Send,
            SentBy::ZeroCopy => By::ZeroCopy,
        }
    }
}

impl Receive {
    fn shape(&self) -> Shape {
        Shape {
            size: self.size,
            fields: self.fields,
        }
    }

    /// What cannot be, wherever it is tried.
    fn check(&self, page_bytes: usize) -> Result<(), Failure> {
        let unsupported = |reason: &str| Err(Failure::unsupported(reason));
        let is_unix = self.over == Over::Unix;
        if is_unix && self.how == How::ZeroCopy {
            return unsupported(
                "pages of a Unix socket cannot be mapped (--set over=tcp, or how=recvmsg)",
            );
        }
        if is_unix && self.how == How::Discard {
            return unsupported(
                "a Unix stream socket throws nothing away that it is not given room for (--set over=tcp)",
            );
        }
        if is_unix && self.sent_by == SentBy::ZeroCopy {
            return unsupported(
                "a Unix socket copies all that is sent (--set sent_by=send, or over=tcp)",
            );
        }
        if is_unix && self.segments == Segments::Pages {
            return unsupported("only TCP has segments (--set segments=usual, or over=tcp)");
        }
        if self.how == How::ZeroCopy && self.size < page_bytes {
            return unsupported(&format!(
                "whole pages are mapped, and a message of {} B has none (--set size={page_bytes}, or \
                 how=recvmsg)",
                self.size
            ));
        }
        Ok(())
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

impl RoleAt<Receive> for Sending {
    fn blocks(&self, _: &At<Receive>) -> bool {
        true
    }

    fn prepare(&mut self, point: &At<Receive>, _: &Offers) -> Result<Offers, Failure> {
        let page_bytes = base_page_bytes();
        point.check(page_bytes)?;
        let (listener, offers) = meeting::listen(&point.link, &self.meeting, point.over.into(), 1)?;
        if point.segments == Segments::Pages {
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

    fn run(&mut self, point: &At<Receive>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let listener = self.listener.take().expect("it is prepared");
        let stop = meter.stop();
        pin(&self.cpus)?;
        let mut sender = match Sender::accept(&listener, stop, point.size, point.sent_by.into()) {
            Ok(sender) => sender,
            // The receiver has failed and says why.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(failed(&error)),
        };
        if point.segments == Segments::Pages
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

impl RoleAt<Receive> for Receiving {
    fn blocks(&self, _: &At<Receive>) -> bool {
        true
    }

    fn prepare(&mut self, _: &At<Receive>, offers: &Offers) -> Result<Offers, Failure> {
        self.offers = offers.clone();
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Receive>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let address: Address = meeting::offered(&self.offers)?;
        pin(&self.cpus)?;
        let token = self.meeting.token.as_bytes();
        let called = call(
            point.how.into(),
            point.over.into(),
            &address,
            point.shape(),
            token,
        );
        let (mut receiver, round_trip) = called.map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => failed(&error),
            _ => cannot_reach(&address, &error),
        })?;
        // A MiB, or some messages of one.
        let some = ((1 << 20) / point.size as u64).clamp(1, 1024);
        let (began, ramp) = (Instant::now(), ramp(round_trip));
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
        if point.how == How::ZeroCopy {
            let mapped = (counts.mapped_bytes - before.mapped_bytes) as f64;
            meter.value("mapped", mapped / bytes);
        }
        if !receiver.next_is_right().map_err(|error| failed(&error))? {
            return Err(Failure::error("other bytes arrived than were sent"));
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, text};
    use costof_model::axis::Axes;
    use costof_model::metric::{Data, Measured};

    fn at(how: How, size: usize) -> Receive {
        Receive {
            how,
            size,
            ..Receive::default()
        }
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        for &how in How::ALL {
            assert_eq!(at(how, 4096).check(4096), Ok(()));
        }
        let over = Over::Unix;
        let (sent_by, segments) = (SentBy::ZeroCopy, Segments::Pages);
        let mapped = at(How::ZeroCopy, 4096);
        let discarded = at(How::Discard, 64);
        let received = at(How::Recv, 64);
        for (point, says) in [
            (Receive { over, ..mapped }, "over=tcp"),
            (Receive { over, ..discarded }, "over=tcp"),
            (
                Receive {
                    over,
                    sent_by,
                    ..received.clone()
                },
                "sent_by=send",
            ),
            (
                Receive {
                    over,
                    segments,
                    ..received
                },
                "segments=usual",
            ),
            (at(How::ZeroCopy, 4095), "size=4096"),
        ] {
            let reason = point.check(4096).unwrap_err().reason;
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
        let point = at(How::Recv, 1000).into();
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
        let both = Receive::derive(&point, vec![sender.clone(), receiver.clone()]);
        let names: Vec<&str> = both.metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!(names, ["cost", "throughput", "cpu_sender"]);
        assert_eq!(both.metrics[1].data, Data::Value(1e10));
        assert!(both.metrics[0].disturbed.is_empty());
        assert_eq!(both.allocations, 2);
        let failed = Report {
            state: State::Failed,
            ..sender
        };
        assert_eq!(Receive::derive(&point, vec![failed, receiver]).metrics, []);
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
        let expected = |how, sent_by, link| {
            let axes = Receive {
                sent_by,
                ..at(how, 1 << 20)
            };
            let link = text(link);
            Receive::predict(&At { axes, link }, &facts, &Known(&rows))
        };
        let (sent, uncopied) = (SentBy::Send, SentBy::ZeroCopy);
        let low = |how, sent_by| expected(how, sent_by, "loopback").unwrap().low;
        assert!(low(How::Discard, sent) > low(How::Recvmsg, sent));
        assert!(low(How::Recvmsg, sent) > low(How::Recv, sent));
        assert!(low(How::Discard, sent) > low(How::ZeroCopy, uncopied));
        // A call, a small packet's share, two copies out and one in, of which a cached one takes a
        // quarter of one in memory, as nothing better is known.
        let cached_ns = (1 << 20) as f64 / 10.0 / 4.0;
        let sender_ns = 100.0 + cached_ns + 16.0 * 6.0 * 100.0;
        let copied_ns = 0.9 * cached_ns + f64::max(cached_ns, 0.5 * 4.0 / 1.5 * cached_ns);
        let receiver_ns = 100.0 + copied_ns + 16.0 * 100.0;
        let most = expected(How::Recv, sent, "loopback").unwrap().high;
        let least_ns = (1 << 20) as f64 / most * 1e9;
        assert!(
            (least_ns - sender_ns - receiver_ns).abs() < 1.0,
            "{least_ns}"
        );
        assert_eq!(expected(How::Recv, sent, "wan"), None);
        assert_eq!(expected(How::Recv, sent, "sink"), None);
    }
}

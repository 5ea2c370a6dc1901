//! `copy.receive`: receiving a message of several fields, by each method.

mod roles;

use super::pieces::{AFTER, Pieces, packets};
use crate::prelude::*;
use crate::two_ends::{Over, SOCKETS, joined};
use costof_exchange::pattern::repeat as exchange;
use costof_os::net::receive::{self, FIELDS_MAX, MESSAGE_MIN_BYTES, Shape};

words! {
    /// How the bytes of a message reach its fields.
    pub(crate) enum How => receive::How {
        /// recv into one buffer, from which each field is copied: two copies
        Buffered = "recv",
        /// recvmsg with an entry per field: one copy
        Scattered = "recvmsg",
        /// TCP_ZEROCOPY_RECEIVE maps the pages that it can, and copies the rest: at most one copy;
        /// fields stay where their bytes arrived
        Mapped = "zero_copy",
        /// not at all (MSG_TRUNC discards them): receiving without the copy
        Discarded = "discard",
        /// one io_uring request for all messages, into a ring of buffers, from which each field is
        /// copied: two copies
        Multishot = "multishot",
    }

    pub(crate) enum SentBy => exchange::SentBy {
        /// send, from one buffer
        Send = "send",
        /// MSG_ZEROCOPY; to a receiver on this machine the kernel still copies, page by page
        ZeroCopy = "zero_copy",
    }

    /// What TCP puts into a segment.
    pub(crate) enum Segments {
        /// as much as the link's MTU allows
        Usual = "usual",
        /// one 4 KiB page (TCP_MAXSEG), so that packets hold whole pages
        Pages = "pages",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Receive>();

point! {
    /// What does receiving a message cost with two copies, one or none?
    ///
    /// The sender repeats one message as fast as it can; only the message's number changes. The
    /// receiver asks for the rest of one message at a time. With multishot the kernel fills 32
    /// buffers of 4 to 64 KiB as it can. If there are two CPUs, each end has its own. Both ends run
    /// for 50 ms and 20 round trips before anything is timed. Nothing reads the bytes during the
    /// timed part: a copy leaves them in a cache and a mapping does not, so a program that reads
    /// mapped bytes pays for that later. Afterwards the next message must have the number on which
    /// both ends agree, and every other byte must be in its field as it was sent.
    /// The kernel maps only whole pages. If the other end sends with MSG_ZEROCOPY on this machine,
    /// the kernel copies the packet page by page, starting at a page boundary. If the payload is
    /// not a multiple of a page, the rest of each packet is copied: of 65483 B, 15 pages are
    /// mapped. If a message begins inside a page, all of that packet is copied. Plain sends leave
    /// the bytes in larger pieces, which are never mapped.
    ///
    /// # Predicted from
    /// each end's copies (cpu.memcpy, memory.bandwidth), parts (copy.parts, os.pin), calls
    /// (os.syscall) and share of a packet (net.rtt); BBR's pacing (os.timer). The slower end
    /// decides, or the sum of both on one CPU
    ///
    /// # Sources
    /// - recv(2), recvmsg(2), tcp(7) on MSG_TRUNC
    /// - TCP_ZEROCOPY_RECEIVE: Linux net/ipv4/tcp.c, tools/testing/selftests/net/tcp_mmap.c
    /// - io_uring_prep_recv_multishot(3), io_uring_register_buf_ring(3)
    /// - Network I/O primitives, three course reports, 2026, which measure the sender's copies and
    ///   only count the receiver's
    ///
    /// # Needs
    /// - how=zero_copy: TCP, and Linux 4.18
    /// - how=multishot: io_uring of Linux 6.0, not disabled (kernel.io_uring_disabled)
    /// - sent_by=zero_copy: TCP
    /// - segments=pages: TCP, and a link whose MTU takes a page and its headers
    /// - over=unix: both ends in one network namespace (--link loopback)
    pub(crate) struct Receive of "copy.receive" {
        /// how the message's bytes reach its fields
        how: How = words(),
        /// bytes of a message
        size: usize =
            bytes(MESSAGE_MIN_BYTES as u64..=16 << 20, &[64 << 10, 64, 1 << 10, 4 << 10, 16 << 10, 1 << 20]),
        /// what carries them
        over: Over = Over::that(Over::Tcp, |over, it| SOCKETS.contains(&over) && it.datagram_limit.is_none()),
        /// fields of a message, in equal shares; the last one takes the rest
        fields: usize = count(1..=FIELDS_MAX as u64, &[8, 1]),
        /// how the other end sends, which decides what can be mapped
        sent_by: SentBy = words(),
        /// what TCP puts into a segment
        segments: Segments = words(),
    }
}

impl Measure for Receive {
    const METRICS: &'static [Metric] = metrics! {
        /// payload received, by the receiver's clock
        throughput: BytesPerSecond Higher,
        /// one message
        cost: Nanoseconds Lower,
        /// CPU time of the receiving thread per KiB, including softirq work that runs in it
        cpu_receiver: Nanoseconds Lower,
        /// CPU time of the sending thread per KiB
        cpu_sender: Nanoseconds Lower,
        /// share of the time for which the receiving thread ran: 1 where it is the bottleneck
        receiver_running: One Neither,
        /// share of the time for which the sending thread ran: 1 where it is the bottleneck
        sender_running: One Neither,
        /// for zero_copy: share of the bytes that were mapped, not copied
        mapped: One Higher,
        /// system calls of the receiver per message, including those that only waited
        calls: One Lower,
        /// payload of TCP's largest segment at the end
        segment: Bytes Neither,
    };
    const AFTER: NameList = AFTER;
    const CROSSINGS: &'static [NameList] =
        &[&["how", "size"], &["how", "over"], &["how", "sent_by"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: NameList = &["size", "over", "fields"];
    const PROCESSORS: usize = 2;
    const ROLE_NAMES: NameList = &["sender", "receiver"];
    const ROLES: &'static [StartRole] = &[
        |launch| role::<Receive>(roles::Sending::start(launch)?),
        |launch| role::<Receive>(roles::Receiving::start(launch)?),
    ];

    headlines! {
        "receive 64 KiB into 8 fields: TCP on loopback": { how: How::Scattered },
    }

    /// Mapping with and without whole pages per packet; and one field with one copy, as the plan
    /// has it with two.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let mut points = Vec::new();
        for how in [How::Buffered, How::Mapped] {
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
        points.push(Receive { how: How::Scattered, fields: 1, ..Receive::default() });
        Planned::all(points)
    }

    fn least_ns(_: &At<Self>) -> f64 {
        180e6
    }

    fn check_axes(point: &At<Self>) -> Result {
        // The size of a page is the machine's.
        point.check(0)
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        // Both ends' messages and the socket buffers. Uncopied messages use 16 MiB or more.
        5 * point.size as u64 + (32 << 20)
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        // On other links the rate or the delay decides.
        if !matches!(point.link.parse().ok()?, Link::Loopback | Link::Veth) {
            return None;
        }
        let pieces = Pieces::new(measured, facts)?;
        let sender = sender_cost(point, &pieces)?.named("the sender");
        let receiver = receiver_cost(point, &pieces).named("the receiver");
        let message = match facts.planned_cpus().len() {
            1 => sender + receiver,
            _ => receiver.max(sender),
        };
        message.predict_throughput(point.size as f64)
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let [sender, mut receiver] =
            <[Report; 2]>::try_from(reports).expect("a report of each role");
        // The ends wait for each other, which is not a disturbance.
        derived::forget_disturbances(&mut receiver);
        derived::add_throughput(&mut receiver, point.size as u64);
        joined(vec![receiver, sender])
    }
}

/// Mapping and unmapping a page, in reads of one byte.
const PAGE_READS: Range = Range(0.1, 3.0);

/// Whole pages in a message.
fn pages(point: &Receive) -> f64 {
    point.size as f64 / base_page_bytes() as f64
}

fn message_packets(point: &Receive) -> Range {
    let pieces = match point.sent_by {
        SentBy::Send => 0.0,
        SentBy::ZeroCopy => pages(point) + 1.0,
    };
    packets(point.size as f64, pieces)
}

fn sender_cost(point: &At<Receive>, pieces: &Pieces<'_>) -> Option<Cost> {
    let bytes = point.size as f64;
    let (sends, _, packet) = pieces.packet(&point.link, point.over);
    let mut sender = Cost::new(pieces.calls(Range::from(1.0)), "of calls");
    if point.sent_by == SentBy::ZeroCopy {
        // The kernel copies them on loopback, into new pages.
        let references = pieces.references(2.0 * (pages(point) + 1.0), Pages::Base);
        sender += Cost::new(references, "for references to pages and from them");
    }
    sender += Cost::new(pieces.copy_in(bytes, true), "of copying into the kernel");
    let packets = message_packets(point) * sends;
    sender += Cost::new(packets, format!("for its packets, {packet}"));
    if point.over == Over::Tcp {
        sender += pieces.pacing(None, bytes)?;
    }
    Some(sender)
}

fn receiver_cost(point: &At<Receive>, pieces: &Pieces<'_>) -> Cost {
    let (bytes, fields) = (point.size as f64, point.fields as f64);
    let (_, receives, _) = pieces.packet(&point.link, point.over);
    // Whole messages at best, otherwise what has arrived.
    let calls = match point.how {
        How::Multishot => Range(0.1, 1.0),
        How::Buffered | How::Scattered | How::Mapped | How::Discarded => Range(1.0, 2.0),
    };
    let mut receiver = Cost::new(pieces.calls(calls), "of calls");
    receiver += Cost::new(message_packets(point) * receives, "for its packets");
    let copy = pieces.copy_out(bytes);
    match point.how {
        How::Discarded => {}
        How::Mapped if point.sent_by == SentBy::ZeroCopy => {
            receiver += Cost::new(Range(0.0, copy.1), "of copying what is not mapped");
            let pages = pages(point);
            let mapped = PAGE_READS * (pages * pieces.read_ns);
            receiver += Cost::new(mapped, format!("for {pages:.0} mapped pages"));
        }
        How::Buffered | How::Scattered | How::Mapped | How::Multishot => {
            receiver += Cost::new(copy, "of copying out of the kernel");
        }
    }
    match point.how {
        How::Buffered | How::Multishot => {
            let copied = pieces.serialise(bytes, fields, true);
            receiver += Cost::new(copied, "of copying into the fields");
        }
        How::Scattered if fields > 1.0 => {
            receiver += Cost::new(pieces.entries(bytes, fields), "for iovec entries");
        }
        How::Scattered | How::Mapped | How::Discarded => {}
    }
    receiver
}

impl Receive {
    fn shape(&self) -> Shape {
        Shape { size: self.size, fields: self.fields }
    }

    /// Refuses combinations that do not exist on any machine.
    fn check(&self, page_bytes: usize) -> Result {
        if self.over == Over::Unix {
            if self.how == How::Mapped {
                unsupported!(
                    "pages of a Unix socket cannot be mapped (--set over=tcp, or how=recvmsg)"
                );
            }
            if self.how == How::Discarded {
                unsupported!(
                    "a Unix stream socket cannot discard what it receives (--set over=tcp)"
                );
            }
            if self.sent_by == SentBy::ZeroCopy {
                unsupported!(
                    "a Unix socket copies everything that is sent (--set sent_by=send, or over=tcp)"
                );
            }
            if self.segments == Segments::Pages {
                unsupported!("only TCP has segments (--set segments=usual, or over=tcp)");
            }
        }
        if self.how == How::Mapped && self.size < page_bytes {
            unsupported!(
                "whole pages are mapped, and a message of {} B has none (--set size={page_bytes}, or \
                 how=recvmsg)",
                self.size
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, data, names, number, read_and_copy, report, samples, text};
    use costof_model::metric::{Data, Measured};
    use costof_model::rows::State;

    fn at(how: How, size: usize) -> Receive {
        Receive { how, size, ..Receive::default() }
    }

    #[test]
    fn what_cannot_be_says_the_way_out() {
        for &how in How::ALL {
            assert_eq!(at(how, 4096).check(4096), Ok(()));
        }
        for (values, says) in [
            ("over=unix how=zero_copy size=4KiB", "over=tcp"),
            ("over=unix how=discard size=64", "over=tcp"),
            ("over=unix size=64 sent_by=zero_copy", "sent_by=send"),
            ("over=unix size=64 segments=pages", "segments=usual"),
            ("how=zero_copy size=4095", "size=4096"),
        ] {
            let point: Receive = testing::at(values);
            let reason = point.check(4096).unwrap_err().reason;
            assert!(reason.contains(says), "{reason}");
        }
    }

    #[test]
    fn both_ends_reports_become_one() {
        let point = at(How::Buffered, 1000).into();
        let report = |measured| Report {
            allocations: 1,
            ..report(vec![Measured { disturbed: vec![0], ..measured }])
        };
        let receiver = report(samples("cost", &[(10, 1000.0)]));
        let sender = report(number("cpu_sender", 7.0));
        let both = Receive::derive(&point, vec![sender.clone(), receiver.clone()]);
        assert_eq!(names(&both), ["cost", "throughput", "cpu_sender"]);
        assert_eq!(data(&both, "throughput"), Some(&Data::Value(1e10)));
        assert!(both.metrics[0].disturbed.is_empty());
        assert_eq!(both.allocations, 2);
        let failed = Report { state: State::Failed, ..sender };
        assert_eq!(Receive::derive(&point, vec![failed, receiver]).metrics, []);
    }

    #[test]
    fn fewer_copies_are_expected_to_be_no_slower() {
        let rows = read_and_copy();
        // On one CPU the two ends' costs add up.
        let facts = Facts { run_cpus: vec![0], ..Facts::default() };
        let expected = |how, sent_by, link| {
            let axes = Receive { sent_by, ..at(how, 1 << 20) };
            let link = text(link);
            Receive::predict(&At { axes, link }, &facts, &MeasuredRows::new(&rows))
        };
        let (sent, uncopied) = (SentBy::Send, SentBy::ZeroCopy);
        let low = |how, sent_by| expected(how, sent_by, "loopback").unwrap().low;
        assert!(low(How::Discarded, sent) > low(How::Scattered, sent));
        assert!(low(How::Scattered, sent) > low(How::Buffered, sent));
        assert!(low(How::Discarded, sent) > low(How::Mapped, uncopied));
        // A call, a share of a small packet, two copies out and one in. Without a measurement a
        // cached copy takes a quarter of one in memory.
        let cached_ns = (1 << 20) as f64 / 10.0 / 4.0;
        let sender_ns = 100.0 + cached_ns + 16.0 * 6.0 * 100.0;
        let copied_ns = 0.9 * cached_ns + f64::max(cached_ns, 0.5 * 4.0 / 1.5 * cached_ns);
        let receiver_ns = 100.0 + copied_ns + 16.0 * 100.0;
        let most = expected(How::Buffered, sent, "loopback").unwrap().high;
        let least_ns = (1 << 20) as f64 / most * 1e9;
        assert!((least_ns - sender_ns - receiver_ns).abs() < 1.0, "{least_ns}");
        assert_eq!(expected(How::Buffered, sent, "wan"), None);
        assert_eq!(expected(How::Buffered, sent, "sink"), None);
    }
}

//! What sending should give.

use super::{Pattern, over, pattern, threads};
use crate::expect::throughput;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::point::Point;
use costof_model::prediction::{Known, Prediction};
use costof_model::unit::Unit;
use costof_os::meeting::Over;

/// What a packet holds within the machine, at most: what TCP hands down at once.
const PACKET_BYTES: f64 = 65_536.0;

/// How many copies the sender's half makes of a message's bytes on a link, at least and at most, and
/// how many system calls it takes.
struct Way {
    copies: (f64, f64),
    calls: f64,
    /// How many references it takes to each page.
    pages: f64,
}

fn way(point: &Point) -> Way {
    let fields = point.axes.number("fields") as f64;
    let received = point.link != "sink";
    // A copy that is left out at the sender is made later where the receiver is on this machine.
    let later = if received { 1.0 } else { 0.0 };
    let (copies, calls, pages) = match point.axes.word("primitive") {
        "one_copy" | "uring_send" => ((1.0, 1.0), 1.0, 0.0),
        "write_each" => ((1.0, 1.0), fields, 0.0),
        "zero_copy" | "uring_zero_copy" => ((0.0, later), 1.1, 1.0),
        "sendfile_memory" | "sendfile_file" => ((0.0, 0.0), 1.0, 1.0),
        "splice" => ((0.0, 0.0), 2.0, 1.0),
        // What is copied first is in a cache when it is copied again.
        _ => ((1.2, 2.0), 1.0, 0.0),
    };
    Way {
        copies,
        calls,
        pages,
    }
}

pub(super) fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let received = match point.link.parse().ok()? {
        Link::Loopback | Link::Veth => true,
        Link::Sink => false,
        // Nothing is known of another host's network, and net.bandwidth says what a rate leaves.
        Link::Remote | Link::Emulated { .. } => return None,
    };
    if pattern(point) != Pattern::Stream {
        return None;
    }
    let read_ns = known.primary("os.syscall", &[("call", "read")])?;
    let copy = known.primary("memory.bandwidth", &[("op", "copy")])? / 1e9;
    let bytes = point.axes.number("size") as f64;
    let fields = point.axes.number("fields") as f64;
    let way = way(point);
    // What both ends do once for each packet, in reads, as net.bandwidth expects it.
    let each = match over(point) {
        Over::Unix => (1.0, 15.0),
        Over::Tcp | Over::Udp => (2.0, 30.0),
    };
    let packets = (bytes / PACKET_BYTES).max(1.0);
    // Of small messages several share a packet, at best.
    let least_packets = (bytes / PACKET_BYTES).min(packets);
    let pages = way.pages * (bytes / 4096.0 + fields);
    let calls_ns = way.calls * read_ns;
    // A message that is cached is copied up to four times as fast as memory is.
    let cached = match point.axes.word("source") {
        "hot" => 4.0,
        _ => 1.0,
    };
    let copies_ns = (
        way.copies.0 * bytes / copy / cached,
        way.copies.1 * 2.0 * bytes / copy,
    );
    let receiver_ns = match received {
        true => (bytes / copy / 4.0, 2.0 * bytes / copy),
        false => (0.0, 0.0),
    };
    let packets_ns = (least_packets * each.0 * read_ns, packets * each.1 * read_ns);
    // A reference to a page is taken and given back: two changes of a number that processors share.
    let pages_ns = (0.02 * pages * read_ns, pages * read_ns);
    let sender_ns = copies_ns.0 + calls_ns + packets_ns.0 + pages_ns.0;
    let least_ns = sender_ns.max(receiver_ns.0);
    let most_ns = copies_ns.1 + calls_ns + packets_ns.1 + pages_ns.1 + receiver_ns.1;
    // As many at the same time as there are processors for both ends.
    let ends = if received { 2 } else { 1 };
    let at_once = threads(point).min(facts.usable_cpus().len() / ends).max(1) as f64;
    let ns = |(low, high): (f64, f64)| {
        let show = |ns| Unit::Nanoseconds.display(ns);
        format!("{} to {}", show(low), show(high))
    };
    let receiver = match received {
        true => format!(
            ", at the same time or afterwards {} of the receiver's copy",
            ns(receiver_ns)
        ),
        false => String::new(),
    };
    throughput(
        bytes / most_ns * 1e9,
        at_once * bytes / least_ns * 1e9,
        format!(
            "a message takes the sender {} for {} to {} copies by the {} that memory.bandwidth \
             measured, {} for {} system calls, {} for its packets and {} for references to pages, in \
             reads of {read_ns:.0} ns{receiver}",
            ns(copies_ns),
            way.copies.0,
            way.copies.1,
            Unit::BytesPerSecond.display(copy * 1e9),
            Unit::Nanoseconds.display(calls_ns),
            way.calls,
            ns(packets_ns),
            ns(pages_ns),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::PROBE;
    use super::*;
    use crate::literal::{measured, point};
    use crate::{memory, os};

    fn expected(primitive: &'static str, link: &'static str) -> Option<Prediction> {
        let read = os::syscall::PROBE.info.defaults().with("call", "read");
        let copy = memory::bandwidth::PROBE.info.defaults().with("op", "copy");
        let known = [
            measured(&os::syscall::PROBE, read, 100.0),
            measured(&memory::bandwidth::PROBE, copy, 10e9),
        ];
        let axes = PROBE.info.defaults().with("primitive", primitive);
        let mut point = point(&PROBE, axes.with("size", 1 << 20));
        point.link = link.into();
        predict(&point, &Facts::default(), &Known(&known))
    }

    #[test]
    fn fewer_copies_are_expected_to_be_faster_and_a_deferred_one_is_not() {
        let most = |primitive, link| expected(primitive, link).unwrap().high;
        assert!(most("one_copy", "sink") > most("two_copy", "sink"));
        assert!(most("zero_copy", "sink") > most("one_copy", "sink"));
        let least = |primitive, link| expected(primitive, link).unwrap().low;
        assert!(least("zero_copy", "loopback") < least("one_copy", "loopback"));
    }

    #[test]
    fn what_is_not_known_is_not_predicted() {
        for link in ["wan", "remote", "delay=10ms"] {
            assert_eq!(expected("two_copy", link), None);
        }
        let mut unknown = point(&PROBE, PROBE.info.defaults());
        unknown.link = "loopback".into();
        assert_eq!(predict(&unknown, &Facts::default(), &Known(&[])), None);
    }
}

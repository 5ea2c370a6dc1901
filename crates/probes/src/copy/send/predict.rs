//! What sending should give.

use super::{is_echo, over, threads};
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
    /// What is done besides for each page, in reads: taking a reference, and giving it back.
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
    if is_echo(point) {
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
    let pages = way.pages * (bytes / 4096.0 + fields);
    let calls = way.calls * read_ns;
    // A cached message is copied faster than memory is: up to four times.
    let hot = if point.axes.word("source") == "hot" {
        4.0
    } else {
        1.0
    };
    let receiver = if received { bytes / copy } else { 0.0 };
    let sender_least = way.copies.0 * bytes / copy / hot;
    let least_ns = sender_least.max(receiver / 4.0)
        + calls
        + packets.min(1.0) * each.0 * read_ns
        + 0.02 * pages * read_ns;
    let most_ns = way.copies.1 * bytes / (copy / 2.0)
        + 2.0 * receiver
        + calls
        + packets * each.1 * read_ns
        + pages * read_ns;
    // As many at the same time as there are processors for both ends.
    let ends = if received { 2 } else { 1 };
    let at_once = threads(point).min(facts.usable_cpus().len() / ends).max(1) as f64;
    throughput(
        bytes / most_ns * 1e9,
        at_once * bytes / least_ns * 1e9,
        format!(
            "{} to {} copies at the sender{}, at half of the {} that memory.bandwidth measured to \
             {hot} times it, at the same time or one after the other; {} system calls, and {} to {} \
             reads of {read_ns:.0} ns for each packet, and up to one for each of {pages:.0} pages",
            way.copies.0,
            way.copies.1,
            if received {
                " and one at the receiver"
            } else {
                ""
            },
            Unit::BytesPerSecond.display(copy * 1e9),
            way.calls,
            each.0,
            each.1,
        ),
    )
}

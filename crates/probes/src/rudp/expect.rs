//! What a round trip of reliable datagrams is predicted to take, from simpler costs.

use crate::ends::switch_ns;
use crate::literal::axis;
use crate::net::axes;
use crate::net::echo::{size, wait};
use crate::net::path::{self, UDP_HEADERS};
use crate::net::rtt;
use crate::os::syscall;
use crate::rudp::ends;
use costof_model::point::Point;
use costof_model::prediction::Known;
use costof_model::unit::Unit;
use costof_os::conversation::Wait;

/// A range in nanoseconds, and the sum in words.
pub(crate) type Range = (f64, f64, String);

/// A UDP round trip of a point's size over its link, as net.rtt has measured it, else as the sum
/// that net.rtt is predicted by.
pub(crate) fn udp_ns(point: &Point, known: &Known<'_>) -> Option<Range> {
    let axes = &point.axes;
    let bytes = axes.number("size").to_string();
    let same = [
        ("over", "udp"),
        ("wait", axes.word("wait")),
        ("cpus", axes.word("cpus")),
        ("wake", axes.word("wake")),
        ("size", &bytes),
        ("rate", "0"),
    ];
    if let Some(ns) = known.primary_over(&point.link, "net.rtt", &same) {
        let because = format!(
            "the round trip by UDP, {} as net.rtt measured, times 0.85 to 1.25",
            Unit::Nanoseconds.display(ns)
        );
        return Some((0.85 * ns, 1.25 * ns, because));
    }
    let read_ns = syscall::one_thread_ns(known, "read")?;
    let (mut low, mut high, mut because) = rtt::kernel_ns(axes::Over::Udp, size(point), read_ns);
    if wait(point) == Wait::Block {
        let switch_ns = switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
        low += 1.6 * switch_ns;
        high += 2.5 * switch_ns;
        because = format!(
            "two context switches of {} by a pipe, times 0.8 to 1.25; {because}",
            Unit::Nanoseconds.display(switch_ns)
        );
    }
    let (link_low, link_high, link) = path::adds(&point.link, size(point) as u64, UDP_HEADERS)?;
    Some((low + link_low, high + link_high, because + &link))
}

/// Datagrams that a message of so many bytes is sent in by the library.
fn datagrams(point: &Point, size: usize) -> u64 {
    let config = ends::config(point, rudp::Control::Cubic, size);
    (size as u64).div_ceil(config.datagram_bytes as u64).max(1)
}

/// What the library adds to a UDP round trip: at each end a datagram's state, tag and copy, and system
/// calls that say more.
pub(crate) fn library_ns(point: &Point, known: &Known<'_>) -> Option<Range> {
    library_of(point, size(point), known)
}

/// The same of a message of so many bytes.
pub(crate) fn library_of(point: &Point, size: usize, known: &Known<'_>) -> Option<Range> {
    let read_ns = syscall::one_thread_ns(known, "read")?;
    let (datagrams, size) = (datagrams(point, size), size as f64);
    let handled = 4.0 * datagrams as f64;
    Some((
        0.5 * handled * read_ns + 4.0 * size / 20.0,
        (8.0 * handled + 4.0) * read_ns + 12.0 * size / 5.0,
        format!(
            "; by the library, {handled} datagrams written or read, each a half to 8 reads of \
             {read_ns:.0} ns for its state, memory and clock; up to 4 more system calls; and 4 tags \
             and up to 8 copies of {size} B at 5 to 20 GB/s"
        ),
    ))
}

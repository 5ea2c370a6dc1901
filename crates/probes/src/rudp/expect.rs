//! What a round trip of reliable datagrams is predicted to take, from simpler costs.

use crate::ends::switch_ns;
use crate::net::axes::{Exchange, Over, Wait};
use crate::net::path::{self, UDP_HEADERS};
use crate::net::rtt::{self, Rtt};
use crate::os::syscall;
use crate::rudp::ends;
use costof_model::prediction::Known;
use costof_model::unit::Unit;

/// A range in nanoseconds, and the sum in words.
pub(crate) type Range = (f64, f64, String);

/// Such a round trip by UDP over this link, as net.rtt has measured it, else as the sum that net.rtt is
/// predicted by.
pub(crate) fn udp_ns(link: &str, ends: Exchange, known: &Known<'_>) -> Option<Range> {
    let over = Over::Udp;
    let same = Rtt::from(Exchange { over, ..ends });
    if let Some(ns) = known.at_over(link, &same) {
        let because = format!(
            "the round trip by UDP, {} as net.rtt measured, times 0.85 to 1.25",
            Unit::Nanoseconds.display(ns)
        );
        return Some((0.85 * ns, 1.25 * ns, because));
    }
    let read_ns = syscall::one_thread_ns(known, syscall::Call::Read)?;
    let (mut low, mut high, mut because) = rtt::kernel_ns(over, ends.size, read_ns);
    if ends.wait == Wait::Block {
        let switch_ns = switch_ns(ends.cpus, ends.wake, known)?;
        low += 1.6 * switch_ns;
        high += 2.5 * switch_ns;
        because = format!(
            "two context switches of {} by a pipe, times 0.8 to 1.25; {because}",
            Unit::Nanoseconds.display(switch_ns)
        );
    }
    let (link_low, link_high, link) = path::adds(link, ends.size as u64, UDP_HEADERS)?;
    Some((low + link_low, high + link_high, because + &link))
}

/// Datagrams that a message of so many bytes is sent in by the library.
fn datagrams(link: &str, size: usize) -> u64 {
    let config = ends::config(link, rudp::Control::Cubic, size);
    (size as u64).div_ceil(config.datagram_bytes as u64).max(1)
}

/// What the library adds to a UDP round trip of so many bytes: at each end a datagram's state, tag and copy, and system
/// calls that say more.
pub(crate) fn library_ns(link: &str, size: usize, known: &Known<'_>) -> Option<Range> {
    let read_ns = syscall::one_thread_ns(known, syscall::Call::Read)?;
    let (datagrams, size) = (datagrams(link, size), size as f64);
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

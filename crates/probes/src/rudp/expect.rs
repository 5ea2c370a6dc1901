//! What a round trip of reliable datagrams is predicted to take, from simpler costs.

use crate::net::axes::{Exchange, Over, Transport};
use crate::net::ping_pong;
use crate::net::rtt;
use crate::os::syscall;
use costof_model::cost::Cost;
use costof_model::prediction::Known;

/// Such a round trip by UDP over this link, as net.rtt has measured it, else as net.rtt is predicted.
pub(crate) fn udp(link: &str, exchange: &Exchange, known: &Known<'_>) -> Option<Cost> {
    let exchange = &Exchange {
        transport: Transport::Socket(Over::Udp),
        ..*exchange
    };
    if let Some(ns) = rtt::measured(link, exchange, known) {
        return Some(Cost::new(ns, "for a round trip by UDP (net.rtt)") * (0.85, 1.25));
    }
    rtt::round_trip(link, exchange, exchange.waiting_ends(), known)
}

/// Datagrams that a message of so many bytes is sent in by the library.
fn datagrams(link: &str, size: usize) -> u64 {
    let config = ping_pong::config(link, size);
    (size as u64).div_ceil(config.datagram_bytes as u64).max(1)
}

/// What the library adds to a UDP round trip of so many bytes: at each end a datagram's state, tag and
/// copy, and system calls that say more.
pub(crate) fn library(link: &str, size: usize, known: &Known<'_>) -> Option<Cost> {
    let read = syscall::measured(known, syscall::Call::Read)?;
    let (handled, size) = (4.0 * datagrams(link, size) as f64, size as f64);
    let datagrams = (read.clone() * (0.5, 8.0)) * handled;
    let calls = read * (0.0, 4.0);
    let bytes = (4.0 * size / 20.0, 12.0 * size / 5.0);
    Some(
        datagrams.named(format!(
            "{handled} datagrams written or read by the library"
        )) + calls.named("its other system calls")
            + Cost::new(bytes, format!("for 4 tags and up to 8 copies of {size} B")),
    )
}

//! What is known of a link before anything is sent over it.

use crate::prelude::*;

/// The header of an IP packet over IPv4, in bytes.
pub(crate) const IP_HEADER: u64 = 20;
/// With TCP's 20 bytes and 12 of timestamps; with the 8 of UDP or ICMP.
pub(crate) const TCP_HEADERS: u64 = IP_HEADER + 32;
pub(crate) const UDP_HEADERS: u64 = IP_HEADER + 8;
/// The largest packet on veth and emulated links, in bytes.
pub(crate) const MTU: u64 = 1500;
/// The time that an emulated link's own processing adds to a round trip, in nanoseconds: two
/// wake-ups of a timer or a process, which take longer in a virtual machine.
const EMULATED_NS: Range = Range(1e3, 250e3);

fn parse(link: &str) -> Option<Link> {
    link.parse().ok()
}

/// Whether the link adds nothing to what the kernel takes.
pub(crate) fn is_plain(link: &str) -> bool {
    !matches!(parse(link), Some(Link::Emulated { .. }))
}

/// The link's delays in both directions, in nanoseconds; 0 if unknown.
pub(crate) fn delays_ns(link: &str) -> f64 {
    let delays = parse(link).and_then(|link| link.round_trip_ns());
    delays.map_or(0.0, |(ns, _)| ns)
}

/// The time to send this many bytes at the link's rate, in nanoseconds; 0 without a rate.
pub(crate) fn sending_ns(link: &str, bytes: u64) -> f64 {
    match parse(link) {
        Some(Link::Emulated { up, .. }) => up.rate.map_or(0.0, |rate| bytes as f64 * 8e9 / rate),
        _ => 0.0,
    }
}

/// Whether the link loses packets in either direction.
pub(crate) fn loses(link: &str) -> bool {
    match parse(link) {
        Some(Link::Emulated { up, down }) => up.loss + down.loss > 0.0,
        _ => false,
    }
}

/// What the link adds to a round trip of `bytes` bytes each way; 0 if it adds no delay. `None` for
/// a network of which nothing is known.
pub(crate) fn cost(link: &str, bytes: u64, headers: u64) -> Option<Cost> {
    if parse(link) == Some(Link::Remote) {
        return None;
    }
    let Some(link @ Link::Emulated { up, down }) = parse(link) else {
        return Some(Cost::default());
    };
    let (delays_ns, delays) = link.round_trip_ns().unwrap_or_default();
    let jitter_ns = up.jitter_ns + down.jitter_ns;
    let delay = ((delays_ns - jitter_ns).max(0.0), delays_ns + jitter_ns);
    let mut cost = Cost::new(delay, format!("for the link's delay, {delays}"));
    let on_the_wire = bytes + bytes.div_ceil(MTU - headers).max(1) * headers;
    for (way, rate) in [("there", up.rate), ("back", down.rate)] {
        if let Some(rate) = rate {
            let name = format!("for {on_the_wire} B {way} at {} Mbit/s", rate / 1e6);
            cost += Cost::new(on_the_wire as f64 * 8e9 / rate, name);
        }
    }
    Some(cost + Cost::new(EMULATED_NS, "for the link's emulator"))
}

/// How long the link may delay a round trip of `bytes` bytes each way; 0 if unknown.
pub(crate) fn may_take(link: &str, bytes: u64, headers: u64) -> Duration {
    let cost = cost(link, bytes, headers).unwrap_or_default();
    Duration::from_nanos(cost.range.1 as u64)
}

/// Round trips for which a launch has time, however slow the link: three launches have a dozen.
const ROUND_TRIPS: f64 = 4.0;
/// The longest point, in nanoseconds: a worker that does not answer in time is considered hung.
const LASTS_MAX_NS: f64 = 20e9;

/// The shortest time of a point, in nanoseconds, so that some round trips of `bytes` bytes each way
/// fit; 0 if nothing is known of the link.
pub(crate) fn least_ns(link: &str, bytes: u64, headers: u64) -> f64 {
    let Range(low, high) = cost(link, bytes, headers).unwrap_or_default().range;
    lasts_ns((low + high) / 2.0)
}

/// How long to measure over a link with this round trip, in nanoseconds.
pub(crate) fn lasts_ns(round_trip_ns: f64) -> f64 {
    (ROUND_TRIPS * round_trip_ns).min(LASTS_MAX_NS)
}

/// The most that slow start adds to a TCP round trip of `bytes` bytes each way: a connection begins
/// with ten packets (RFC 6928) and doubles them with each round trip.
pub(crate) fn slow_start(link: &str, bytes: u64) -> Cost {
    const FIRST: u64 = 10 * (MTU - TCP_HEADERS);
    if bytes <= FIRST {
        return Cost::default();
    }
    // After n round trips, FIRST * (2^n - 1) bytes have arrived.
    let rounds = (bytes as f64 / FIRST as f64 + 1.0).log2().ceil() - 1.0;
    let name = format!("for {rounds} more round trips each way until the window holds {bytes} B");
    Cost::new((0.0, 2.0 * rounds * delays_ns(link)), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_link_has_time_for_some_round_trips() {
        let least_ms = |link| (least_ns(link, 56, TCP_HEADERS) / 1e6).round();
        // 4 times 190 ms, the emulator's time, and 108 B at the link's rate.
        assert_eq!(least_ms("wan"), 761.0);
        assert_eq!(least_ms("lan"), 1.0);
        assert_eq!(least_ms("up.delay=50ms"), 201.0);
        assert_eq!(least_ms("delay=2s,rate=1kbit"), 20_000.0);
        assert_eq!((least_ms("loopback"), least_ms("remote")), (0.0, 0.0));
    }
}

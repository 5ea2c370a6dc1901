//! Predictions of `net.bandwidth`.

use super::Bandwidth;
use crate::expect::throughput;
use crate::prelude::*;
use crate::two_ends::Over;
use crate::two_ends::path::{IP_HEADER, MTU};

/// The largest packet that TCP passes to the device layer within a machine.
const PACKET_BYTES: f64 = 65_536.0;

pub(super) fn predict(
    point: &At<Bandwidth>,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    match point.link.parse().ok()? {
        Link::Loopback => within_the_machine(point, PACKET_BYTES, facts, measured),
        Link::Veth => within_the_machine(point, (MTU - IP_HEADER) as f64, facts, measured),
        // Nothing is known of another host's network, and nothing arrives in a sink.
        Link::Remote | Link::Sink => None,
        Link::Emulated { up, .. } => {
            // Loss, jitter and reordering matter as much as the rate, and their effect depends on
            // the congestion control.
            let only_a_rate = up.loss + up.reorder + up.duplicate + up.jitter_ns == 0.0;
            let rate = up.rate.filter(|_| only_a_rate)?;
            at_a_rate(point, rate)
        }
    }
}

/// Most or all of the link's rate, less headers.
fn at_a_rate(point: &At<Bandwidth>, rate: f64) -> Option<Prediction> {
    let header = point.over.description().headers;
    let payload = match point.over {
        Over::Tcp => MTU - header,
        // A datagram that is cut into several packets is lost with any of them.
        Over::Udp if point.size as u64 <= MTU - header => point.size as u64,
        _ => return None,
    };
    let limit = rate / 8.0 * payload as f64 / (payload + header) as f64;
    throughput(
        0.8 * limit,
        limit,
        format!(
            "the link's {} less {header} B of headers with {payload} B of payload; up to a \
             fifth of it stays unused",
            Unit::BytesPerSecond.display(rate / 8.0)
        ),
    )
}

/// Two copies, and the protocol. A datagram takes as many packets of `packet` bytes as it needs.
fn within_the_machine(
    point: &At<Bandwidth>,
    packet: f64,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let read = syscall::measured_cost(measured, syscall::Call::Read)?;
    let measured = measured.primary("memory.bandwidth", &[("op", "copy")]);
    let copy = measured.map_or(10.0, |measured| measured / 1e9);
    let bytes = point.size as f64;
    // The kernel segments what a device cannot take whole as late as possible.
    let packet = if point.over == Over::Udp { packet } else { PACKET_BYTES };
    let each = point.over.description().packet_reads;
    let packets = (bytes / packet).max(1.0);
    // The receiver copies from another CPU's cache, which is no nearer than memory.
    let copies = Cost::bytes(bytes, (copy / 3.5, copy / 1.5), "copied twice, in turn or at once,");
    let calls = (read * each * packets).named("for its packets");
    // As many flows at once as there are CPUs for both ends.
    let at_once = point.flows.min(facts.usable_cpus().len() / 2).max(1) as f64;
    (copies + calls).predict_throughput((bytes, at_once * bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_a_link(over: Over, size: usize, link: &'static str) -> Option<Prediction> {
        let axes = Bandwidth { over, size, ..Bandwidth::default() };
        let link = link.into();
        predict(&At { axes, link }, &Facts::default(), &MeasuredRows::new(&[]))
    }

    #[test]
    fn a_rate_is_what_is_left_of_it_without_headers() {
        let tcp = over_a_link(Over::Tcp, 128 << 10, "wan").unwrap();
        assert!((tcp.high - 12.5e6 * 1448.0 / 1500.0).abs() < 1.0, "{tcp:?}");
        let udp = over_a_link(Over::Udp, 1024, "rate=8Mbit").unwrap();
        assert!((udp.high - 1e6 * 1024.0 / 1052.0).abs() < 1.0, "{udp:?}");
    }

    #[test]
    fn what_is_not_known_is_not_predicted() {
        assert_eq!(over_a_link(Over::Udp, 65507, "lan"), None);
        assert_eq!(over_a_link(Over::Tcp, 1024, "rate=8Mbit,loss=1%"), None);
        assert_eq!(over_a_link(Over::Tcp, 1024, "delay=10ms"), None);
        assert_eq!(over_a_link(Over::Tcp, 1024, "sink"), None);
        assert_eq!(over_a_link(Over::Tcp, 1024, "loopback"), None);
    }
}

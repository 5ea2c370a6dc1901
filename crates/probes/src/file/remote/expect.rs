//! What a call to a file server and a read should take.

use super::url::{Url, is_url};
use super::{block, depth, path};
use crate::expect::latency_ns;
use costof_model::facts::Facts;
use costof_model::point::Point;
use costof_model::prediction::{Known, Prediction};
use costof_model::unit::{Unit, display_bytes};
use std::net::IpAddr;

/// How fast a processor copies, in bytes per nanosecond: least and most.
const COPIES: (f64, f64) = (2.5, 20.0);
/// What a link carries, in bytes per nanosecond, where no driver tells: at least 1 Gb/s.
const LINK_LEAST: f64 = 0.125;
/// What of a link's rate is headers.
const HEADERS: f64 = 1.06;

/// A call that does nothing, of a server on this machine.
pub(super) fn null_call(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    if !is_here(path(point)) {
        return None;
    }
    let rtt = known.primary_over("loopback", "net.rtt", &[("over", "tcp")])?;
    latency_ns(
        0.8 * rtt,
        6.0 * rtt,
        format!(
            "0.8 to 6 times the {} that net.rtt measured for a round trip by TCP on loopback: a \
             server hands a call on from the thread that received it, and wakes others for it",
            Unit::Nanoseconds.display(rtt)
        ),
    )
}

/// A block, of a server that answers a call that does nothing in the time that was measured.
pub(super) fn read(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let call = known.primary("file.remote_call", &[("path", path(point))])?;
    let (bytes, depth) = (block(point) as f64, depth(point) as f64);
    let copies = (2.0 * bytes / COPIES.1, 5.0 * bytes / COPIES.0);
    let (link, over) = link_ns(path(point), bytes, facts);
    let low = 0.7 * call + copies.0 + link.0;
    let high = 2.5 * call + copies.1 + link.1;
    let waits = match depth > 1.0 {
        true => format!("; and with {depth} under way, each waits for up to all others"),
        false => String::new(),
    };
    latency_ns(
        low,
        depth * high,
        format!(
            "0.7 to 2.5 times the {} of a call that does nothing, as file.remote_call measured it, \
             with the link's round trip and the server's part in it; 2 to 5 copies of {} at {} to {} \
             GB/s{over}{waits}",
            Unit::Nanoseconds.display(call),
            display_bytes(bytes as u64),
            COPIES.1,
            COPIES.0,
        ),
    )
}

/// What the bytes take on the link, at least and at most, in nanoseconds, and why.
fn link_ns(path: &str, bytes: f64, facts: &Facts) -> ((f64, f64), String) {
    if is_here(path) {
        return ((0.0, 0.0), String::new());
    }
    let rates = facts
        .network_devices
        .iter()
        .filter_map(|device| device.speed_bits_per_s);
    match rates.max() {
        Some(rate) => {
            let ns = HEADERS * bytes * 8.0 / rate as f64 * 1e9;
            let shown = rate as f64 / 1e9;
            (
                (ns, 2.0 * ns),
                format!("; the bytes at {shown} Gb/s, which the driver tells, or half of it"),
            )
        }
        None => (
            (0.0, HEADERS * bytes / LINK_LEAST),
            "; the bytes at 1 Gb/s at least, since no driver tells a rate".into(),
        ),
    }
}

/// Whether the path names a server on this machine.
fn is_here(path: &str) -> bool {
    let host = is_url(path)
        .then(|| Url::parse(path).ok())
        .flatten()
        .map(|url| url.host);
    host.is_some_and(|host| match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::remote::{PROBE, null};
    use crate::literal::{measured, point};
    use costof_model::axis::{Axes, AxisValue};
    use costof_model::facts::NetworkDevice;

    fn axes(of: Axes, path: &'static str) -> Axes {
        of.with("path", AxisValue::from(path))
    }

    fn expected(path: &'static str, changed: Axes, facts: &Facts) -> Prediction {
        let call = axes(null::PROBE.info.defaults(), path);
        let rows = [measured(&null::PROBE, call, 40_000.0)];
        let mut all = axes(PROBE.info.defaults(), path);
        all.0.extend(changed.0);
        read(&point(&PROBE, all), facts, &Known(&rows)).unwrap()
    }

    const FAR: &str = "nfs://10.77.0.1/e/f";

    #[test]
    fn a_block_takes_a_call_its_copies_and_its_way() {
        let facts = Facts::default();
        let small = expected(FAR, Axes::default(), &facts);
        assert!(small.low < 40_000.0 && small.high > 60_000.0, "{small:?}");
        assert!(
            small.because.contains("1 Gb/s at least"),
            "{}",
            small.because
        );
        let large = expected(FAR, Axes::default().with("block", 1 << 20), &facts);
        assert!(
            large.low > 100_000.0 && large.high > 8_000_000.0,
            "{large:?}"
        );
        let here = expected(
            "nfs://127.0.0.1/e/f",
            Axes::default().with("block", 1 << 20),
            &facts,
        );
        assert!(
            here.high < large.high && !here.because.contains("Gb/s"),
            "{here:?}"
        );
        let deep = expected(FAR, Axes::default().with("depth", 16), &facts);
        assert!((deep.high / small.high - 16.0).abs() < 1e-9 && deep.low == small.low);
    }

    #[test]
    fn a_rate_that_the_driver_tells_bounds_a_block_from_below() {
        let device = NetworkDevice {
            speed_bits_per_s: Some(100_000_000),
            ..NetworkDevice::default()
        };
        let facts = Facts {
            network_devices: vec![device],
            ..Facts::default()
        };
        let large = expected(FAR, Axes::default().with("block", 1 << 20), &facts);
        // 1 MiB at 100 Mb/s takes 84 ms, and its headers 5 more.
        assert!((85e6..95e6).contains(&large.low), "{large:?}");
    }

    #[test]
    fn nothing_is_known_of_a_server_that_nothing_was_asked_of() {
        let point = point(&PROBE, axes(PROBE.info.defaults(), FAR));
        assert_eq!(read(&point, &Facts::default(), &Known(&[])), None);
        assert_eq!(null_call(&point, &Facts::default(), &Known(&[])), None);
    }
}

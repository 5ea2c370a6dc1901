//! What a call to a file server and a read should take.

use super::Remote;
use super::url::{Url, is_url};
use crate::prelude::*;
use costof_model::unit::display_bytes;
use std::net::IpAddr;

/// How fast a processor copies, in bytes per nanosecond: least and most.
const COPIES: (f64, f64) = (2.5, 20.0);
/// What a link carries, in bytes per nanosecond, where no driver tells: at least 1 Gb/s.
const LINK_LEAST: f64 = 0.125;
/// What of a link's rate is headers.
const HEADERS: f64 = 1.06;

/// A call that does nothing, of a server on this machine.
pub(super) fn null_call(path: &str, known: &Known<'_>) -> Option<Prediction> {
    if !is_here(path) {
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
pub(super) fn read(point: &Remote, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let call = known.primary("file.remote_call", &[("path", &point.path)])?;
    let (bytes, depth) = (point.block as f64, point.depth as f64);
    let copies = (2.0 * bytes / COPIES.1, 5.0 * bytes / COPIES.0);
    let (link, over) = link_ns(&point.path, bytes, facts);
    let low = 0.7 * call + copies.0 + link.0;
    let high = 2.5 * call + copies.1 + link.1;
    let waits = if depth > 1.0 {
        format!("; and with {depth} under way, each waits for up to all others")
    } else {
        String::new()
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
    use crate::file::remote::null::{self, RemoteCall};
    use crate::testing::measured;
    use costof_model::facts::NetworkDevice;

    fn expected(point: &Remote, facts: &Facts) -> Prediction {
        let path = point.path.clone();
        let rows = [measured(&null::PROBE, RemoteCall { path }, 40_000.0)];
        read(point, facts, &Known(&rows)).unwrap()
    }

    fn of(path: &'static str) -> Remote {
        Remote {
            path: path.into(),
            ..Remote::default()
        }
    }

    fn with_mib(path: &'static str) -> Remote {
        Remote {
            block: 1 << 20,
            ..of(path)
        }
    }

    const FAR: &str = "nfs://10.77.0.1/e/f";

    #[test]
    fn a_block_takes_a_call_its_copies_and_its_way() {
        let facts = Facts::default();
        let small = expected(&of(FAR), &facts);
        assert!(small.low < 40_000.0 && small.high > 60_000.0, "{small:?}");
        assert!(
            small.because.contains("1 Gb/s at least"),
            "{}",
            small.because
        );
        let large = expected(&with_mib(FAR), &facts);
        assert!(
            large.low > 100_000.0 && large.high > 8_000_000.0,
            "{large:?}"
        );
        let here = expected(&with_mib("nfs://127.0.0.1/e/f"), &facts);
        assert!(
            here.high < large.high && !here.because.contains("Gb/s"),
            "{here:?}"
        );
        let deep = Remote {
            depth: 16,
            ..of(FAR)
        };
        let deep = expected(&deep, &facts);
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
        let large = expected(&with_mib(FAR), &facts);
        // 1 MiB at 100 Mb/s takes 84 ms, and its headers 5 more.
        assert!((85e6..95e6).contains(&large.low), "{large:?}");
    }

    #[test]
    fn nothing_is_known_of_a_server_that_nothing_was_asked_of() {
        assert_eq!(read(&of(FAR), &Facts::default(), &Known(&[])), None);
        assert_eq!(null_call(FAR, &Known(&[])), None);
    }
}

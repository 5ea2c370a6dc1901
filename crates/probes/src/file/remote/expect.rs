//! What a call to a file server and a read should take.

use super::Remote;
use super::url::{Url, is_url};
use crate::prelude::*;
use std::net::IpAddr;

/// How fast a CPU copies, in bytes per nanosecond: least and most.
const COPIES: (f64, f64) = (2.5, 20.0);
/// The rate of a link in bytes per nanosecond, where no driver reports it: at least 1 Gb/s.
const LINK_LEAST: f64 = 0.125;
/// What of a link's rate is headers.
const HEADERS: f64 = 1.06;

/// A call that does nothing, of a server on this machine: the thread that receives the call passes it on,
/// and wakes others for it.
pub(super) fn null_call(path: &str, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    if !is_here(path) {
        return None;
    }
    let rtt = measured.primary_over("loopback", "net.rtt", &[("over", "tcp")])?;
    (Cost::new(rtt, "for a round trip by TCP on loopback (net.rtt)") * (0.8, 6.0))
        .predict("latency")
}

/// A block, of a server that answers a call that does nothing in the time that was measured.
pub(super) fn read(
    point: &Remote,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let call = measured.primary("file.remote_call", &[("path", &point.path)])?;
    let (bytes, depth) = (point.block as f64, point.depth as f64);
    let copies = (2.0 * bytes / COPIES.1, 5.0 * bytes / COPIES.0);
    let one = Cost::new(call, "for a call that does nothing (file.remote_call)") * (0.7, 2.5)
        + Cost::new(copies, format!("for 2 to 5 copies of {bytes} B"))
        + link(&point.path, bytes, facts);
    // Each waits for up to all others that are in flight.
    (one * (1.0, depth)).predict("latency")
}

/// What the bytes take on the link.
fn link(path: &str, bytes: f64, facts: &Facts) -> Cost {
    if is_here(path) {
        return Cost::default();
    }
    let devices = facts.network_devices.iter();
    match devices.filter_map(|device| device.speed_bits_per_s).max() {
        Some(rate) => {
            let rate = rate as f64 / 8e9;
            Cost::bytes(HEADERS * bytes, (rate / 2.0, rate), "on the fastest link")
        }
        None => {
            let least = Cost::new(HEADERS * bytes / LINK_LEAST, "for the bytes at 1 Gb/s");
            least * (0.0, 1.0)
        }
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
    use crate::file::remote::null::RemoteCall;
    use crate::testing::measured;
    use costof_model::facts::NetworkDevice;

    fn expected(point: &Remote, facts: &Facts) -> Prediction {
        let path = point.path.clone();
        let rows = [measured(RemoteCall { path }, 40_000.0)];
        read(point, facts, &MeasuredRows::new(&rows)).unwrap()
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
        assert!(small.because.contains("at 1 Gb/s"), "{}", small.because);
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
        assert_eq!(
            read(&of(FAR), &Facts::default(), &MeasuredRows::new(&[])),
            None
        );
        assert_eq!(null_call(FAR, &MeasuredRows::new(&[])), None);
    }
}

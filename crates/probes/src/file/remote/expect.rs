//! What a call to a file server and a read should take.

use super::Remote;
use super::null::RemoteCall;
use super::url::{Url, is_url};
use crate::prelude::*;
use std::net::IpAddr;

/// Another sequence of blocks over the same link, relative to the measured rate.
const OF_THE_RATE: (f64, f64) = (0.6, 1.2);
/// The most server time of each of several calls in flight, relative to a call alone.
const OF_A_CALL: f64 = 0.4;

/// A call that does nothing, to a server on this machine: the receiving thread passes the call on
/// and wakes others for it.
pub(super) fn null_call(path: &str, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    if !is_here(path) {
        return None;
    }
    let rtt = measured.primary_over("loopback", "net.rtt", &[("over", "tcp")])?;
    (Cost::new(rtt, "for a round trip by TCP on loopback (net.rtt)") * (0.8, 6.0))
        .predict("latency")
}

/// A block, by the measured time of a call that does nothing and the measured rate of blocks.
pub(super) fn read(point: &Remote, measured: &MeasuredRows<'_>) -> Option<Prediction> {
    let server = RemoteCall {
        path: point.path.clone(),
    };
    let call = measured.at(&server)?;
    let rate = measured.metric_at(&server, "rate")? / 1e9;
    let depth = point.depth as f64;
    let call = Cost::new(call, "for a call that does nothing (file.remote_call)");
    let arriving = Cost::bytes(
        point.block as f64,
        (OF_THE_RATE.0 * rate, OF_THE_RATE.1 * rate),
        "arriving, as file.remote_call measured with several in flight,",
    );
    let alone = call.clone() * (0.7, 2.5) + arriving.clone();
    if point.depth == 1 {
        return alone.predict("latency");
    }
    // Each waits for all others in flight.
    let in_turn = arriving * depth + call * (0.0, OF_A_CALL * depth);
    alone.max(in_turn).predict("latency")
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
    use crate::testing::measured;
    use costof_model::metric::Estimate;

    /// The prediction where a call takes 40 µs and 12 MB arrive per second.
    fn expected(block: usize, depth: usize) -> Prediction {
        let path = Text::Borrowed("nfs://10.77.0.1/e/f");
        let mut row = measured(RemoteCall { path: path.clone() }, 40_000.0);
        let rate = Estimate {
            name: "rate".into(),
            median: 12e6,
            ..row.metrics[0].clone()
        };
        row.metrics.push(rate);
        let point = Remote {
            path,
            block,
            depth,
            ..Remote::default()
        };
        read(&point, &MeasuredRows::new(&[row])).unwrap()
    }

    #[test]
    fn a_block_takes_a_call_and_what_the_link_lets_through() {
        for (block, depth, ns) in [
            (4 << 10, 1, 380e3),
            (1 << 20, 1, 87e6),
            (4 << 10, 16, 5.5e6),
            (1 << 20, 16, 1.4e9),
        ] {
            let Prediction { low, high, .. } = expected(block, depth);
            assert!(
                (low..=high).contains(&ns),
                "{block} {depth}: {low} to {high}"
            );
            assert!(high < 4.0 * low, "{block} {depth}: {low} to {high}");
        }
    }

    #[test]
    fn nothing_is_known_of_a_server_that_nothing_was_asked_of() {
        let point = Remote::default();
        assert_eq!(read(&point, &MeasuredRows::new(&[])), None);
        let call = null_call("nfs://10.77.0.1/e/f", &MeasuredRows::new(&[]));
        assert_eq!(call, None);
    }
}

//! What a call to a file server and a read should take.

use super::Remote;
use super::null::RemoteCall;
use super::source::{RATE_BLOCK_BYTES, RATE_DEPTH};
use super::url::{Url, is_url};
use crate::prelude::*;
use std::net::IpAddr;

/// Another sequence of blocks over the same link, relative to the measured rate.
const OF_THE_RATE: (f64, f64) = (0.6, 1.2);
/// The least share of a call that a block takes on the link, so that it is a number.
const MIN_SHARE: f64 = 0.001;
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
    let server = RemoteCall { path: point.path.clone() };
    let call = measured.at(&server)?;
    let rate = measured.metric_at(&server, "rate")? / 1e9;
    let depth = point.depth as f64;
    let fastest = fastest(&point.path, call, rate);
    let call = Cost::new(call, "for a call that does nothing (file.remote_call)");
    let rates = (OF_THE_RATE.0 * rate, OF_THE_RATE.1 * rate.max(fastest));
    let arriving = if fastest > rate {
        "arriving, at least as file.remote_call measured, whose few blocks in flight waited for the round trip,"
    } else {
        "arriving, as file.remote_call measured with several in flight,"
    };
    let arriving = Cost::bytes(point.block as f64, rates, arriving);
    let alone = call.clone() * (0.7, 2.5) + arriving.clone();
    if point.depth == 1 {
        return alone.predict("latency");
    }
    // Each waits for all others in flight.
    let in_turn = arriving * depth + call * (0.0, OF_A_CALL * depth);
    alone.max(in_turn).predict("latency")
}

/// How fast the link may be where blocks arrived at this rate, in bytes per nanosecond: a block of those
/// that were in flight took a call, and crossed the link in what is left of its time. Where that is faster
/// than the rate, the round trip was the limit, and more in flight arrive faster.
fn fastest(path: &str, call_ns: f64, rate: f64) -> f64 {
    let in_flight = if is_url(path) { RATE_DEPTH } else { 1 };
    let block = RATE_BLOCK_BYTES as f64;
    let took_ns = in_flight as f64 * block / rate;
    block / (took_ns - call_ns).max(MIN_SHARE * took_ns)
}

/// Whether the path names a server on this machine.
fn is_here(path: &str) -> bool {
    let host = is_url(path).then(|| Url::parse(path).ok()).flatten().map(|url| url.host);
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

    const URL: &str = "nfs://10.77.0.1/e/f";

    /// What is expected where a call takes so long and so many bytes arrive a second.
    fn expected(
        path: &'static str,
        (call_ns, rate): (f64, f64),
        (block, depth): (usize, usize),
    ) -> Prediction {
        let path = Text::Borrowed(path);
        let mut row = measured(RemoteCall { path: path.clone() }, call_ns);
        let rate = Estimate { name: "rate".into(), median: rate, ..row.metrics[0].clone() };
        row.metrics.push(rate);
        let point = Remote { path, block, depth, ..Remote::default() };
        read(&point, &MeasuredRows::new(&[row])).unwrap()
    }

    #[test]
    fn a_block_takes_a_call_and_what_the_link_lets_through() {
        for (block, depth, ns) in
            [(4 << 10, 1, 380e3), (1 << 20, 1, 87e6), (4 << 10, 16, 5.5e6), (1 << 20, 16, 1.4e9)]
        {
            let Prediction { low, high, .. } = expected(URL, (40e3, 12e6), (block, depth));
            assert!((low..=high).contains(&ns), "{block} {depth}: {low} to {high}");
            assert!(high < 4.0 * low, "{block} {depth}: {low} to {high}");
        }
    }

    #[test]
    fn a_rate_that_the_round_trip_limited_is_the_least_of_a_long_link() {
        // 95 ms each way and 12.5 MB/s: four blocks of 64 KiB take 195 ms, or one of a mounted path.
        for (path, rate, block, depth, ns) in [
            (URL, 1.34e6, 64 << 10, 1, 195e6),
            (URL, 1.34e6, 1 << 20, 16, 1.34e9),
            ("/mnt/file", 0.336e6, 64 << 10, 1, 195e6),
            ("/mnt/file", 0.336e6, 1 << 20, 1, 274e6),
        ] {
            let Prediction { low, high, .. } = expected(path, (190e6, rate), (block, depth));
            assert!((low..=high).contains(&ns), "{path} {block} {depth}: {low} to {high}");
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

//! ping(8): echo requests.

use crate::tool::{Reading, Statistic, Tool};
use costof_stats::median;

/// Sends this many echo requests to loopback, 2 ms apart, which is the shortest interval that a user may
/// choose. The number is the median.
pub fn loopback(bytes: u32, requests: u32) -> Tool<'static> {
    Tool::simple(
        "ping",
        Statistic::Median,
        &format!("-n -c {requests} -i 0.002 -s {bytes} 127.0.0.1"),
        Reading::By(median_ns),
    )
}

/// Reads lines such as `64 bytes from 127.0.0.1: icmp_seq=2 ttl=64 time=0.010 ms`.
fn median_ns(output: &str) -> Option<f64> {
    let times: Vec<f64> = output
        .lines()
        .filter_map(|line| line.split_once(" time=")?.1.strip_suffix(" ms"))
        .filter_map(|milliseconds| milliseconds.trim().parse().ok())
        .collect();
    Some(1e6 * median(&times)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iputils 20221126.
    const OUTPUT: &str = "\
PING 127.0.0.1 (127.0.0.1) 56(84) bytes of data.
64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.156 ms
64 bytes from 127.0.0.1: icmp_seq=2 ttl=64 time=0.010 ms
64 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time=0.009 ms

--- 127.0.0.1 ping statistics ---
3 packets transmitted, 3 received, 0% packet loss, time 4ms
rtt min/avg/max/mdev = 0.009/0.058/0.156/0.069 ms
";

    #[test]
    fn the_middle_reply_is_read() {
        assert_eq!(median_ns(OUTPUT), Some(10_000.0));
        assert_eq!(median_ns("3 packets transmitted, 0 received"), None);
    }
}

//! iperf3(1): one connection over loopback, and the result line of its server.

use crate::server::Transport;
use crate::tool::{Reading, Statistic, Tool, words};

/// Writes of 128 KiB from one buffer with this congestion control, for this many seconds after a first second
/// that is left out. The number is what the receiver got.
pub fn tcp(congestion_control: &'static str, seconds: u32) -> Tool<'static> {
    let server = words("--server --one-off --bind 127.0.0.1 --port PORT");
    Tool {
        server: Some((server, Transport::Tcp)),
        ..Tool::simple(
            "iperf3",
            Statistic::Mean,
            &format!(
                "--client 127.0.0.1 --port PORT --length 128K --congestion {congestion_control} \
                 --omit 1 --time {seconds} --format m"
            ),
            Reading::By(bytes_per_second),
        )
    }
}

/// Reads the line `[  5]   0.00-2.00   sec  2.46 GBytes  10568 Mbits/sec    receiver`.
fn bytes_per_second(output: &str) -> Option<f64> {
    Some(received(output, " Mbits/sec")? * 1e6 / 8.0)
}

/// The number before this unit in the receiver's line.
pub fn received(output: &str, unit: &str) -> Option<f64> {
    let (before, _) = receiver(output)?.split_once(unit)?;
    before.split_whitespace().last()?.parse().ok()
}

/// The receiver's line.
pub fn receiver(output: &str) -> Option<&str> {
    let mut lines = output.lines();
    lines.find(|line| line.trim().ends_with("receiver"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// iperf 3.12.
    const TCP: &str = "\
Connecting to host 127.0.0.1, port 45001
[  6] local 127.0.0.1 port 34320 connected to 127.0.0.1 port 45001
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  6]   0.00-1.00   sec  3.88 GBytes  33305 Mbits/sec    6   2.62 MBytes       (omitted)
[  6]   0.00-1.00   sec  3.76 GBytes  32325 Mbits/sec    1   2.62 MBytes       
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  6]   0.00-1.00   sec  3.76 GBytes  32325 Mbits/sec    1             sender
[  6]   0.00-1.00   sec  3.76 GBytes  32326 Mbits/sec                  receiver

iperf Done.
";

    #[test]
    fn what_the_receiver_got_is_read() {
        assert_eq!(bytes_per_second(TCP), Some(32326e6 / 8.0));
        assert_eq!(bytes_per_second("iperf3: error - unable to connect"), None);
    }
}

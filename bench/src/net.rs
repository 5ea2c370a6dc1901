//! `net.bandwidth` over TCP on loopback beside iperf3: writes of 128 KiB from one
//! buffer, one connection, the same congestion control, the sender on the measured
//! processor and the receiver on the next one.
//!
//! Both say what the receiver got in its time, the beginning left out.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, words};
use crate::error::{Result, failed};
use crate::server::Transport;
use crate::verdict::Verdict;
use std::fs;

/// Those that Linux usually has.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let available = fs::read_to_string(AVAILABLE)
        .map_err(|error| failed(format!("cannot read {AVAILABLE}: {error}")))?;
    let is_here = |control: &&str| available.split_whitespace().any(|have| have == *control);
    let contests = CONTROLS.into_iter().filter(is_here).map(contest).collect();
    contest::hold(bench, "net.bandwidth beside iperf3", contests)
}

fn contest(control: &'static str) -> Contest<'static> {
    let axes = words(&format!(
        "over=tcp size=128KiB flows=1 congestion_control={control}"
    ));
    Contest {
        processors: 2,
        ..Contest::throughput("net.bandwidth", axes, vec![iperf3(control)])
    }
}

/// Writes of 128 KiB from one buffer by this congestion control, the beginning left out.
pub(crate) fn iperf3(control: &'static str) -> Peer<'static> {
    Peer {
        name: "iperf3",
        says: Says::Mean,
        program: Program::TwoEnds {
            name: "iperf3",
            server: words("--server --one-off --bind 127.0.0.1 --port PORT"),
            transport: Transport::Tcp,
        },
        arguments: Box::new(move || {
            words(&format!(
                "--client 127.0.0.1 --port PORT --length 128K --congestion {control} \
                 --omit 1 --time 2 --format m"
            ))
        }),
        read: bytes_per_second,
    }
}

/// From the line `[  5]   0.00-2.00   sec  2.46 GBytes  10568 Mbits/sec    receiver`.
fn bytes_per_second(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .find(|line| line.trim().ends_with("receiver"))?;
    let (before, _) = line.split_once(" Mbits/sec")?;
    let megabits: f64 = before.split_whitespace().last()?.parse().ok()?;
    Some(megabits * 1e6 / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iperf3s_output_is_read() {
        let output = "\
            [  5]   0.00-2.00   sec  2.47 GBytes  10600 Mbits/sec    0             sender\n\
            [  5]   0.00-2.00   sec  2.46 GBytes  10568 Mbits/sec                  receiver\n";
        assert_eq!(bytes_per_second(output), Some(10568e6 / 8.0));
        assert_eq!(bytes_per_second("iperf3: error - unable to connect"), None);
    }
}

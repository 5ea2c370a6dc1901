//! `net.rtt` on loopback beside `sockperf ping-pong` and its server: TCP and UDP,
//! blocking and spinning.
//!
//! Both are pinned alike, the client on the measured processor and the server on
//! the next one, send 56 bytes, and say the median of whole round trips (sockperf
//! halves them unless told not to). Where they block, nothing keeps a processor
//! awake for either.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, words};
use crate::error::Result;
use crate::server::Transport;
use crate::verdict::Verdict;

const BYTES: u32 = 56;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contests = [
        ("tcp", "spin"),
        ("tcp", "block"),
        ("udp", "spin"),
        ("udp", "block"),
    ]
    .map(|(over, wait)| contest(over, wait))
    .into();
    contest::hold(bench, "net.rtt beside sockperf ping-pong", contests)
}

fn contest(over: &'static str, wait: &'static str) -> Contest<'static> {
    // Who spins keeps its processor awake itself.
    let wake = match wait {
        "spin" => "awake",
        _ => "idle",
    };
    let axes = words(&format!(
        "over={over} size={BYTES} wait={wait} cpus=cross wake={wake}"
    ));
    let peer = sockperf(over, wait, BYTES);
    Contest {
        processors: 2,
        ..Contest::time("net.rtt", "latency", axes, vec![peer])
    }
}

/// Round trips of messages of so many bytes.
pub(crate) fn sockperf(over: &'static str, wait: &'static str, bytes: u32) -> Peer<'static> {
    let transport = match over {
        "tcp" => Transport::Tcp,
        _ => Transport::Udp,
    };
    let both = format!(
        "-i 127.0.0.1 -p PORT{}{}",
        if over == "tcp" { " --tcp" } else { "" },
        if wait == "spin" { " --nonblocked" } else { "" },
    );
    let server = words(&format!("server {both}"));
    Peer {
        name: "sockperf",
        says: Says::Median,
        program: Program::TwoEnds {
            name: "sockperf",
            server,
            transport,
        },
        arguments: Box::new(move || words(&format!("ping-pong {both} -m {bytes} -t 2 --full-rtt"))),
        read: median_ns,
    }
}

/// From a line as `sockperf: ---> percentile 50.000 =   12.037`, in microseconds, of round trips
/// if it says so; nothing where messages were lost, since it waits for none.
fn median_ns(output: &str) -> Option<f64> {
    let whole = output.contains("Round trip is");
    let nothing_lost = output.contains("# dropped messages = 0;");
    let line = output
        .lines()
        .find(|line| line.contains("percentile 50.000 ="))?;
    let microseconds: f64 = line.rsplit_once('=')?.1.trim().parse().ok()?;
    (whole && nothing_lost).then_some(microseconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
        sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages=5161\n\
        sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0\n\
        sockperf: Summary: Round trip is 210.536 usec\n\
        sockperf: ---> percentile 75.000 =   46.328\n\
        sockperf: ---> percentile 50.000 =   42.082\n";

    #[test]
    fn sockperfs_output_is_read() {
        assert_eq!(median_ns(OUTPUT), Some(42_082.0));
        assert_eq!(
            median_ns(&OUTPUT.replace("Round trip is", "Latency is")),
            None
        );
        assert_eq!(
            median_ns(&OUTPUT.replace("messages = 0", "messages = 3")),
            None
        );
        assert_eq!(median_ns("sockperf: Test ended"), None);
    }
}

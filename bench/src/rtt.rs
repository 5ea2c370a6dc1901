//! `net.rtt` on loopback beside `sockperf ping-pong` and its server: TCP and UDP,
//! blocking and spinning.
//!
//! Both are pinned alike, the client on the measured processor and the server on
//! the next one, send 56 bytes, and say the median of whole round trips (sockperf
//! halves them unless told not to). Where they block, nothing keeps a processor
//! awake for either.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::tool::words;
use costof_peers::tools::sockperf;

const BYTES: u32 = 56;
/// For how long sockperf sends them.
pub(crate) const SECONDS: u32 = 2;

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
    let peer = sockperf::ping_pong(over, wait == "spin", BYTES, SECONDS);
    Contest {
        processors: 2,
        ..Contest::time("net.rtt", "latency", axes, vec![peer])
    }
}

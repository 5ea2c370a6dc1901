//! `net.bandwidth` over TCP on loopback beside iperf3: writes of 128 KiB from one
//! buffer, one connection, the same congestion control, the sender on the measured
//! processor and the receiver on the next one.
//!
//! Both say what the receiver got in its time, the beginning left out.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::{Result, failed};
use crate::verdict::Verdict;
use costof_peers::tool::words;
use costof_peers::tools::iperf3;
use std::fs;

/// Those that Linux usually has.
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// For how long iperf3 sends, after a second that is left out.
pub(crate) const SECONDS: u32 = 2;
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
        ..Contest::throughput("net.bandwidth", axes, vec![iperf3::tcp(control, SECONDS)])
    }
}

//! `net.connect` on loopback beside a loop of connect() in plain C, whose server
//! runs on the next processor.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer};
use crate::error::{Result, failed};
use crate::verdict::Verdict;
use costof_peers::tool::{number_before, words};

/// Few enough that ports do not run out: each stays in TIME-WAIT for a minute.
const CONNECTIONS: u32 = 2000;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let other = *bench
        .measured_first()
        .get(1)
        .ok_or_else(|| failed("this comparison takes two processors"))?;
    let peer = Peer::in_c(
        "connect.c",
        include_str!("connect.c"),
        Box::new(move || Ok(words(&format!("{CONNECTIONS} {other}")))),
        |output| number_before(output, "ns to connect"),
    );
    let axes = words("cpus=cross wake=idle");
    let contest = Contest {
        processors: 2,
        ..Contest::time("net.connect", "latency", axes, vec![peer])
    };
    contest::hold(
        bench,
        "net.connect beside bench/src/connect.c",
        vec![contest],
    )
}

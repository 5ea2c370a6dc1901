//! `net.connect` on loopback beside a loop of connect() in plain C, whose server
//! runs on the next processor.

use crate::bench::Bench;
use crate::contest::{self, Contest, How, Peer, Program, Says, number_before, words};
use crate::error::{Result, failed};
use crate::verdict::{Bounds, Verdict};
use costof_model::unit::Unit;

/// Few enough that ports do not run out: each stays in TIME-WAIT for a minute.
const CONNECTIONS: u32 = 2000;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let other = *bench
        .measured_first()
        .get(1)
        .ok_or_else(|| failed("this comparison takes two processors"))?;
    let contest = Contest {
        probe: "net.connect",
        axes: vec!["cpus=cross".to_owned(), "wake=idle".to_owned()],
        metric: "latency",
        unit: Unit::Nanoseconds,
        bounds: Bounds::COST,
        rounds: 15,
        processors: 2,
        how: How::default(),
        peers: vec![Peer {
            name: "connect.c",
            says: Says::Median,
            program: Program::Source("connect", include_str!("connect.c")),
            arguments: Box::new(move || words(&format!("{CONNECTIONS} {other}"))),
            read: |output| number_before(output, "ns to connect"),
        }],
    };
    contest::hold(
        bench,
        "net.connect beside bench/src/connect.c",
        vec![contest],
    )
}

//! `os.context_switch` beside `perf bench sched pipe`: two processes, and two
//! threads, on one processor, that hand a token to and fro through two pipes.

use crate::bench::Bench;
use crate::contest::{self, Contest, How, Peer, Program, Says, words};
use crate::error::Result;
use crate::syscall::ns_per_operation;
use crate::verdict::{Bounds, Verdict};
use costof_model::unit::Unit;

/// About a second.
const ROUND_TRIPS: u32 = 200_000;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contest = |between: &str, threaded: &'static str| Contest {
        probe: "os.context_switch",
        axes: vec![
            format!("between={between}"),
            "over=pipe".to_owned(),
            "cpus=same".to_owned(),
            "wake=awake".to_owned(),
        ],
        metric: "cost",
        unit: Unit::Nanoseconds,
        bounds: Bounds::COST,
        rounds: 15,
        processors: 1,
        how: How::default(),
        peers: vec![Peer {
            name: "perf",
            says: Says::Mean,
            program: Program::Installed("perf"),
            arguments: Box::new(move || {
                words(&format!("bench sched pipe -l {ROUND_TRIPS} {threaded}"))
            }),
            // Each round trip is two switches.
            read: |output| Some(ns_per_operation(output)? / 2.0),
        }],
    };
    let contests = vec![contest("processes", ""), contest("threads", "-T")];
    contest::hold(
        bench,
        "os.context_switch beside perf bench sched pipe",
        contests,
    )
}

//! `os.context_switch` beside `perf bench sched pipe`: two processes, and two
//! threads, on one processor, that hand a token to and fro through two pipes.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, words};
use crate::error::Result;
use crate::syscall::ns_per_operation;
use crate::verdict::Verdict;

/// About a second.
const ROUND_TRIPS: u32 = 200_000;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contest = |between: &str, threaded: &'static str| {
        let peer = Peer {
            name: "perf",
            says: Says::Mean,
            program: Program::Installed("perf"),
            arguments: Box::new(move || {
                words(&format!("bench sched pipe -l {ROUND_TRIPS} {threaded}"))
            }),
            // Each round trip is two switches.
            read: |output| Some(ns_per_operation(output)? / 2.0),
        };
        let axes = words(&format!("between={between} over=pipe cpus=same wake=awake"));
        Contest::time("os.context_switch", "cost", axes, vec![peer])
    };
    let contests = vec![contest("processes", ""), contest("threads", "-T")];
    contest::hold(
        bench,
        "os.context_switch beside perf bench sched pipe",
        contests,
    )
}

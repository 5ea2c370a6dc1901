//! `os.context_switch` beside `perf bench sched pipe`: two processes, and two
//! threads, on one processor, that hand a token to and fro through two pipes.

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::tool::words;
use costof_peers::tools::perf;

/// About a second.
const ROUND_TRIPS: u32 = 200_000;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contest = |between: &str, threads| {
        let peer = perf::sched_pipe(threads, ROUND_TRIPS);
        let axes = words(&format!("between={between} over=pipe cpus=same wake=awake"));
        Contest::time("os.context_switch", "cost", axes, vec![peer])
    };
    let contests = vec![contest("processes", false), contest("threads", true)];
    contest::hold(
        bench,
        "os.context_switch beside perf bench sched pipe",
        contests,
    )
}

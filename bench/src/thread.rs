//! `os.thread` beside `pthread_create` and `pthread_join` in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::tool::{number_before, words};

const THREADS: &str = "20000";

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let peer = Peer::in_c(
        "thread.c",
        include_str!("thread.c"),
        Box::new(|| Ok(words(THREADS))),
        |output| number_before(output, "ns until it was joined"),
    );
    let axes = words("how=pthread cpus=same");
    let contest = Contest::time("os.thread", "latency", axes, vec![peer]);
    contest::hold(bench, "os.thread beside bench/src/thread.c", vec![contest])
}

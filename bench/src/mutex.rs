//! `sync.mutex` with one thread beside a pthread mutex around a counter in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::tool::{number_before, words};

/// Of 10,000 locks each: about half a second.
const BATCHES: &str = "10000";

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contest = |kind: &str| {
        let peer = Peer::in_c(
            "mutex.c",
            include_str!("mutex.c"),
            Box::new(|| Ok(words(BATCHES))),
            |output| number_before(output, "ns per lock"),
        );
        let axes = words(&format!("kind={kind} threads=1"));
        Contest::time("sync.mutex", "cost", axes, vec![peer])
    };
    let contests = vec![contest("pthread"), contest("std")];
    contest::hold(bench, "sync.mutex beside bench/src/mutex.c", contests)
}

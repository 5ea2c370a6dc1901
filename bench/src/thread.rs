//! `os.thread` beside `pthread_create` and `pthread_join` in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, How, Peer, Program, Says, number_before, words};
use crate::error::Result;
use crate::verdict::{Bounds, Verdict};
use costof_model::unit::Unit;

const THREADS: &str = "20000";

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let contest = Contest {
        probe: "os.thread",
        axes: vec!["how=pthread".to_owned(), "cpus=same".to_owned()],
        metric: "latency",
        unit: Unit::Nanoseconds,
        bounds: Bounds::COST,
        rounds: 15,
        processors: 1,
        how: How::default(),
        peers: vec![Peer {
            name: "thread.c",
            says: Says::Median,
            program: Program::Source("thread", include_str!("thread.c")),
            arguments: Box::new(|| words(THREADS)),
            read: |output| number_before(output, "ns until it was joined"),
        }],
    };
    contest::hold(bench, "os.thread beside bench/src/thread.c", vec![contest])
}

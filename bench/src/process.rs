//! `os.process` beside fork, vfork, `_exit` and waitpid in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, number_before};
use crate::costof::{Costof, RUN_LIMIT, settings};
use crate::error::{Result, failed};
use crate::machine;
use crate::verdict::{Bounds, Verdict};
use costof_model::unit::Unit;
use std::time::Duration;

const CHILDREN: &str = "5000";
/// How often the worker is looked at.
const GLANCE: Duration = Duration::from_millis(10);

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let private = private_bytes(bench)?;
    let contest = |how: &'static str| Contest {
        probe: "os.process",
        axes: axes(how),
        metric: "latency",
        unit: Unit::Nanoseconds,
        bounds: Bounds::COST,
        rounds: 15,
        peers: vec![Peer {
            name: "fork.c",
            says: Says::Median,
            program: Program::Source("fork", include_str!("fork.c")),
            arguments: Box::new(move || {
                vec![how.to_owned(), private.to_string(), CHILDREN.to_owned()]
            }),
            read: |output| number_before(output, "ns until it ended"),
        }],
    };
    let contests = vec![contest("fork"), contest("vfork")];
    contest::hold(
        bench,
        &format!("os.process beside bench/src/fork.c in a process of {private} B"),
        contests,
    )
}

fn axes(how: &str) -> Vec<String> {
    vec![
        format!("how={how}"),
        "exec=no".to_owned(),
        "resident=0".to_owned(),
    ]
}

/// The most private memory that the worker has, so that the peer has as many
/// pages to copy. (What it has of files is not copied.)
fn private_bytes(bench: &Bench) -> Result<u64> {
    let cpu = bench.cpu.to_string();
    let axes = axes("fork");
    let mut arguments = vec!["os.process", "--quick", "--cpu", &cpu];
    arguments.extend(settings(&axes));
    let mut most = 0;
    let mut glance = |id| {
        let workers = machine::children(id).into_iter();
        let of_workers = workers.filter_map(|id| machine::memory_bytes(id, "RssAnon"));
        most = most.max(of_workers.max().unwrap_or(0));
    };
    Costof::run_watched(
        bench,
        "worker.jsonl",
        &arguments,
        RUN_LIMIT,
        GLANCE,
        &mut glance,
    )?;
    if most == 0 {
        return Err(failed(
            "the memory of costof's worker could not be read (it takes a kernel with \
             CONFIG_PROC_CHILDREN)",
        ));
    }
    Ok(most)
}

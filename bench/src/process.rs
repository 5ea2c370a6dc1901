//! `os.process` beside fork, vfork, `_exit` and waitpid in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer};
use crate::costof::{self, RUN_LIMIT};
use crate::error::{Result, failed};
use crate::machine;
use crate::verdict::Verdict;
use costof_peers::costof::settings;
use costof_peers::tool::{number_before, words};
use costof_peers::tools::stress_ng;
use costof_stats::median;
use std::collections::BTreeMap;
use std::time::Duration;

const CHILDREN: u32 = 5000;
const STRESS_NG_SECONDS: u32 = 2;
/// How often the worker is looked at.
const GLANCE: Duration = Duration::from_millis(10);

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let private = private_bytes(bench)?;
    let contest = |how: &'static str, other: Option<Peer<'static>>| {
        let peers = std::iter::once(in_c(how, private)).chain(other).collect();
        Contest::time("os.process", "latency", axes(how), peers)
    };
    let contests = vec![
        contest("fork", None),
        contest("vfork", Some(stress_ng::vfork(STRESS_NG_SECONDS).into())),
    ];
    contest::hold(
        bench,
        &format!("os.process beside bench/src/fork.c in a process of {private} B"),
        contests,
    )
}

fn in_c(how: &'static str, private: u64) -> Peer<'static> {
    Peer::in_c(
        "fork.c",
        include_str!("fork.c"),
        Box::new(move || Ok(words(&format!("{how} {private} {CHILDREN}")))),
        |output| number_before(output, "ns until it ended"),
    )
}

fn axes(how: &str) -> Vec<String> {
    words(&format!("how={how} exec=no resident=0"))
}

/// The private memory of a worker that measures, so that the peer has as many
/// pages to copy: what it was last seen to have, of the middle one of all workers,
/// since the first measures nothing. (What it has of files is not copied.)
fn private_bytes(bench: &Bench) -> Result<u64> {
    let cpu = bench.cpu.to_string();
    let axes = axes("fork");
    let mut arguments = vec!["os.process", "--quick", "--cpu", &cpu];
    arguments.extend(settings(&axes));
    let mut last: BTreeMap<u32, f64> = BTreeMap::new();
    let mut glance = |id| {
        for worker in machine::children(id) {
            if let Some(bytes) = machine::memory_bytes(worker, "RssAnon") {
                last.insert(worker, bytes as f64);
            }
        }
    };
    costof::run_watched(
        bench,
        "worker.jsonl",
        &arguments,
        RUN_LIMIT,
        GLANCE,
        &mut glance,
    )?;
    let of_workers: Vec<f64> = last.into_values().collect();
    let middle = median(&of_workers).ok_or_else(|| {
        failed(
            "the memory of costof's worker could not be read (it takes a kernel with \
             CONFIG_PROC_CHILDREN)",
        )
    })?;
    Ok(middle as u64)
}

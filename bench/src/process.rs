//! `os.process` beside fork, vfork, `_exit` and waitpid in plain C.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, number_before, words};
use crate::costof::{Costof, RUN_LIMIT, settings};
use crate::error::{Result, failed};
use crate::machine;
use crate::verdict::Verdict;
use costof_measure::statistics::quantile::median;
use std::collections::BTreeMap;
use std::time::Duration;

const CHILDREN: u32 = 5000;
/// How often the worker is looked at.
const GLANCE: Duration = Duration::from_millis(10);

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let private = private_bytes(bench)?;
    let contest = |how: &'static str, other: Option<Peer<'static>>| {
        let peers = std::iter::once(in_c(how, private)).chain(other).collect();
        Contest::time("os.process", "latency", axes(how), peers)
    };
    let contests = vec![contest("fork", None), contest("vfork", Some(stress_ng()))];
    contest::hold(
        bench,
        &format!("os.process beside bench/src/fork.c in a process of {private} B"),
        contests,
    )
}

fn in_c(how: &'static str, private: u64) -> Peer<'static> {
    Peer {
        name: "fork.c",
        says: Says::Median,
        program: Program::Source("fork", include_str!("fork.c")),
        arguments: Box::new(move || words(&format!("{how} {private} {CHILDREN}"))),
        read: |output| number_before(output, "ns until it ended"),
    }
}

/// vfork and wait4, and no other system call (its fork has several in the child).
fn stress_ng() -> Peer<'static> {
    Peer {
        name: "stress-ng",
        says: Says::Mean,
        program: Program::Installed("stress-ng"),
        arguments: Box::new(|| words("--vfork 1 --timeout 2 --metrics --log-file /dev/stdout")),
        read: ns_per_vfork,
    }
}

/// From a line as `stress-ng: metrc: [7] vfork  63989  2.00  0.84  1.03  31993.70 …`:
/// operations, seconds, of the user and the system, operations in a second.
fn ns_per_vfork(output: &str) -> Option<f64> {
    let numbers = output
        .lines()
        .find_map(|line| {
            line.split_once("] vfork ")
                .filter(|_| line.contains("metrc:"))
        })?
        .1;
    let in_a_second: f64 = numbers.split_whitespace().nth(4)?.parse().ok()?;
    Some(1e9 / in_a_second)
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
    Costof::run_watched(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stress_ngs_output_is_read() {
        let output = "\
            stress-ng: info:  [25790] dispatching hogs: 1 vfork\n\
            stress-ng: metrc: [25793] stressor       bogo ops real time  usr time  sys time\n\
            stress-ng: metrc: [25793] vfork             63989      2.00      0.84      1.03     \
            32000.00       34257.92        93.39          2488\n";
        assert_eq!(ns_per_vfork(output), Some(31250.0));
        assert_eq!(ns_per_vfork("stress-ng: info: vfork"), None);
    }
}

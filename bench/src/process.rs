//! How much memory a worker of costof has, so that a peer that forks has as many pages to copy.

use crate::bench::{Bench, settings};
use crate::error::{Result, failed};
use crate::machine;
use costof_stats::median;
use std::collections::BTreeMap;

/// Of `os.process`, by fork or vfork.
pub(crate) fn axes(how: &str) -> String {
    format!("how={how} exec=no resident=0")
}

/// The private memory of a worker that measures: what it was last seen to have, of the middle one of all
/// workers, since the first measures nothing. (What it has of files is not copied.)
pub(crate) fn private_bytes(bench: &Bench) -> Result<u64> {
    let cpu = bench.cpu;
    let arguments = format!("os.process --quick --cpu {cpu} {}", settings(&axes("fork")));
    let mut last: BTreeMap<u32, f64> = BTreeMap::new();
    bench.run_watched("worker.jsonl", &arguments, &mut |id| {
        for worker in machine::children(id) {
            if let Some(bytes) = machine::private_bytes(worker) {
                last.insert(worker, bytes as f64);
            }
        }
    })?;
    let of_workers: Vec<f64> = last.into_values().collect();
    let middle = median(&of_workers).ok_or_else(|| failed(machine::NO_CHILDREN))?;
    Ok(middle as u64)
}

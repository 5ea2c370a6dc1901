//! `memory.bandwidth` in main memory beside sysbench, mbw and stress-ng, one
//! thread each, in the same amount of memory on 4 KiB pages.
//!
//! All count each byte once: a byte that is read, a byte that is written, a byte
//! that is copied (though that is read and written).

use crate::bench::Bench;
use crate::contest::{self, Contest};
use crate::error::Result;
use crate::verdict::Verdict;
use costof_peers::caches::BeyondCaches;
use costof_peers::tool::words;
use costof_peers::tools::{mbw, stress_ng, sysbench};

/// What is read or written over and over, at least.
const LEAST_MIB: u64 = 512;
/// For how long sysbench and stress-ng do it, and how often mbw copies.
const SYSBENCH_SECONDS: u32 = 2;
const STRESS_NG_SECONDS: u32 = 4;
const COPIES: u32 = 20;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let size_mib = BeyondCaches::at_least(LEAST_MIB).to_spare()?;
    let contest = |operation: &str, peers| {
        let axes = words(&format!(
            "op={operation} size={size_mib}MiB threads=1 pages=4KiB kernel=best"
        ));
        Contest {
            rounds: 9,
            ..Contest::throughput("memory.bandwidth", axes, peers)
        }
    };
    let contests = vec![
        contest(
            "read",
            vec![
                sysbench::memory("read", size_mib, SYSBENCH_SECONDS),
                stress_ng::reads(size_mib, STRESS_NG_SECONDS),
            ],
        ),
        contest(
            "write",
            vec![
                sysbench::memory("write", size_mib, SYSBENCH_SECONDS),
                stress_ng::writes(size_mib, STRESS_NG_SECONDS),
            ],
        ),
        contest("copy", vec![mbw::copy(size_mib, COPIES)]),
    ];
    contest::hold(
        bench,
        &format!("memory.bandwidth in {size_mib} MiB beside sysbench, mbw and stress-ng"),
        contests,
    )
}

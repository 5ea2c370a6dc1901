//! `memory.latency` beside a chase that was written independently in C: one
//! random cycle through 512 MiB on 4 KiB pages, a word every 64 bytes.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer};
use crate::error::Result;
use crate::verdict::{Bounds, Verdict};
use costof_peers::tool::{number_before, words};

const SIZE_BYTES: u64 = 512 << 20;
const STRIDE_BYTES: u64 = 64;
const LAPS: u64 = 2;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let mut seeds = fastrand::Rng::new();
    let chase = Peer::in_c(
        "chase.c",
        include_str!("chase.c"),
        Box::new(move || {
            let seed = seeds.u64(..);
            Ok(words(&format!("{SIZE_BYTES} {STRIDE_BYTES} {seed} {LAPS}")))
        }),
        |output| number_before(output, "ns per load"),
    );
    let axes = words(&format!(
        "size={SIZE_BYTES} pages=4KiB pattern=random stride={STRIDE_BYTES}"
    ));
    let contest = Contest {
        bounds: Bounds {
            low: 0.9,
            high: 1.1,
        },
        rounds: 9,
        ..Contest::time("memory.latency", "cost", axes, vec![chase])
    };
    contest::hold(
        bench,
        "memory.latency beside bench/src/chase.c",
        vec![contest],
    )
}

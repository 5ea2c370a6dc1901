//! `memory.latency` beside a chase that was written independently in C: one
//! random cycle through 512 MiB on 4 KiB pages, a word every 64 bytes.

use crate::bench::Bench;
use crate::contest::{self, Contest, Peer, Program, Says, number_before, words};
use crate::error::Result;
use crate::verdict::{Bounds, Verdict};

const SIZE_BYTES: u64 = 512 << 20;
const STRIDE_BYTES: u64 = 64;
const LAPS: u64 = 2;

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let mut seeds = fastrand::Rng::new();
    let chase = Peer {
        name: "chase.c",
        says: Says::Median,
        program: Program::Source("chase", include_str!("chase.c")),
        arguments: Box::new(move || {
            let seed = seeds.u64(..);
            words(&format!("{SIZE_BYTES} {STRIDE_BYTES} {seed} {LAPS}"))
        }),
        read: |output| number_before(output, "ns per load"),
    };
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

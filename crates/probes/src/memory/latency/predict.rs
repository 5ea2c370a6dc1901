//! Predictions of a load, by the cache level into which its size falls.

use super::{Latency, Pattern};
use crate::expect::core_hz;
use crate::prelude::*;

/// Bytes of a line where no cache says them.
const LINE_BYTES: f64 = 64.0;
/// A hit in the first level, in cycles.
const HIT: (f64, f64) = (3.0, 6.0);
/// What Intel's Optimization Reference Manual says of its prefetchers: the streamer runs up to so many lines
/// ahead of a load, in each of several pages, and the stride prefetcher, one stride ahead, knows strides of up to
/// so many bytes.
const LINES_AHEAD: f64 = 20.0;
const STRIDE_BYTES: u64 = 2048;

#[derive(Clone, Copy)]
enum Takes {
    Cycles(f64, f64),
    Nanoseconds(f64, f64),
}
use Takes::{Cycles, Nanoseconds};

pub(super) fn predict(
    point: &Latency,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let (takes, because) = level(point, facts);
    match (takes, point.pattern) {
        (Cycles(low, high), Pattern::Random | Pattern::PageLocal) => {
            cost_cycles(measured, (low, high), because)
        }
        (Nanoseconds(low, high), Pattern::Random | Pattern::PageLocal) => {
            cost_ns((low, high), because)
        }
        (Cycles(low, high), Pattern::Strided | Pattern::Quarters) => {
            let range = ascending((low, high), HIT, point, facts);
            cost_cycles(measured, range, &in_order(because))
        }
        (Nanoseconds(low, high), Pattern::Strided | Pattern::Quarters) => {
            let cycle_ns = 1e9 / core_hz(measured)?;
            let hit = (HIT.0 * cycle_ns, HIT.1 * cycle_ns);
            cost_ns(ascending((low, high), hit, point, facts), in_order(because))
        }
    }
}

fn in_order(because: &str) -> String {
    format!("{because}, less what prefetchers hide, which may be nothing")
}

/// The range in ascending order, from that in random order: at least what prefetchers can leave of it, at most
/// all of it, since nothing says that they are on.
fn ascending(
    (low, high): (f64, f64),
    hit: (f64, f64),
    point: &Latency,
    facts: &Facts,
) -> (f64, f64) {
    let line = facts.claimed_cache(1).and_then(|cache| cache.line_bytes);
    let lines = point.stride as f64 / line.map_or(LINE_BYTES, f64::from);
    let ahead = match point.pattern {
        Pattern::Quarters => 4.0 * LINES_AHEAD,
        Pattern::Random | Pattern::PageLocal | Pattern::Strided => LINES_AHEAD,
    };
    let is_intel = facts.cpu.vendor.as_deref() == Some("GenuineIntel");
    let left = match point.stride <= STRIDE_BYTES {
        _ if !is_intel => 0.0,
        true => (lines.max(1.0) / ahead).min(0.5),
        false => (lines / ahead).min(1.0),
    };
    // Further elements of a line hit the first level.
    let first = lines.min(1.0);
    let each = |of_first: f64, hit: f64| first * of_first.max(hit) + (1.0 - first) * hit;
    (each(left * low, hit.0), each(high, hit.1))
}

/// Usual load-to-use latencies in random order, which nothing prefetches, and why: first and second level in
/// cycles; beyond them by the mesh and by what is shared, which is why the ranges are wide.
fn level(point: &Latency, facts: &Facts) -> (Takes, &'static str) {
    // Elements further apart than a line use fewer lines, but also fewer of a
    // cache's sets, so that the size decides all the same. A last level may spread lines over all of its sets.
    let size = point.size;
    let lines = size / point.stride.max(64) * 64;
    let inside = |level| sizes::fit_into_level(size, facts, level);
    // Up to one and a half times the size of the level.
    let near = |level| sizes::fit_into_level(size / 2, facts, level);
    if inside(1) {
        return (Cycles(HIT.0, HIT.1), "fits into the L1 cache");
    }
    if near(1) || inside(2) {
        let low = if near(1) { 4.0 } else { 9.0 };
        return (Cycles(low, 22.0), "fits into the L2 cache");
    }
    if near(2) || inside(3) {
        let low = if near(2) { 11.0 } else { 30.0 };
        let because = "fits into the L3 cache that the CPU reports, if this machine has all of it";
        return (Cycles(low, 160.0), because);
    }
    let (low, because) = if near(3) {
        (10.0, "about the size of the L3 cache that the CPU reports")
    } else if sizes::fit_into_level(lines / 2, facts, 3) {
        (
            10.0,
            "its lines fit into the L3 cache that the CPU reports, if they are spread over all of its sets",
        )
    } else if point.pattern == Pattern::PageLocal {
        (20.0, "main memory, partly hidden by prefetchers")
    } else if point.pattern == Pattern::Random {
        (60.0, "main memory, and TLB misses with small pages")
    } else {
        (60.0, "main memory")
    };
    (Nanoseconds(low, 180.0), because)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::measured;
    use costof_model::facts::{Cache, CacheKind};

    #[test]
    fn what_prefetchers_leave_follows_from_how_far_a_manual_says_that_they_run() {
        let mut facts = Facts::default();
        facts.cpu.caches = [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)]
            .map(|(level, size_bytes)| Cache {
                level,
                kind: CacheKind::Unified,
                size_bytes,
                line_bytes: Some(64),
                ..Cache::default()
            })
            .into();
        // A cycle takes 0.5 ns.
        let rows = [measured(Frequency {}, 2e9)];
        let mut expect = |vendor: &str, pattern, size, stride| {
            facts.cpu.vendor = Some(vendor.to_owned());
            let point = Latency {
                size,
                pattern,
                stride,
                ..Latency::default()
            };
            let prediction = predict(&point, &facts, &MeasuredRows::new(&rows)).unwrap();
            (prediction.low, prediction.high)
        };
        let (l1, l2, l3, memory) = (16 << 10, 256 << 10, 8 << 20, 4 << 30);
        let (intel, amd) = ("GenuineIntel", "AuthenticAMD");
        let (strided, quarters) = (Pattern::Strided, Pattern::Quarters);
        for (vendor, pattern, size, stride, range) in [
            (intel, strided, l1, 64, (1.5, 3.0)),
            (intel, strided, l2, 64, (1.5, 11.0)),
            (intel, strided, l3, 256, (3.0, 80.0)),
            (intel, strided, memory, 64, (3.0, 180.0)),
            (intel, strided, memory, 512, (24.0, 180.0)),
            (intel, strided, memory, 1024, (30.0, 180.0)),
            (intel, strided, memory, 4096, (60.0, 180.0)),
            // Its lines would fit into the last level.
            (intel, strided, 256 << 20, 512, (4.0, 180.0)),
            // Four streams run ahead at the same time.
            (intel, quarters, memory, 512, (6.0, 180.0)),
            // Every other element is in the line of the one before.
            (intel, strided, memory, 32, (2.25, 91.5)),
            // Nobody says how far they run.
            (amd, strided, memory, 512, (1.5, 180.0)),
        ] {
            let found = expect(vendor, pattern, size, stride);
            assert_eq!(found, range, "{vendor} {} {size} {stride}", pattern.word());
        }
    }
}

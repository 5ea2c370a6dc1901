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
        (Cycles(low, high), Pattern::Random) => cost_cycles(measured, (low, high), because),
        (Nanoseconds(low, high), Pattern::Random) => cost_ns((low, high), because),
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
        Pattern::Random | Pattern::Strided => LINES_AHEAD,
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
        let (low, high, because) = third_level(facts);
        return (Cycles(if near(2) { 11.0 } else { low }, high), because);
    }
    let (walk, because) = page_walk(point, facts);
    let (low, because) = if near(3) {
        (10.0, "about the size of the L3 cache that the CPU reports")
    } else if sizes::fit_into_level(lines / 2, facts, 3) {
        (
            10.0,
            "its lines fit into the L3 cache that the CPU reports, if they are spread over all of its sets",
        )
    } else {
        (MEMORY_NS.0 + walk.0, because)
    };
    (Nanoseconds(low, MEMORY_NS.1 + walk.1), because)
}

/// A load from main memory, through the caches and the mesh between them.
const MEMORY_NS: (f64, f64) = (70.0, 140.0);

/// What a miss of the TLB adds to each load from main memory, in nanoseconds, and what it is.
fn page_walk(point: &Latency, facts: &Facts) -> ((f64, f64), &'static str) {
    match (point.pattern, point.pages) {
        // Each level of the guest's table is found by a walk through the host's: up to 24 loads
        // instead of 4. The lowest entries of both tables may come from main memory too.
        (Pattern::Random, Pages::Base) if facts.virtualization.virtual_machine == Some(true) => (
            (40.0, 200.0),
            "70 to 140 ns for main memory, and 40 to 200 ns for a page walk, which is nested in \
             the hypervisor's",
        ),
        // The entry comes from a cache.
        (Pattern::Random, Pages::Base) => {
            ((10.0, 60.0), "70 to 140 ns for main memory, and 10 to 60 ns for a page walk")
        }
        _ => ((0.0, 0.0), "main memory"),
    }
}

/// Usual cycles of the third level, and why: near where a few cores share it, far through the mesh
/// of a server.
fn third_level(facts: &Facts) -> (f64, f64, &'static str) {
    match facts.cpu.vendor.as_deref() {
        Some("AuthenticAMD") => (
            35.0,
            105.0,
            "fits into the L3 cache that the CPU reports, of one complex of cores, if this machine \
             has all of it",
        ),
        Some("GenuineIntel") if is_server(facts) => (
            60.0,
            200.0,
            "fits into the L3 cache that the CPU reports, behind a mesh, if this machine has all \
             of it",
        ),
        _ => (
            30.0,
            100.0,
            "fits into the L3 cache that the CPU reports, if this machine has all of it",
        ),
    }
}

/// Whether its caches are those of a server: an L2 cache of a MiB or more for each core, and an L3
/// cache larger than any other has.
fn is_server(facts: &Facts) -> bool {
    let claims = |level, bytes| {
        let claimed = facts.claimed_cache(level);
        claimed.is_some_and(|cache| cache.size_bytes >= bytes)
    };
    claims(2, 1 << 20) && claims(3, 20 << 20)
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
            let point = Latency { size, pattern, stride, ..Latency::default() };
            let prediction = predict(&point, &facts, &MeasuredRows::new(&rows)).unwrap();
            (prediction.low, prediction.high)
        };
        let (l1, l2, l3, memory) = (16 << 10, 256 << 10, 8 << 20, 4 << 30);
        let (intel, amd) = ("GenuineIntel", "AuthenticAMD");
        let (strided, quarters) = (Pattern::Strided, Pattern::Quarters);
        for (vendor, pattern, size, stride, range) in [
            (intel, strided, l1, 64, (1.5, 3.0)),
            (intel, strided, l2, 64, (1.5, 11.0)),
            (intel, strided, l3, 256, (6.0, 100.0)),
            (intel, strided, memory, 64, (3.5, 140.0)),
            (intel, strided, memory, 512, (28.0, 140.0)),
            (intel, strided, memory, 1024, (35.0, 140.0)),
            (intel, strided, memory, 4096, (70.0, 140.0)),
            // Its lines would fit into the last level.
            (intel, strided, 256 << 20, 512, (4.0, 140.0)),
            // Four streams run ahead at the same time.
            (intel, quarters, memory, 512, (7.0, 140.0)),
            // Every other element is in the line of the one before.
            (intel, strided, memory, 32, (2.5, 71.5)),
            // Nobody says how far they run.
            (amd, strided, memory, 512, (1.5, 140.0)),
        ] {
            let found = expect(vendor, pattern, size, stride);
            assert_eq!(found, range, "{vendor} {} {size} {stride}", pattern.word());
        }
    }

    #[test]
    fn a_page_walk_comes_before_a_random_load_and_is_nested_in_a_virtual_machine() {
        let mut facts = Facts::default();
        let mut range = |pages, is_virtual| {
            facts.virtualization.virtual_machine = is_virtual;
            let point = Latency { size: 1 << 30, pages, ..Latency::default() };
            let prediction = predict(&point, &facts, &MeasuredRows::new(&[])).unwrap();
            (prediction.low, prediction.high)
        };
        assert_eq!(range(Pages::Base, Some(false)), (80.0, 200.0));
        assert_eq!(range(Pages::Base, Some(true)), (110.0, 340.0));
        assert_eq!(range(Pages::Huge, Some(true)), (70.0, 140.0));
    }
}

//! Predictions of a load, by the cache level into which its size falls.

use super::{Latency, Pattern};
use crate::prelude::*;

/// Up to this stride, the next element is in the same line or in the next one.
const LINE_BYTES: u64 = 64;

#[derive(Clone, Copy)]
enum Takes {
    Cycles(f64, f64),
    Nanoseconds(f64, f64),
}
use Takes::{Cycles, Nanoseconds};

struct Level {
    because: &'static str,
    /// In random order, which no prefetcher predicts.
    random: Takes,
    /// In ascending order. Adjacent lines are prefetched almost entirely; for lines further apart,
    /// some prefetchers hide most of the latency, and others nothing.
    next_line: Takes,
    further: Takes,
}

pub(super) fn predict(
    point: &Latency,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let level = level(point, facts);
    let (takes, how) = match point.pattern {
        Pattern::Random | Pattern::PageLocal => (level.random, ""),
        _ if point.stride <= LINE_BYTES => (level.next_line, ", and is prefetched"),
        Pattern::Strided | Pattern::Quarters => (level.further, ", and may be prefetched"),
    };
    let because = format!("{}{how}", level.because);
    match takes {
        Cycles(low, high) => cost_cycles(measured, (low, high), &because),
        Nanoseconds(low, high) => cost_ns((low, high), because),
    }
}

/// Usual load-to-use latencies: L1 and L2 in cycles. Beyond them the interconnect and sharing
/// matter, so the ranges are wide.
fn level(point: &Latency, facts: &Facts) -> Level {
    // With a large stride, elements use fewer lines, but also fewer of a cache's sets, so the size
    // still decides.
    let size = point.size;
    let inside = |level| sizes::fit_into_level(size, facts, level);
    // Up to one and a half times the size of the level.
    let near = |level| sizes::fit_into_level(size / 2, facts, level);
    if inside(1) {
        return Level {
            because: "fits into the L1 cache",
            random: Cycles(3.0, 6.0),
            next_line: Cycles(3.0, 6.0),
            further: Cycles(3.0, 6.0),
        };
    }
    if near(1) || inside(2) {
        return Level {
            because: "fits into the L2 cache",
            random: Cycles(if near(1) { 4.0 } else { 9.0 }, 22.0),
            next_line: Cycles(4.0, 18.0),
            further: Cycles(4.0, 22.0),
        };
    }
    if near(2) || inside(3) {
        return Level {
            because: "fits into the L3 cache that the CPU reports, if this machine has all of it",
            random: Cycles(if near(2) { 11.0 } else { 30.0 }, 160.0),
            next_line: Cycles(5.0, 48.0),
            further: match near(2) {
                true => Cycles(9.0, 85.0),
                false => Cycles(18.0, 175.0),
            },
        };
    }
    let (low, because) = if near(3) {
        (10.0, "about the size of the L3 cache that the CPU reports")
    } else if point.pattern == Pattern::PageLocal {
        (20.0, "main memory, partly hidden by prefetchers")
    } else if point.pattern == Pattern::Random {
        (60.0, "main memory, and TLB misses with small pages")
    } else {
        (60.0, "main memory")
    };
    Level {
        because,
        random: Nanoseconds(low, 180.0),
        next_line: Nanoseconds(2.5, 24.0),
        further: Nanoseconds(13.0, 120.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::frequency::Frequency;
    use crate::testing::measured;
    use costof_model::facts::{Cache, CacheKind};

    #[test]
    fn a_stride_is_predicted_by_the_level_that_its_size_falls_in() {
        let mut facts = Facts::default();
        facts.cpu.caches = [(1, 32 << 10), (2, 1 << 20), (3, 32 << 20)]
            .map(|(level, size_bytes)| Cache {
                level,
                kind: CacheKind::Unified,
                size_bytes,
                ..Cache::default()
            })
            .into();
        let rows = [measured(Frequency {}, 3e9)];
        let expect = |pattern, size, stride| {
            let point = Latency {
                size,
                pattern,
                stride,
                ..Latency::default()
            };
            let Prediction { low, high, .. } =
                predict(&point, &facts, &MeasuredRows::new(&rows)).unwrap();
            Range(low, high)
        };
        for pattern in [Pattern::Strided, Pattern::Quarters] {
            for stride in [64, 256, 512] {
                let sizes = [16 << 10, 256 << 10, 8 << 20, 256 << 20];
                let ranges = sizes.map(|size| expect(pattern, size, stride));
                for (range, size) in ranges.iter().zip(sizes) {
                    assert!(range.1 < 10.0 * range.0, "{range:?} says too little");
                    assert!(range.1 <= 1.1 * expect(Pattern::Random, size, stride).1);
                }
                assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].1));
                assert_eq!(ranges[0], Range(1.0, 2.0));
            }
        }
    }
}

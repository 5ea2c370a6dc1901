//! Predictions of the bandwidth of memory and caches.

use super::{Bandwidth, Op, arena_bytes};
use crate::expect::{at_the_clock, core_hz, throughput};
use crate::memory::latency::{self, Latency};
use crate::prelude::*;

const LEVELS: [&str; 3] = ["L1", "L2", "claimed L3"];
/// Bytes per cycle in each level: two loads of 16 to 64 bytes, and one store.
const LOADED: [(f64, f64); 3] = [(48.0, 128.0), (20.0, 64.0), (10.0, 32.0)];
const STORED: [(f64, f64); 3] = [(24.0, 64.0), (12.0, 40.0), (6.0, 20.0)];

pub(super) fn predict(
    point: &Bandwidth,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let rates = match point.op {
        Op::WriteNontemporal => return main_memory(point, facts, measured),
        Op::Read => LOADED,
        Op::Write | Op::Copy => STORED,
    };
    let fits = |level: &u32| sizes::fit_into_level(arena_bytes(point), facts, *level);
    let Some(level) = (1..=3).find(fits) else {
        return main_memory(point, facts, measured);
    };
    let place = level as usize - 1;
    cached(point, measured, LEVELS[place], rates[place])
}

/// From a cache. Each thread has one, or an equivalent share.
fn cached(
    point: &Bandwidth,
    measured: &MeasuredRows<'_>,
    level: &str,
    (low, high): (f64, f64),
) -> Option<Prediction> {
    let hz = core_hz(measured)?;
    let threads = point.threads as f64;
    throughput(
        low * hz * threads,
        high * hz * threads,
        format!(
            "fits into the {level} cache: {low} to {high} bytes per cycle{}, {}",
            if threads > 1.0 { " and thread" } else { "" },
            at_the_clock(hz)
        ),
    )
}

/// Lines in flight: at least the 16 to 24 L1 fill buffers of a core and a few that a prefetcher
/// adds, at most the 48 outstanding misses of an L2 cache.
const LINES: (f64, f64) = (24.0, 48.0);
/// The part of a random load's latency on 4 KiB pages that is a TLB miss: the page table has a 512th
/// of the memory's size, which a cache holds, so a page walk costs a few cache references; in a
/// virtual machine, several of main memory. A stream has one such miss in 64 lines.
const TLB_MISS: (f64, f64) = (0.0, 1.0 / 3.0);
const NESTED_TLB_MISS: (f64, f64) = (0.2, 0.5);

/// From or to main memory: limited by the lines that a core has in flight, and by the modules.
fn main_memory(
    point: &Bandwidth,
    facts: &Facts,
    measured: &MeasuredRows<'_>,
) -> Option<Prediction> {
    let (part, why) = match point.op {
        Op::Write => (1.0, "; a line is read first, or a rep avoids it"),
        Op::WriteNontemporal => (1.5, "; 1.5 times that, as no line is read first"),
        Op::Copy => (
            0.7,
            "; 0.7 of that, since a copy reads and writes, at the same time where stores go past \
             the caches",
        ),
        Op::Read => (1.0, ""),
    };
    let latency = |pages: Pages| {
        let load = latency::load(sizes::beyond(facts));
        measured.at(&Latency { pages, ..load })
    };
    let on_huge = latency(Pages::Huge).map(|ns| (ns, (0.0, 0.0), "2 MiB pages".to_owned()));
    let measured = on_huge.or_else(|| {
        let (part, nested) = match facts.virtualization.virtual_machine {
            Some(true) => (NESTED_TLB_MISS, "nested "),
            Some(false) | None => (TLB_MISS, ""),
        };
        let pages = format!(
            "4 KiB pages, less {} for {nested}TLB misses, which a stream avoids",
            Range::from(part)
        );
        Some((latency(Pages::Base)?, part, pages))
    });
    let (low, high, because) = match measured {
        Some((ns, missing, pages)) => (
            LINES.0 * 64.0 / (ns * (1.0 - missing.0)) * 1e9,
            LINES.1 * 64.0 / (ns * (1.0 - missing.1)) * 1e9,
            format!(
                "a core and its prefetchers have {} to {} lines of 64 B in flight, each for the {} \
                 that memory.latency measured on {pages}{why}",
                LINES.0,
                LINES.1,
                Unit::Nanoseconds.display(ns)
            ),
        ),
        None => (8e9, 60e9, format!("a core moves 8 to 60 GB/s from main memory{why}")),
    };
    let threads = point.threads;
    let (low, high) = (part * low, part * high * threads as f64);
    let because = match threads {
        1 => because,
        _ => format!("{because}; {threads} threads move 1 to {threads} times that"),
    };
    let prediction = throughput(low, high, because)?;
    Some(match facts.memory.modules_bytes_per_s() {
        Some(limit) => {
            let limit_text = Unit::BytesPerSecond.display(limit);
            let why = format_args!("the {limit_text} of the memory modules");
            prediction.at_most(limit, 0.3, why)
        }
        None => prediction,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::bandwidth::stream;
    use crate::testing::measured;
    use costof_model::rows::PointRow;

    fn load(pages: Pages, ns: f64) -> PointRow {
        let load = latency::load(sizes::beyond(&Facts::default()));
        measured(Latency { pages, ..load }, ns)
    }

    #[test]
    fn a_stream_is_predicted_from_the_latency_without_tlb_misses_where_there_is_one() {
        let read = stream(Op::Read, 1 << 30);
        let mut facts = Facts::default();
        let mut predicted = |rows: &[PointRow], is_virtual| {
            facts.virtualization.virtual_machine = is_virtual;
            let prediction = predict(&read, &facts, &MeasuredRows::new(rows)).unwrap();
            let range = (prediction.low.round(), prediction.high.round());
            (range, prediction.because)
        };
        let (range, because) = predicted(&[load(Pages::Base, 128.0)], None);
        assert_eq!(range, (12e9, 36e9));
        assert!(because.contains("128 ns that memory.latency measured on 4 KiB"));
        // A nested walk is a fifth to a half of the latency.
        let (range, _) = predicted(&[load(Pages::Base, 128.0)], Some(true));
        assert_eq!(range, (15e9, 48e9));
        let both = [load(Pages::Base, 128.0), load(Pages::Huge, 100.0)];
        let (range, because) = predicted(&both, Some(true));
        assert_eq!(range, (15.36e9, 30.72e9));
        assert!(because.contains("100 ns that memory.latency measured on 2 MiB"));
    }
}

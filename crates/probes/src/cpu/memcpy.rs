//! `cpu.memcpy`: copying memory.

mod role;

use crate::memory::bandwidth::{self, Op};
use crate::memory::latency;
use crate::prelude::*;
use costof_os::memory::message::FIELDS;
use role::Copying;

const LINE_BYTES: u64 = 64;
/// Where the destination begins in its arena. Both arenas begin at a huge page. On some CPUs a load
/// waits for an unfinished store with the same last 12 address bits; without this offset every load
/// of a copy up to 1 KiB would.
const DESTINATION_AT: u64 = 1024 + LINE_BYTES;
/// The most that an allocator adds to a field, with the field's entry in its message's list.
const FIELD_OVERHEAD_BYTES: u64 = 48;

/// The first is the default.
const SIZES: &[u64] = &[1 << 10, 64, 256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

words! {
    /// Whether the source is cached before the copy. The destination is always the same, hence
    /// cached.
    pub(crate) enum Source {
        /// always the same memory, cached if it fits
        Hot = "hot",
        /// each time another part of a working set, the one copied longest ago
        Cold = "cold",
    }

    /// Which of the two begins at a cache line. The other begins one byte after the start of a
    /// line.
    pub(crate) enum Align {
        /// source and destination
        Both = "both",
        /// the source alone
        Source = "source",
        /// the destination alone
        Destination = "destination",
        /// neither
        Neither = "neither",
    }

    /// What is copied.
    pub(crate) enum Shape {
        /// one piece
        One = "one",
        /// a message of 8 separately allocated fields, in equal shares and the rest in the last,
        /// copied into one buffer: its serialisation
        Message = "message",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Memcpy>();

point! {
    /// What does copying memory cost, by size and by where the source is?
    ///
    /// The C library's memcpy is called with a length that the compiler does not know. Copies do
    /// not wait for each other, so the cost of a short one is what it adds, not its latency. A hot
    /// source is one buffer that is copied again and again. Cold sources are all parts of a working
    /// set in memory, in an order in which neighbours are far apart, so no cache and no prefetcher
    /// has them; for short copies, the cost includes TLB misses of 4 KiB pages. A cold message's
    /// list of fields is cold too. Its fields were allocated in turn with those of all other
    /// messages, so they are far apart. The destination is one buffer. It begins 1,088 bytes
    /// further in its page than the hot source, so that in copies up to 1 KiB no load has the same
    /// last 12 address bits as a store just before it. Every source has different bytes, and the
    /// destination must hold those of the last one.
    ///
    /// # Predicted from
    /// usual bytes per cycle of the cache that holds source and destination (cpu.frequency); for
    /// cold sources the latency of the cache that holds the working set (memory.latency); if none
    /// does, main memory's read bandwidth (memory.bandwidth) and latency (memory.latency)
    ///
    /// # Sources
    /// - ISO/IEC 9899:2018, 7.24.2.1 (memcpy); glibc
    ///   sysdeps/x86_64/multiarch/memmove-vec-unaligned-erms.S
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   bw_mem bcopy
    /// - Network I/O primitives, three course reports, 2026: a message of 8 fields, sent repeatedly
    ///   from one hot buffer
    ///
    /// # Needs
    /// - for cold sources, free memory of the working set
    pub(crate) struct Memcpy of "cpu.memcpy" {
        /// bytes per copy
        size: u64 = bytes(1..=1 << 30, SIZES),
        /// whether the source is cached before the copy; the destination is always the same, hence
        /// cached
        source: Source = words(),
        /// which of the two begins at a cache line; the other begins one byte after the start of a
        /// line
        align: Align = words(),
        /// what is copied
        shape: Shape = words(),
        /// the memory of cold sources
        working_set: u64 = bytes(1 << 20..=1 << 40, &[128 << 20]),
    }
}

impl Measure for Memcpy {
    const METRICS: &'static [Metric] = metrics! {
        /// one copy, or one message
        cost: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency", "memory.latency", "memory.bandwidth"];
    const CROSSINGS: &'static [NameList] = &[&["source", "shape"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: NameList = &["source", "shape", "working_set"];
    const ROLES: &'static [StartRole] = &[alone::<_, Copying>];

    fn memory_bytes(point: &At<Self>) -> u64 {
        let size = point.size;
        let place = match point.shape {
            Shape::Message => size + FIELDS as u64 * FIELD_OVERHEAD_BYTES,
            Shape::One => apart(point),
        };
        DESTINATION_AT + size + places(point).saturating_mul(place)
    }

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let message = Memcpy { size: 4 << 10, shape: Shape::Message, ..Memcpy::default() };
        vec![
            Headline::new("memcpy: 1 KiB, cached", Memcpy::default()),
            Headline::new("memcpy: 64 KiB, source not cached", cold(facts, 64 << 10)),
            Headline::new("serialisation: 8 fields, 4 KiB together", message),
        ]
    }

    /// Each size from a working set larger than this machine's caches.
    fn more_points(facts: &Facts) -> Vec<Planned> {
        Planned::all(SIZES.iter().map(|size| cold(facts, *size)))
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let bytes = point.size as f64;
        let pieces = match point.shape {
            Shape::Message => FIELDS as f64,
            Shape::One => 1.0,
        };
        let calls = cycles(measured, (2.5 * pieces, 12.0 * pieces), "calls")?;
        let memory = |op: Op| {
            let ns = bytes / measured.at(&bandwidth::stream(op, sizes::beyond(facts)))? * 1e9;
            let name = format!("to {} as many bytes in main memory (memory.bandwidth)", op.word());
            Some(Cost::new(ns, name))
        };
        let latency = |size| measured_cost(measured, &latency::load(size), "for a load from it");
        let cached = |level: u32| {
            let (fast, slow, level) = RATES[level as usize - 1];
            // Every other vector of an unaligned copy touches two lines.
            let aligned = point.align == Align::Both;
            let slow = if aligned { slow } else { slow / 2.0 };
            cycles(measured, (bytes / fast, bytes / slow), level)
        };
        let cost = match (level_of(2 * point.size, facts), point.source) {
            // Neither source nor destination stays in a cache.
            (None, _) => memory(Op::Copy)? * (0.7, 2.0),
            (Some(level), Source::Hot) => calls + cached(level)?,
            (Some(_), Source::Cold) => match level_of(Memcpy::memory_bytes(point), facts) {
                // A working set that fits into a cache comes from there, even if it is called cold.
                Some(level) => {
                    let latency = latency(sizes::inside(facts, level)?)?;
                    calls + cached(level)? + latency * (0.0, pieces)
                }
                // Copies overlap.
                None => {
                    let latency = latency(sizes::beyond(facts))?;
                    calls + memory(Op::Read)? * (1.0, 2.0) + latency * (pieces / 10.0, pieces)
                }
            },
        };
        cost.predict("cost")
    }
}

fn cold(facts: &Facts, size: u64) -> Memcpy {
    Memcpy { size, source: Source::Cold, working_set: sizes::beyond(facts), ..Memcpy::default() }
}

/// The distance of sources in the working set: whole cache lines, and one more if they begin after
/// the start of a line.
fn apart(point: &Memcpy) -> u64 {
    point.size.next_multiple_of(LINE_BYTES) + LINE_BYTES
}

/// Number of sources.
fn places(point: &Memcpy) -> u64 {
    let bytes = match point.shape {
        Shape::Message => point.size,
        Shape::One => apart(point),
    };
    match point.source {
        Source::Cold => point.working_set / bytes,
        Source::Hot => 1,
    }
}

/// Offsets of source and destination from a cache line: one byte or none.
fn offsets(point: &Memcpy) -> (usize, usize) {
    let to = DESTINATION_AT as usize;
    match point.align {
        Align::Both => (0, to),
        Align::Source => (0, to + 1),
        Align::Destination => (1, to),
        Align::Neither => (1, to + 1),
    }
}

/// The highest and lowest rate of copying in each cache level, in bytes per cycle.
const RATES: [(f64, f64, &str); 3] = [
    (64.0, 20.0, "the L1 cache"),
    (32.0, 10.0, "the L2 cache"),
    (20.0, 6.0, "the L3 cache that the CPU reports"),
];

/// The first cache level that holds this many bytes; `None` if none does.
fn level_of(bytes: u64, facts: &Facts) -> Option<u32> {
    (1..=3).find(|level| sizes::fit_into_level(bytes, facts, *level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_sources_fill_the_working_set_and_no_more() {
        let hot = Memcpy { size: 4096, working_set: 1 << 20, ..Memcpy::default() };
        assert_eq!(places(&hot), 1);
        let cold = Memcpy { source: Source::Cold, ..hot };
        let piece = Memcpy { size: 4095, align: Align::Source, ..cold };
        let (from, _) = offsets(&piece);
        let end = (places(&piece) - 1) * apart(&piece) + from as u64 + 4095;
        assert!(end <= 1 << 20 && end + apart(&piece) > 1 << 20);
        let shape = Shape::Message;
        assert_eq!(places(&Memcpy { shape, ..cold }), 256);
        let size = 2 << 20;
        assert_eq!(places(&Memcpy { size, ..cold }), 0);
    }

    #[test]
    fn cold_sources_come_from_the_cache_that_holds_the_working_set() {
        use crate::cpu::frequency::Frequency;
        use crate::testing::measured;
        use costof_model::facts::{Cache, CacheKind};
        let cache = |level, size_bytes| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes,
            ..Cache::default()
        };
        let mut facts = Facts::default();
        facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
        let load = |size, ns| measured(latency::load(size), ns);
        let read = bandwidth::stream(Op::Read, 128 << 20);
        let measured = [
            measured(Frequency {}, 1e9),
            load(sizes::inside(&facts, 3).unwrap(), 12.0),
            load(128 << 20, 100.0),
            measured(read, 1e9),
        ];
        let predicted = |working_set| {
            let cold =
                Memcpy { size: 1000, source: Source::Cold, working_set, ..Memcpy::default() };
            let prediction =
                Memcpy::predict(&cold.into(), &facts, &MeasuredRows::new(&measured)).unwrap();
            (prediction.low.round(), prediction.high.round())
        };
        // A call of 2.5 to 12 cycles, and 20 to 6 bytes per cycle of 1 ns.
        assert_eq!(predicted(8 << 20), (53.0, (12.0_f64 + 1000.0 / 6.0 + 12.0).round()));
        assert_eq!(predicted(128 << 20), (1013.0, 12.0 + 2000.0 + 100.0));
    }
}

//! `memory.latency`: a load that depends on the one before.

mod predict;
pub(crate) mod role;

use crate::prelude::*;
use role::Chase;

/// The default first, then a curve with three points an octave.
const SIZES: &[u64] = &sizes::kib([
    131_072, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024,
    1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 10_240, 12_288, 16_384, 20_480, 24_576,
    32_768, 40_960, 49_152, 65_536, 81_920, 98_304, 163_840, 196_608, 262_144, 393_216, 524_288,
    1_048_576,
]);

words! {
    pub(crate) enum Pattern {
        /// one random cycle through all elements (Sattolo), which no prefetcher can predict
        Random = "random",
        /// ascending, which prefetchers predict: shows how much they hide
        Strided = "strided",
        /// from one quarter of the memory to the next, ascending in each, as a course's pointer
        /// chase did: prefetchers that follow several streams predict it
        Quarters = "quarters",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Latency>();

point! {
    /// What does a load cost that depends on the one before it, by the amount of memory in use?
    ///
    /// The loads follow a chain of pointers: each load gives the address of the next, so none
    /// overlap. A lap visits every element once. Before anything is timed, the memory is touched,
    /// and a lap is walked and checked; of more than 2 Mi elements, only 2 Mi are
    /// visited. A batch in ascending order is a whole number of laps of up to 256 MiB: a cache may hold some
    /// parts of one. One arena serves all points of a block. The smallest pages are requested with
    /// MADV_NOHUGEPAGE, huge ones with MADV_HUGEPAGE; if less than nine tenths of a huge arena are
    /// on huge pages, the point is absent. For large sizes on 4 KiB pages, the cost includes TLB
    /// misses.
    ///
    /// # Predicted from
    /// the cache sizes that the CPU reports, usual cycles for each level (cpu.frequency; of the third
    /// by the kind of CPU), and 70 to 140 ns for main memory; on 4 KiB pages in random order 10 to 60
    /// ns more for a page walk, or 40 to 200 ns in a virtual machine, whose walks are nested; in ascending order at most that, and at least what prefetchers can
    /// leave of it: on Intel's CPUs a twentieth for each line from one element to the next (of four
    /// quarters an eightieth), or half of it for strides up to 2 KiB if that is less; on others a
    /// hit in the first level, since no manual says how far they run
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_mem_rd
    /// - S. Sattolo, An Algorithm to Generate a Random Cyclic Permutation, 1986
    /// - Intel 64 and IA-32 Architectures Optimization Reference Manual, Data Prefetching: the
    ///   streamer runs up to 20 lines ahead, in each of several pages, the stride prefetcher knows
    ///   strides of up to 2 KiB
    /// - CSE 221 System Measurement Project, 2014, whose strided chase was prefetched
    /// - R. Bhargava et al., Accelerating Two-Dimensional Page Walks for Virtualized Systems, ASPLOS
    ///   2008: up to 24 references where a native walk has 4
    /// - Linux Documentation/admin-guide/mm/transhuge.rst
    ///
    /// # Needs
    /// - free memory of the size; for 2MiB, transparent huge pages not set to never
    pub(crate) struct Latency of "memory.latency" {
        /// the memory that is visited repeatedly
        size: u64 = bytes(4 << 10..=1 << 40, SIZES),
        pages: Pages = Pages::axis(),
        /// in which order the elements are visited
        pattern: Pattern = words(),
        /// bytes from one element to the next; from 64 on each has a line of its own, so caches see
        /// size ÷ stride × 64 bytes
        stride: u64 = bytes(8..=1 << 30, &[64, 256, 512]),
    }
}

impl Measure for Latency {
    // With 1, batches in ascending order were parts of a lap, some of which a cache may hold.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one load
        cost: Nanoseconds Lower,
        /// the share of the arena on huge pages, by smaps (in a virtual machine, the guest's share)
        huge_share: One Neither,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["size", "pages"], &["pattern", "stride"]];
    const BLOCKS_BY: NameList = &["pages", "size"];
    const ROLES: &'static [StartRole] = &[|launch| role::<Latency>(Chase::start(launch))];

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn relations() -> Vec<Relation> {
        vec![
            Relation::because("more memory in use means no fewer cache misses")
                .these("pattern", Pattern::Random.word())
                .rises_with("size"),
        ]
    }

    /// One size inside each cache level that the CPU reports, and one far beyond the last.
    fn headlines(facts: &Facts) -> Vec<Headline> {
        let cached = (1..=3).filter_map(|level| {
            let label = format!("L{level} cache reference");
            Some(Headline::new(label, load(sizes::inside(facts, level)?)))
        });
        let beyond = load(sizes::beyond(facts));
        cached.chain([Headline::new("main memory reference", beyond)]).collect()
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point, facts, measured)
    }
}

pub(crate) fn load(size: u64) -> Latency {
    Latency { size, ..Latency::default() }
}

//! Finds what the rows of a run mean. Each finder is a pure function from rows to findings, with a file of
//! its own.
//!
//! A new finder needs its own file, which also has its sentence; and in this file its `mod` and its line in
//! `finders!`.
//!
//! This crate never does I/O.

pub mod all;
pub mod cache_levels;
mod cache_pollution;
mod cache_references;
mod contradictions;
mod core_shared;
pub mod crossover;
pub mod doctor;
mod dominant_part;
pub mod figures;
mod file_cache;
mod file_device;
pub mod finding;
mod fork_growth;
mod in_flight;
pub mod interval;
pub mod ladder;
#[cfg(test)]
mod levels_tests;
mod mapped_pages;
mod memory_latency;
mod missing_term;
mod modes;
mod naming;
pub mod noise;
mod page_sizes;
mod pairs;
mod prediction_score;
mod queue_overflow;
mod reliable_datagrams;
mod remote_file;
mod round_trip;
mod rpc_load;
mod saturated;
mod scaling;
mod second_thread;
pub mod send_crossover;
mod send_questions;
mod sends;
mod sentence;
mod sequential;
pub mod sureness;
pub mod surprise;
#[cfg(test)]
mod tests;
mod thread_scaling;
mod unexpected;
mod virtualisation;
mod ways_cross;
mod zero_copy;
mod zero_copy_price;

use costof_model::run_file::Run;
use finding::Finding;

/// A finder: what one function finds in a run; empty if the run lacks the rows for it.
type Find = fn(&Run) -> Vec<Finding>;

macro_rules! finders {
    ($($finder:ident: $($kind:ident = $name:literal),+;)+) => {
        /// The finders. Findings that are equally surprising are shown in this order.
        const FINDERS: &[Find] = &[$($finder::$finder,)+];

        /// The templates of each finder's sentences (see `sentence.rs`).
        const SENTENCES: &[&str] = &[$($finder::SENTENCES,)+];

        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each one's sentence says what it is")]
        pub enum Kind {
            $($($kind,)+)+
        }

        impl Kind {
            /// All kinds, grouped by finder.
            pub const ALL: &[Kind] = &[$($(Kind::$kind,)+)+];

            /// Its name in files and studies.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Kind::$kind => $name,)+)+
                }
            }
        }
    };
}

// Each finder is a function with the name of its file; after it, the kinds of its findings.
finders! {
    contradictions: Contradiction = "contradiction";
    cache_levels: MemoryLevels = "memory_levels",
        CacheSmallerThanClaimed = "cache_smaller_than_claimed",
        CacheLargerThanClaimed = "cache_larger_than_claimed";
    cache_references: CacheReferenceTooExpensive = "cache_reference_too_dear";
    page_sizes: SmallPages = "small_pages", TlbReach = "tlb_reach";
    sequential: SequentialMebibyte = "sequential_mebibyte", MemoryModulesShare = "memory_modules_share";
    scaling: Scaling = "scaling";
    core_shared: CoreShared = "core_shared";
    virtualisation: VmExit = "vm_exit", VmNested = "vm_nested", VmPageFaults = "vm_page_faults", VmWaking = "vm_waking";
    dominant_part: DominantPart = "dominant_part";
    fork_growth: ForkGrowth = "fork_growth";
    second_thread: SecondThread = "second_thread";
    file_device: FileDevice = "file_device";
    file_cache: FileCacheSize = "file_cache_size";
    remote_file: RemoteFileLimit = "remote_file_limit", RemoteReadParts = "remote_read_parts";
    round_trip: RoundTripWakeUps = "round_trip_wake_ups", RoundTripResting = "round_trip_resting",
        RoundTripModes = "round_trip_modes";
    reliable_datagrams: ReliableRoundTrip = "reliable_round_trip", ReliableEnds = "reliable_ends";
    ladder: RpcLadder = "rpc_ladder";
    rpc_load: RpcLoad = "rpc_load";
    saturated: BandwidthLimit = "bandwidth_limit";
    in_flight: WindowLimit = "window_limit", LossStarves = "loss_starves",
        RoundTripsAboveASecond = "round_trips_above_a_second";
    queue_overflow: QueueOverflow = "queue_overflow";
    zero_copy: ZeroCopy = "zero_copy";
    zero_copy_price: ZeroCopyPrice = "zero_copy_price";
    send_crossover: OneCopyCrossover = "one_copy_crossover", ZeroCopyCrossover = "zero_copy_crossover",
        CrossoverDisturbed = "crossover_disturbed";
    ways_cross: WaysCross = "ways_cross";
    cache_pollution: CachePollution = "cache_pollution";
    thread_scaling: ThreadScaling = "thread_scaling";
    mapped_pages: MappedPages = "mapped_pages";
    unexpected: Unexpected = "unexpected";
    missing_term: MissingTerm = "missing_term";
    modes: Modes = "modes";
    prediction_score: PredictionScore = "prediction_score";
}

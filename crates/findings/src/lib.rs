//! What rows mean: pure functions from the rows of a run to findings, one file each.
//!
//! A new finding is its own file, its lines in the lists below, and its sentence in `sentences.toml`.
//!
//! This crate never does I/O.

pub mod all;
pub mod cache_levels;
mod cache_pollution;
mod cache_references;
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
mod interval;
pub mod ladder;
#[cfg(test)]
mod levels_tests;
mod mapped_pages;
mod memory_latency;
mod missing_term;
mod modes;
mod naming;
mod page_sizes;
mod prediction_score;
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
mod surprise;
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

/// What one function finds in a run; empty where the rows do not carry it.
type Find = fn(&Run) -> Vec<Finding>;

/// In the order in which those that are equally surprising are shown.
const FINDERS: &[Find] = &[
    cache_levels::cache_levels,
    cache_references::cache_references,
    page_sizes::page_sizes,
    sequential::sequential,
    scaling::scaling,
    core_shared::core_shared,
    virtualisation::virtualisation,
    dominant_part::dominant_part,
    fork_growth::fork_growth,
    second_thread::second_thread,
    file_device::file_device,
    file_cache::file_cache,
    remote_file::remote_file,
    round_trip::round_trip,
    reliable_datagrams::reliable_datagrams,
    ladder::ladder,
    rpc_load::rpc_load,
    saturated::saturated,
    in_flight::in_flight,
    zero_copy::zero_copy,
    zero_copy_price::zero_copy_price,
    send_crossover::send_crossover,
    ways_cross::ways_cross,
    cache_pollution::cache_pollution,
    thread_scaling::thread_scaling,
    mapped_pages::mapped_pages,
    unexpected::unexpected,
    missing_term::missing_term,
    modes::modes,
    prediction_score::prediction_score,
];

macro_rules! kinds {
    ($($kind:ident = $name:literal,)+) => {
        /// What kind of finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "`sentences.toml` says what each is")]
        pub enum Kind {
            $($kind,)+
        }

        impl Kind {
            /// All of them, those of a subject together.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)+];

            /// Its name in files and studies.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    MemoryLevels = "memory_levels",
    CacheSmallerThanClaimed = "cache_smaller_than_claimed",
    CacheLargerThanClaimed = "cache_larger_than_claimed",
    CacheReferenceTooDear = "cache_reference_too_dear",
    SmallPages = "small_pages",
    TlbReach = "tlb_reach",
    SequentialMebibyte = "sequential_mebibyte",
    MemoryModulesShare = "memory_modules_share",
    CoreShared = "core_shared",
    VmExit = "vm_exit",
    VmPageFaults = "vm_page_faults",
    VmWaking = "vm_waking",
    Scaling = "scaling",
    ForkGrowth = "fork_growth",
    SecondThread = "second_thread",
    FileDevice = "file_device",
    FileCacheSize = "file_cache_size",
    RemoteFileLimit = "remote_file_limit",
    RemoteReadParts = "remote_read_parts",
    RoundTripWakeUps = "round_trip_wake_ups",
    RoundTripResting = "round_trip_resting",
    RoundTripModes = "round_trip_modes",
    BandwidthLimit = "bandwidth_limit",
    WindowLimit = "window_limit",
    LossStarves = "loss_starves",
    RoundTripsAboveASecond = "round_trips_above_a_second",
    ReliableRoundTrip = "reliable_round_trip",
    ReliableEnds = "reliable_ends",
    RpcLadder = "rpc_ladder",
    RpcLoad = "rpc_load",
    ZeroCopy = "zero_copy",
    ZeroCopyPrice = "zero_copy_price",
    OneCopyCrossover = "one_copy_crossover",
    ZeroCopyCrossover = "zero_copy_crossover",
    CrossoverDisturbed = "crossover_disturbed",
    CachePollution = "cache_pollution",
    ThreadScaling = "thread_scaling",
    MappedPages = "mapped_pages",
    Unexpected = "unexpected",
    WaysCross = "ways_cross",
    DominantPart = "dominant_part",
    MissingTerm = "missing_term",
    Modes = "modes",
    PredictionScore = "prediction_score",
}

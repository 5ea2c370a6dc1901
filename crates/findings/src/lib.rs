//! Finds what the rows of a run mean. Each finder is a pure function from rows to findings. Most have their own
//! file; those that compare two rows that differ in one axis stand in `contrasts.rs`.
//!
//! A new finder needs its own file, or a function in `contrasts.rs` if it compares two rows that differ
//! in one axis; and in this file its `mod` and its line in `finders!`.
//!
//! This crate never does I/O.

pub mod all;
pub mod cache_levels;
mod cache_pollution;
mod contradictions;
mod contrasts;
mod core_shared;
pub mod crossover;
pub mod doctor;
mod file_cache;
mod file_device;
mod finding;
mod in_flight;
pub mod interval;
pub mod ladder;
mod memory_latency;
mod modes;
mod naming;
mod node;
pub mod noise;
mod over;
mod page_sizes;
mod pairs;
mod prelude;
mod queue_overflow;
mod reliable_datagrams;
mod remote_file;
mod saturated;
pub mod send_crossover;
mod sends;
mod sequential;
pub mod sureness;
pub mod surprise;
#[cfg(test)]
mod tests;
mod text;
mod thread_scaling;
mod unexpected;
mod virtualisation;
mod zero_copy;
mod zero_copy_price;

pub use finding::Finding;
pub use interval::Interval;

use costof_model::Run;

/// A finder: what one function finds in a run; empty if the run lacks the rows for it.
type Find = fn(&Run) -> Vec<Finding>;

macro_rules! finders {
    ($($find:path => $($kind:ident = $name:literal),+;)+) => {
        /// The finders. Findings that are equally surprising are shown in this order.
        const FINDERS: &[Find] = &[$($find,)+];

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

// Each finder, and the kinds of its findings.
finders! {
    contradictions::contradictions => Contradiction = "contradiction";
    node::slow_cores => SlowCore = "slow_core";
    node::busy_cores => BusyCore = "busy_core";
    node::held_clock => HeldClock = "held_clock";
    node::node_memory => NodeMemory = "node_memory";
    cache_levels::cache_levels => MemoryLevels = "memory_levels";
    page_sizes::page_sizes => SmallPages = "small_pages";
    sequential::sequential => SequentialMebibyte = "sequential_mebibyte", MemoryModulesShare = "memory_modules_share";
    contrasts::scaling => Scaling = "scaling";
    core_shared::core_shared => CoreShared = "core_shared";
    virtualisation::virtualisation => VmExit = "vm_exit";
    contrasts::vm_waking => VmWaking = "vm_waking";
    contrasts::fork_growth => ForkGrowth = "fork_growth";
    contrasts::second_thread => SecondThread = "second_thread";
    file_device::file_device => FileDevice = "file_device";
    file_cache::file_cache => FileCacheSize = "file_cache_size";
    remote_file::remote_file => RemoteFileLimit = "remote_file_limit", RemoteReadParts = "remote_read_parts";
    contrasts::wake_ups => RoundTripWakeUps = "round_trip_wake_ups";
    contrasts::resting => RoundTripResting = "round_trip_resting";
    contrasts::awake_and_idle_modes => RoundTripModes = "round_trip_modes";
    reliable_datagrams::reliable_datagrams => ReliableRoundTrip = "reliable_round_trip", ReliableEnds = "reliable_ends";
    ladder::ladder => RpcLadder = "rpc_ladder";
    saturated::saturated => BandwidthLimit = "bandwidth_limit";
    in_flight::in_flight => WindowLimit = "window_limit", LossStarves = "loss_starves",
        RoundTripsAboveASecond = "round_trips_above_a_second";
    queue_overflow::queue_overflow => QueueOverflow = "queue_overflow";
    zero_copy::zero_copy => ZeroCopy = "zero_copy";
    zero_copy_price::zero_copy_price => ZeroCopyPrice = "zero_copy_price";
    send_crossover::send_crossover => OneCopyCrossover = "one_copy_crossover", ZeroCopyCrossover = "zero_copy_crossover",
        CrossoverDisturbed = "crossover_disturbed";
    cache_pollution::cache_pollution => CachePollution = "cache_pollution";
    thread_scaling::thread_scaling => ThreadScaling = "thread_scaling";
    unexpected::unexpected => Unexpected = "unexpected";
    modes::modes => Modes = "modes";
}

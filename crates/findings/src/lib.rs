//! What rows mean: pure functions from the rows of a run to sentences, one file each.
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
mod file_cache;
mod file_device;
pub mod finding;
mod fork_growth;
pub mod kinds;
pub mod ladder;
#[cfg(test)]
mod levels_tests;
mod mapped_pages;
mod memory_latency;
#[cfg(test)]
mod memory_sample;
mod missing_term;
mod modes;
mod page_sizes;
mod prediction_score;
mod ratio;
mod reliable_datagrams;
mod remote_file;
mod round_trip;
mod rpc_load;
mod saturated;
mod scaling;
mod second_thread;
pub mod send_crossover;
mod send_questions;
mod sequential;
pub mod sureness;
mod surprise;
mod thread_scaling;
mod under_way;
mod unexpected;
mod virtualisation;
mod ways_cross;
mod zero_copy;
mod zero_copy_price;

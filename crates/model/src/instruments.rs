//! What a machine lets a worker measure with: its clock and its counters.

use crate::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which counters a machine lets a worker have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterInfo {
    /// By name.
    pub available: Vec<Text>,
    /// Those of which only the part in user mode is counted, because only root
    /// may count the kernel's (their metrics end in `_user`).
    #[serde(default)]
    pub user_only: Vec<Text>,
    /// By name, and why not.
    pub absent: BTreeMap<Text, String>,
}

/// A clock, chosen and calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// Which one.
    pub source: ClockSource,
    /// Why this one.
    pub because: String,
    /// Ticks per second.
    pub hz: f64,
    /// How far the calibrations lie apart, in parts per million.
    pub spread_ppm: f64,
    /// The least difference between two readings that differ, in nanoseconds.
    pub resolution_ns: f64,
    /// What one reading costs, in nanoseconds.
    pub read_ns: f64,
    /// Core cycles per independent addition while nothing else uses the core: the floor of the
    /// gauge. Absent where none was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_floor: Option<f64>,
}

/// The clocks that a measurement may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The processor's own counter: the TSC, or the generic timer of aarch64.
    Counter,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

//! The instruments of a worker: its clock and its counters.

use crate::Text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which counters a machine grants to a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterInfo {
    /// Their names.
    pub available: Vec<Text>,
    /// Counters of which only the user-mode part is counted, because only root may count the
    /// kernel's part (their metrics end in `_user`).
    #[serde(default)]
    pub user_only: Vec<Text>,
    /// The names of the others, and why each is absent.
    pub absent: BTreeMap<Text, String>,
}

/// A clock, chosen and calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// Which one.
    pub source: ClockSource,
    /// Why it was chosen.
    pub because: String,
    /// Ticks per second.
    pub hz: f64,
    /// By how much the calibrations differ, in parts per million.
    pub spread_ppm: f64,
    /// The smallest nonzero difference between two readings, in nanoseconds.
    pub resolution_ns: f64,
    /// What one reading costs, in nanoseconds.
    pub read_ns: f64,
    /// Core cycles per independent addition while nothing else uses the core: the floor of the
    /// gauge. Absent if none was found.
    pub core_floor: Option<f64>,
}

/// The clocks that a measurement may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The CPU's own counter: the TSC, or the generic timer of aarch64.
    Counter,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
}

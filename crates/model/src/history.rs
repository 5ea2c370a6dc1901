//! Runs over time: which rows changed, when, and what else changed then.

use crate::rows::MetricOfPoint;
use serde::Serialize;

/// The changes in a series of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// When each run began, in order.
    pub runs: Vec<String>,
    /// How many rows were followed.
    pub rows: usize,
    /// One false alarm, in any row, is raised in about this many runs.
    pub false_alarm_runs: u32,
    /// The change that a typical row shows, as a share, and after how many runs.
    pub detectable: Option<(f64, u32)>,
    /// The changes, the latest first.
    pub changes: Vec<Change>,
}

/// A lasting change of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// When the first run after the change began.
    pub at: String,
    /// When the run that showed it began.
    pub found: String,
    /// The level before.
    pub from: f64,
    /// The level after.
    pub to: f64,
    /// How much worse it became, as a share; negative where better.
    pub worse: f64,
    /// What else changed then: the fact, its value before, and after. None: the change is unexplained.
    pub facts: Vec<(String, String, String)>,
}

//! Whether a host is as the hosts of a reference are.

use crate::MetricOfPoint;
use serde::Serialize;

/// What is risked, each as a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Risks {
    /// A row that is worse by this matters.
    pub change: f64,
    /// The producer's risk: that a host which belongs fails.
    pub producer: f64,
    /// The consumer's risk: that a host which is worse by that change in a row passes there.
    pub consumer: f64,
}

/// What a host is, or a row of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is not worse by the change, in any of the judged rows.
    Pass,
    /// It is worse than hosts that belong.
    Fail,
    /// Neither is shown.
    #[serde(rename = "inconclusive")]
    Undecided,
}

/// The verdict about a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Qualified {
    /// The verdict.
    pub verdict: Verdict,
    /// The facts of the hosts that it was held against.
    pub facts: Vec<(String, String)>,
    /// How many these are.
    pub hosts: usize,
    /// What was risked.
    pub risks: Risks,
    /// How long measuring took.
    pub seconds: f64,
    /// How many launches there were.
    pub launches: u32,
    /// How much longer it takes until the rows are decided that more launches can decide.
    pub seconds_left: f64,
    /// The judged rows: those that failed, those that are inconclusive, those that passed.
    pub rows: Vec<JudgedRow>,
    /// The rows that were not judged.
    pub left_out: Vec<LeftOut>,
}

/// A row of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedRow {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// The verdict.
    pub verdict: Verdict,
    /// The median here; absent if there is none to conclude from.
    pub here: Option<f64>,
    /// That of the hosts that belong.
    pub usual: f64,
    /// How much worse it is here, as a share of the usual; negative where better.
    pub worse: Option<f64>,
    /// The 95 % interval of that.
    pub worse_ci95: Option<(f64, f64)>,
    /// How many launches it had.
    pub launches: u32,
    /// How many more launches would decide it, if its median stays; absent if that is not to be expected.
    pub launches_left: Option<u32>,
}

/// A row that was not judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// Why, if not for how much hosts differ in it.
    pub why: Option<String>,
    /// The smallest change that it could show, as a share.
    pub change: f64,
}

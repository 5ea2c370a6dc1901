//! A comparison of many hosts: which of them are odd.

use crate::comparison::Comparison;
use crate::rows::MetricOfPoint;
use serde::Serialize;

/// The fact that a quota holds processes back, and its value where none does.
pub const CPU_QUOTA: &str = "CPU quota";
/// See [`CPU_QUOTA`].
pub const NO_QUOTA: &str = "none";
/// The value of a fact that a run does not have.
pub const UNKNOWN: &str = "unknown";

/// Hosts, each held against those of its cohort.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Of the hosts called odd, at most this share is not, in expectation.
    pub false_share: f64,
    /// The cohorts, the largest first.
    pub cohorts: Vec<Cohort>,
    /// What differs between the populations of hosts that are alike in the facts of their cohort, or between the groups that
    /// the user compares.
    pub partings: Vec<Comparison>,
}

/// Hosts that are alike by their facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cohort {
    /// The facts that define it, with their values.
    pub facts: Vec<(String, String)>,
    /// The rows that were judged, by their labels or points.
    pub rows: Vec<String>,
    /// The smallest deviation that a typical row of a typical host could have shown, as a share.
    pub detectable: Option<f64>,
    /// Its hosts, the oddest first.
    pub hosts: Vec<Host>,
}

/// One host, from all of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// How many runs it has.
    pub runs: usize,
    /// Whether it belongs.
    pub verdict: Verdict,
    /// The probability that a host that belongs deviates as much.
    pub p: f64,
    /// How much worse than usual it is in each of the cohort's rows, as a share; negative where better,
    /// absent where it has no number.
    pub worse: Vec<Option<f64>>,
    /// The smallest deviation that a typical row of it could have shown, as a share.
    pub detectable: Option<f64>,
    /// The layers that deviate as a whole, if it is odd.
    pub layers: Vec<LayerDeviation>,
    /// The rows that deviate, if it is odd; the largest deviation first.
    pub deviations: Vec<Deviation>,
    /// Facts in which it differs from most of its cohort: the fact, its value here, and the usual one.
    pub facts: Vec<Differing>,
}

/// What a host is, beside its cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It surely deviates, for the worse in every row that deviates.
    Slower,
    /// It surely deviates, for the better in every row that deviates.
    Faster,
    /// It surely deviates, in both directions.
    Different,
    /// Its own noise, or too few hosts or rows, hide what the others could have shown.
    #[serde(rename = "inconclusive")]
    Undecided,
    /// No deviation was found.
    Normal,
}

/// A fact in which a host differs from most of its cohort: its name, its value here, and the usual one.
pub type Differing = (String, String, String);

/// The CPU quota that holds a host back, where most of its cohort have none, from the facts in which it differs.
pub fn own_quota(facts: &[Differing]) -> Option<&str> {
    let mut facts = facts.iter();
    let quota = facts.find(|(what, _, usual)| what == CPU_QUOTA && usual == NO_QUOTA);
    quota.map(|(_, here, _)| &**here).filter(|here| *here != UNKNOWN)
}

impl Verdict {
    /// Whether the host is odd.
    pub fn is_odd(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::Faster | Verdict::Different)
    }
}

/// What of a row deviates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// What it usually costs.
    Median,
    /// What it costs in the mean, while its median is as usual: a part of the batches cost far more.
    Mean,
}

/// A row in which a host surely deviates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// Whether its median or its mean does.
    pub statistic: Statistic,
    /// The value here.
    pub here: f64,
    /// The usual value in the cohort.
    pub usual: f64,
    /// How much worse than usual, as a share of the usual; negative where better.
    pub worse: f64,
    /// The probability that a host that belongs deviates as much.
    pub p: f64,
}

/// A layer in which a host surely deviates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerDeviation {
    /// The layer: `memory`, `net`.
    pub layer: String,
    /// Whether the medians of its rows or their means do.
    pub statistic: Statistic,
    /// How many rows it has.
    pub rows: usize,
    /// How much worse than usual its rows are, weighted by their precision, as a share; negative where better.
    pub worse: f64,
    /// The probability that a host that belongs deviates as much.
    pub p: f64,
}

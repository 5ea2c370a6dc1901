//! The comparison of two runs, or of two groups of runs.

use crate::id::with_id;
use crate::{Better, Point, Selection, Text, Unit};
use serde::Serialize;

/// A run, or a group of runs, compared with an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// What both sides consist of, if they are groups of runs.
    pub groups: Option<Groups>,
    /// Whether the launches of both took turns: ratios are then those of launches that ran next to
    /// each other.
    pub in_turns: bool,
    /// The smallest change that matters, as a share: 0.05 is 5 %.
    pub matters: f64,
    /// The facts in which the machines differ; the ones that explain most come first.
    pub facts: Vec<FactDifference>,
    /// The layers as a whole; only of groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerChange>,
    /// Every metric of which both have launches, in the order of the later run's plan.
    pub rows: Vec<Compared>,
    /// Whether a run was an export, which has no launches: its rows are then compared by their medians and intervals.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_exported: bool,
    /// Points that both have and that cannot be compared.
    pub refused: Vec<Refused>,
    /// Points for which only the earlier run has a number.
    pub only_before: Vec<Point>,
    /// Points for which only the later run has a number.
    pub only_after: Vec<Point>,
    /// Points with a number in the earlier run that the later run was also to measure, but has no
    /// number for.
    pub missing: Vec<Missing>,
}

/// Two groups of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Groups {
    /// What counts once, whatever it has of runs and launches: intervals are over these.
    pub level: Level,
    /// How many of these the earlier group has.
    pub before: usize,
    /// How many of these the later group has.
    pub after: usize,
    /// Whether each host is compared with itself, as both groups have the same hosts.
    pub in_pairs: bool,
    /// The row by which the groups were found, if it was no fact.
    pub row: Option<String>,
}

/// The highest level of which a group has more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Each group has one host, started once.
    Runs,
    /// Each group has one host, started several times.
    Boots,
    /// A group has several hosts.
    Hosts,
}

impl Level {
    /// One of this level: `host`.
    pub fn noun(self) -> &'static str {
        match self {
            Level::Runs => "run",
            Level::Boots => "boot",
            Level::Hosts => "host",
        }
    }
}

/// By how much a layer of the later group is worse: the median of its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerChange {
    /// The layer: `memory`.
    pub layer: String,
    /// How many rows it has.
    pub rows: usize,
    /// The change, as a share; negative where better.
    pub worse: f64,
    /// Its 95 % interval.
    pub ci95: (f64, f64),
    /// How probable a change this large is by chance if the true change is 1 % or less, from 0 to 1.
    pub p: f64,
    /// The verdict, considering all layers and rows.
    pub verdict: Verdict,
}

/// A point that no longer has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// Why.
    pub reason: String,
    /// Whether noise is the cause.
    pub is_noise: bool,
}

/// A fact that differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FactDifference {
    /// Of which host: [`MEASURED`](crate::noise::MEASURED) or [`PEER`](crate::noise::PEER).
    pub host: Text,
    /// Which fact.
    pub what: String,
    /// The earlier run's value; absent if it is unknown.
    pub before: Option<String>,
    /// The later run's value; absent if it is unknown.
    pub after: Option<String>,
}

/// A metric of a point in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// Its label in the latency table, if it has one and the metric is the primary one.
    pub label: Option<String>,
    /// The metric.
    pub metric: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// The earlier run's median, as in its row, and how many launches are compared. In pairs, only
    /// launches with a partner in the other run are counted. Of groups: the geometric mean of their hosts, boots
    /// or runs, and how many these are.
    pub before: (f64, u32),
    /// The later run's.
    pub after: (f64, u32),
    /// After ÷ before, from the geometric means of the launches' medians, without their least and
    /// their greatest eighth.
    pub ratio: f64,
    /// The 95 % interval of the ratio, considered alone: of twenty such intervals, one misses the
    /// true ratio.
    pub ci95: (f64, f64),
    /// How probable a difference this large is by chance if the true change is 1 % or less, from 0
    /// to 1, considering only this row.
    pub p: f64,
    /// The verdict, considering all rows.
    pub verdict: Verdict,
    /// About how many launches of each run, or hosts, boots or runs of each group, would decide a `CannotTell`; absent
    /// if no number that anybody would measure does.
    pub needed: Option<u32>,
    /// The smallest change, as a share of before, that would be found nine times in ten among this
    /// many rows: 0.05 is 5 %.
    pub visible: f64,
    /// Which samples of both runs were compared.
    pub selection: Selection,
    /// Whether something else used the core during the compared samples, in either run. Runs that
    /// did not take turns may then differ by their neighbours, and neither is called better or
    /// worse.
    pub core_shared: bool,
    /// The core clocks of the earlier and the later run, in hertz, if core cycles were compared: the ratio is that at
    /// equal clocks. Absent if times were compared.
    pub clocks: Option<(f64, f64)>,
}

/// What a ratio means, corrected for the number of rows; in the order in which rows are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later run is worse.
    Worse,
    /// The later run is better.
    Better,
    /// They differ, but neither direction is better, or a neighbour on the core may be the reason.
    Differs,
    /// No change as large as [`Comparison::matters`]: it would have been found.
    NoDifference,
    /// No difference was found, but a change as large as [`Comparison::matters`] could have been
    /// missed.
    #[serde(rename = "inconclusive")]
    CannotTell,
}

impl Verdict {
    /// Whether a difference is certain.
    pub fn is_change(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse | Verdict::Differs)
    }
}

/// A point, or one metric of it, that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The metric.
    pub metric: Text,
    /// Why, and what to do about it.
    pub reason: String,
}

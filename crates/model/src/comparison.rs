//! What two runs say of each other.

use crate::Text;
use crate::metric::Selection;
use crate::point::{Point, with_id};
use crate::unit::{Better, Unit};
use serde::Serialize;

/// A run compared with an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether the launches of both took turns: ratios are then those of neighbours.
    pub in_turns: bool,
    /// The smallest change that matters, as a share: 0.05 is 5 %.
    pub matters: f64,
    /// What the machines say of themselves that is not the same, what explains most first.
    pub facts: Vec<FactDifference>,
    /// Every metric of which both have launches, in the order of the later run's plan.
    pub rows: Vec<Compared>,
    /// Points that both have and that cannot be compared.
    pub refused: Vec<Refused>,
    /// Points that only the earlier run has a number of.
    pub only_before: Vec<Point>,
    /// Points that only the later run has a number of.
    pub only_after: Vec<Point>,
    /// Points with a number in the earlier run that the later run was to measure too, and has none of.
    pub missing: Vec<Missing>,
}

/// A point that has no number any more.
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

/// A fact that is not the same in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FactDifference {
    /// Of which host: [`MEASURED`](crate::noise::MEASURED) or [`PEER`](crate::noise::PEER).
    pub host: Text,
    /// Which fact.
    pub what: String,
    /// What the earlier run says; absent where it does not know.
    pub before: Option<String>,
    /// What the later run says; absent where it does not know.
    pub after: Option<String>,
}

/// A metric of a point in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The metric.
    pub metric: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// The earlier run's median, as its row has it, and how many launches are compared; in pairs, how many
    /// have one of the other run beside them.
    pub before: (f64, u32),
    /// The later run's.
    pub after: (f64, u32),
    /// After ÷ before, by the geometric means of the launches' medians without the least and the greatest
    /// eighth of them.
    pub ratio: f64,
    /// The 95 % interval of the ratio, by itself: of twenty such, one misses.
    pub ci95: (f64, f64),
    /// How often chance alone makes a difference as great out of one by 1 % or less, 0 to 1, looking
    /// at this row only.
    pub p: f64,
    /// What that means among all rows.
    pub verdict: Verdict,
    /// Why it cannot tell, where it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The smallest change, as a share of before, that would have been seen nine times in ten
    /// among so many rows: 0.05 is 5 %.
    pub visible: f64,
    /// Which samples of both runs were compared.
    pub selection: Selection,
    /// Whether something else used the core during what was compared, in either run: runs that did not
    /// take turns may then differ by their neighbours, and none is called better or worse.
    pub core_shared: bool,
}

/// What a ratio means, corrected for the number of rows that were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The later run is better.
    Better,
    /// The later run is worse.
    Worse,
    /// They differ, and neither way is better, or a neighbour on the core may be the reason.
    Differs,
    /// No change as large as [`Comparison::matters`]: it would have been seen.
    NoDifference,
    /// No difference was seen, and a change as large as [`Comparison::matters`] need not have been.
    CannotTell,
}

impl Verdict {
    /// Whether there surely is a difference.
    pub fn is_change(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse | Verdict::Differs)
    }
}

/// Why a row cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its launches differ too much, also for many more of them.
    Noise,
    /// As many launches as `--full` makes would tell.
    FewLaunches,
}

/// A point, or one metric of it, that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The metric.
    pub metric: Text,
    /// Why, with the way out.
    pub reason: String,
}

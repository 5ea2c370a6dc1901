//! The rows of a run file: one JSON object a line.

use crate::Text;
use crate::axis::Axes;
use crate::expected::Prediction;
use crate::facts::Facts;
use crate::failure::FailureKind;
use crate::instruments::{ClockInfo, CounterInfo};
use crate::link_report::LinkReport;
use crate::metric::{Estimate, Measured};
use crate::noise::{Grade, Noise, Placement, Warning};
use crate::point::{Point, with_id};
use crate::probe_info::ProbeInfo;
use crate::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The version of the rows. Readers ignore unknown fields and unknown rows,
/// and refuse a greater version.
pub const SCHEMA: u32 = 1;

/// One row of a run file; [`read`](crate::run_file::read) reads them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Row {
    /// What was asked; the first row.
    Run(Box<RunRow>),
    /// A probe, so that old files explain themselves.
    Probe(Box<ProbeInfo>),
    /// An attempt at the run, and the machines that it met.
    Attempt(Box<AttemptRow>),
    /// What was expected.
    Prediction(PredictionRow),
    /// One launch of one block.
    Launch(Box<LaunchRow>),
    /// A launch, or a point, that gave no number.
    Failure(FailureRow),
    /// A point of a completed block.
    Point(Box<PointRow>),
    /// The end of the run.
    End(EndRow),
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// The version of the rows.
    pub schema: u32,
    /// Names this run among all others.
    pub id: String,
    /// When it began (RFC 3339).
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// Draws the order of launches and whatever a worker draws.
    pub seed: u64,
    /// The run whose launches took turns with this one's, by its id: launches of the same number were
    /// neighbours in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// What is to be measured.
    pub plan: Plan,
}

/// What is to be measured, and how precisely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `quick`, `default` or `full`.
    pub precision: Text,
    /// How many launches of each block were asked for, whatever time they take; none: as many as the
    /// precision and its time allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<u32>,
    /// The blocks, in the order of the table.
    pub blocks: Vec<Block>,
    /// What predictions take from earlier runs, as measuring it again would take long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// Which processors do what.
    pub placement: Placement,
    /// Where it is measured, where that is not this machine alone.
    #[serde(default, skip_serializing_if = "Hosts::is_here")]
    pub hosts: Hosts,
}

/// Where a run is measured. Hosts are as `--on` and `--peer` name them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The host of the leading role and of probes with one role; none: this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// The host of the other roles; none: the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The address at which the other roles listen, where it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<IpAddr>,
    /// The first and the last port on which they may, where they were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_ports: Option<(u16, u16)>,
    /// The costof that ssh starts, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_costof: Option<String>,
}

impl Hosts {
    /// Whether everything is measured on this machine.
    pub fn is_here(&self) -> bool {
        *self == Hosts::default()
    }
}

/// A point that an earlier run of the same boot has measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// The id of that run.
    pub run: String,
    /// What it says of the point.
    pub row: PointRow,
}

/// Points that are measured together, all of one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The points.
    pub points: Vec<Point>,
    /// What the headlines among them are called, each with its position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(usize, String)>,
    /// Blocks of a level are measured when those of all earlier ones are complete.
    pub level: u32,
    /// In how many interleaved rounds a launch measures its points.
    pub rounds: u32,
}

/// An attempt at a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// The release.
    pub costof: String,
    /// A hash of the executable.
    pub build: String,
    /// The machine's boot, which is the machine itself until it restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The machines: [`MEASURED`](crate::noise::MEASURED) is that of the leading
    /// roles, [`PEER`](crate::noise::PEER) that of the others where they have a
    /// host of their own.
    pub hosts: BTreeMap<Text, Facts>,
    /// The clock, as calibrated for this attempt.
    pub clock: ClockInfo,
    /// The counters that could be had.
    pub counters: CounterInfo,
    /// The other end, where it is another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerRow>,
}

/// The other end of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRow {
    /// The release there.
    pub costof: String,
    /// A hash of the executable there.
    pub build: String,
    /// Its clock.
    pub clock: ClockInfo,
    /// Its counters.
    pub counters: CounterInfo,
    /// The addresses at which the ends meet: the leading one's and this one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<(IpAddr, IpAddr)>,
}

/// What was expected of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionRow {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The range, and because of what.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// One launch of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRow {
    /// The block's position in the plan.
    pub block: usize,
    /// Which launch of it, from 0.
    pub launch: u32,
    /// How many launches the block is to have; 0 in the first ones, before that is decided.
    pub of: u32,
    /// How long it took from the worker's start to its end, in nanoseconds.
    pub wall_ns: f64,
    /// What each point gave.
    pub points: Vec<LaunchPoint>,
    /// What disturbed it.
    pub noise: Noise,
    /// Which processors did what.
    pub placement: Placement,
    /// What the link really did, where one was emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Box<LinkReport>>,
}

/// What a point gave in one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchPoint {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Whether there is a number.
    pub state: State,
    /// What was measured.
    pub metrics: Vec<Measured>,
    /// Allocations inside what was timed, which are none of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allocations: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a launch gave a point a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It did.
    Ok,
    /// The cost cannot be distinguished from zero.
    BelowResolution,
    /// It failed; a failure row says why.
    Failed,
}

/// A launch, or a point, that gave no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRow {
    /// The point that was being measured.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The block's position in the plan.
    pub block: usize,
    /// Which launch of it; absent where the point as a whole has no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<u32>,
    /// The kind.
    pub kind: FailureKind,
    /// The reason, and the way out where there is one.
    pub reason: String,
}

/// A point of a completed block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointRow {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The version of the probe's method.
    pub method: u32,
    /// The metric that answers the probe's question.
    pub primary: Text,
    /// Whether it stands in the latency table.
    pub headline: bool,
    /// What the field calls it, where it is a headline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// How many launches gave it a number.
    pub launches: u32,
    /// Whether there is a number.
    pub state: State,
    /// What the launches say.
    pub metrics: Vec<Estimate>,
    /// What was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// How far it can be trusted.
    pub grade: Grade,
    /// Doubts, each with advice.
    pub warnings: Vec<Warning>,
    /// Which processors did what.
    pub placement: Placement,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndRow {
    /// When it ended (RFC 3339).
    pub finished: String,
    /// How many points have a number.
    pub points: u64,
    /// How many failures there are.
    pub failures: u64,
}

impl Plan {
    /// The points of all blocks, in their order.
    pub fn points(&self) -> impl Iterator<Item = &Point> + Clone {
        self.blocks.iter().flat_map(|block| &block.points)
    }
}

impl Block {
    /// What the field calls the point at this position, where it is a headline.
    pub fn label(&self, position: usize) -> Option<&str> {
        self.labels
            .iter()
            .find(|(labelled, _)| *labelled == position)
            .map(|(_, label)| label.as_str())
    }
}

impl PointRow {
    /// The estimate of the metric `name`.
    pub fn estimate(&self, name: &str) -> Option<&Estimate> {
        self.metrics.iter().find(|estimate| estimate.name == name)
    }

    /// The median of the metric `name`, in its unit.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.estimate(name).map(|estimate| estimate.median)
    }

    /// The estimate that answers the probe's question; absent below resolution.
    pub fn primary(&self) -> Option<&Estimate> {
        self.estimate(&self.primary)
    }

    /// Whether it has a number for a user, or is below resolution: its launches do not disagree.
    pub fn is_usable(&self) -> bool {
        !self.primary().is_some_and(Estimate::disagrees)
    }

    /// The one rule on noise: whether anything may be concluded from it. Its launches agree, and nothing
    /// was recorded that is large enough to decide what the number is.
    pub fn is_sound(&self) -> bool {
        self.is_usable() && self.grade < Grade::D
    }

    /// The worst doubt about it; of several as bad, the first.
    pub fn worst_doubt(&self) -> Option<&Warning> {
        let warnings = self.warnings.iter().rev();
        warnings.max_by_key(|warning| warning.grade)
    }

    /// Why nothing may be concluded from it, and what to do about that; none where something may.
    pub fn why_unsound(&self) -> Option<String> {
        if self.is_sound() {
            return None;
        }
        let Some(Warning { what, advice, .. }) =
            self.worst_doubt().filter(|_| self.grade == Grade::D)
        else {
            return Some("no usable interval: measure longer (--full)".to_owned());
        };
        Some(format!("grade D: {what}: {advice}"))
    }

    /// What was predicted, and what was measured of that. None where noise decides the row, and where
    /// either is so wide that a hit would say nothing; of shares and counts, as of their intervals, width
    /// is no fault. None either where it only gives back what an emulated link was set to.
    pub fn scored(&self) -> Option<(&Prediction, &Estimate)> {
        let expected = self.prediction.as_ref()?;
        let measured = self.estimate(&expected.metric)?;
        let is_narrow = measured.unit == Unit::One || !expected.is_too_wide();
        let says_something = is_narrow && !measured.disagrees() && !self.gives_back_setting();
        (says_something && self.is_sound()).then_some((expected, measured))
    }

    /// By which factor the prediction was missed, as [`Prediction::missed_by`] has it; none where it
    /// held, or is not scored.
    pub fn missed_by(&self) -> Option<f64> {
        let (expected, measured) = self.scored()?;
        expected.missed_by(measured)
    }

    /// The values of the axes.
    pub fn axes(&self) -> &Axes {
        &self.point.axes
    }
}

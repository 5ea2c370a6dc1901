//! The rows of a run file: one JSON object per line.

use crate::expected::Prediction;
use crate::id::with_id;
use crate::instruments::{ClockInfo, CounterInfo};
use crate::noise::MEASURED;
use crate::protocol::Description;
use crate::{
    Axes, Estimate, Facts, FailureKind, Grade, LinkReport, Measured, Noise, Placement, Point,
    ProbeInfo, Text, Unit, Warning,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What to do about a row without a usable interval.
pub const MEASURE_LONGER: &str = "measure longer (--full)";

/// The version of the rows. Readers ignore unknown fields and unknown rows, and reject a greater
/// version.
pub const SCHEMA: u32 = 1;

/// One row of a run file; [`read`](crate::run_file::read) reads them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Row {
    /// The request; the first row.
    Run(Box<RunRow>),
    /// A probe, so that old files explain themselves.
    Probe(Box<ProbeInfo>),
    /// An attempt at the run, and the machines that it met.
    Attempt(Box<AttemptRow>),
    /// What was expected.
    Prediction(PredictionRow),
    /// One launch of one block.
    Launch(Box<LaunchRow>),
    /// A launch, or a point, without a number.
    Failure(FailureRow),
    /// A point of a completed block.
    Point(Box<PointRow>),
    /// The end of the run.
    End(EndRow),
}

/// The request for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// The version of the rows.
    pub schema: u32,
    /// Identifies this run among all others.
    pub id: String,
    /// When it began (RFC 3339).
    pub started: String,
    /// The command line.
    pub command: Vec<String>,
    /// The seed of the order of launches and of the workers' random numbers.
    pub seed: u64,
    /// The id of the run whose launches took turns with this run's: launches of the same number
    /// were neighbours in time.
    pub beside: Option<String>,
    /// What the person who runs a study predicted, recorded before anything was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guess>,
    /// What is to be measured.
    pub plan: Plan,
}

/// A figure of a study as a person predicted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guess {
    /// The title of the study's table.
    pub table: String,
    /// The name of the row, with that of its column if the table has several.
    pub row: String,
    /// The number, above zero.
    pub value: f64,
    /// Its unit, as the study writes it.
    pub unit: String,
}

impl Guess {
    /// Whether it is of this row of this table.
    pub fn is_of(&self, table: &str, row: &str) -> bool {
        self.table == table && self.row == row
    }
}

/// What is to be measured, and how precisely.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `quick`, `default` or `full`.
    pub precision: Text,
    /// Launches per block, regardless of the time budget; `None` for as many as the precision and
    /// its budget allow.
    pub launches: Option<u32>,
    /// How long to measure at most, in nanoseconds, if the user has set that; `None` for the budget of
    /// the precision.
    pub budget_ns: Option<u64>,
    /// How much longer to measure at most, in nanoseconds, what lacks batches that had the core to themselves.
    pub until_alone_ns: Option<u64>,
    /// The blocks, in the order of the table.
    pub blocks: Vec<Block>,
    /// Points that predictions take from earlier runs, because measuring them again would take
    /// long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// Which CPUs do what.
    pub placement: Placement,
    /// Where the run is measured, if not on this machine alone.
    #[serde(default, skip_serializing_if = "Hosts::is_here")]
    pub hosts: Hosts,
}

/// Where a run is measured. Hosts are named as in `--on` and `--peer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts {
    /// The host of the leading role and of probes with one role; `None` for this machine.
    pub on: Option<String>,
    /// The host of the other roles; `None` for the same host.
    pub peer: Option<String>,
    /// The host without costof that answers instead of the other roles, by the name that the user gave.
    pub to: Option<String>,
    /// The address at which the other roles listen, if the user gave one; that of `to`.
    pub peer_address: Option<IpAddr>,
    /// The first and the last port on which they may listen, if the user gave them.
    pub peer_ports: Option<(u16, u16)>,
    /// The costof that ssh starts, if the user named one.
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
    /// Its row of the point.
    pub row: PointRow,
}

/// Points that are measured together, all of one probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The points.
    pub points: Vec<Point>,
    /// The labels of the headlines among them, each with its position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(usize, String)>,
    /// The positions of the points that nobody asked for: predictions of other points use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needed: Vec<usize>,
    /// The blocks of a level are measured when those of all earlier levels are complete.
    pub level: u32,
    /// How many interleaved rounds a launch measures its points in.
    pub rounds: u32,
}

/// An attempt at a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// The release.
    pub costof: String,
    /// A hash of the executable.
    pub build: String,
    /// The machine's boot, which identifies the machine until it restarts.
    pub boot: Option<String>,
    /// The machines: [`MEASURED`] is that of the leading roles,
    /// [`PEER`](crate::noise::PEER) that of the others, if they have their own host.
    #[serde(deserialize_with = "crate::few::bounded")]
    pub hosts: BTreeMap<Text, Facts>,
    /// The clock, as calibrated for this attempt.
    pub clock: ClockInfo,
    /// The available counters.
    pub counters: CounterInfo,
    /// The other end, if it is another host.
    pub peer: Option<PeerRow>,
}

impl AttemptRow {
    /// An attempt on the machine that a worker describes so, without another end.
    pub fn new(own: &Description) -> AttemptRow {
        AttemptRow {
            costof: own.costof.clone(),
            build: own.build.clone(),
            boot: own.facts.kernel.boot_id.clone(),
            hosts: [(MEASURED.into(), (*own.facts).clone())].into(),
            clock: own.clock.clone(),
            counters: own.counters.clone(),
            peer: None,
        }
    }
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
    /// The addresses by which the ends connect: that of the leading end, then that of this end.
    pub addresses: Option<(IpAddr, IpAddr)>,
}

/// What was expected of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictionRow {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The range, and the reason.
    #[serde(flatten)]
    pub prediction: Prediction,
}

/// One launch of one block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchRow {
    /// The block's position in the plan.
    pub block: usize,
    /// The number of the launch within the block, from 0.
    pub launch: u32,
    /// How many launches the block will have; 0 in the first ones, before that is decided.
    pub of: u32,
    /// How long it took from the choice of its CPUs to its worker's end, in nanoseconds.
    pub wall_ns: f64,
    /// The results of each point.
    pub points: Vec<LaunchPoint>,
    /// What disturbed it.
    pub noise: Noise,
    /// Which CPUs each role used.
    pub placement: Placement,
    /// What the link really did, if it was emulated.
    pub link: Option<Box<LinkReport>>,
}

/// The results of a point in one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchPoint {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Whether there is a number.
    pub state: State,
    /// What was measured.
    pub metrics: Vec<Measured>,
    /// Allocations during the timed operations that are not part of these.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub allocations: u64,
}

/// Whether a launch has a number for a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has one.
    Ok,
    /// The cost cannot be distinguished from zero.
    BelowResolution,
    /// It failed; a failure row says why.
    Failed,
}

/// A launch, or a point, without a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureRow {
    /// The point that was being measured.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// The block's position in the plan.
    pub block: usize,
    /// The number of the launch; absent if the point as a whole has no number.
    pub launch: Option<u32>,
    /// The kind.
    pub kind: FailureKind,
    /// The reason, and what to do about it, if anything.
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
    /// Whether it is in the latency table.
    pub headline: bool,
    /// Its label, if it is a headline.
    pub label: Option<String>,
    /// How many launches have a number for it.
    pub launches: u32,
    /// Whether there is a number.
    pub state: State,
    /// The estimates from the launches.
    pub metrics: Vec<Estimate>,
    /// What was expected.
    pub prediction: Option<Prediction>,
    /// How far the numbers can be trusted.
    pub grade: Grade,
    /// Warnings, each with advice.
    pub warnings: Vec<Warning>,
    /// Which CPUs each role used in the launches that count, all together, those of the first one first.
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

    /// The points that are measured only because predictions use them.
    pub fn needed(&self) -> impl Iterator<Item = &Point> {
        let blocks = self.blocks.iter();
        blocks.flat_map(|block| block.needed.iter().filter_map(|at| block.points.get(*at)))
    }
}

impl Block {
    /// The label of the point at this position, if it is a headline.
    pub fn label(&self, position: usize) -> Option<&str> {
        self.labels
            .iter()
            .find(|(labelled, _)| *labelled == position)
            .map(|(_, label)| label.as_str())
    }
}

/// A metric of a point, as tables of many runs name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricOfPoint {
    /// The point.
    #[serde(flatten, serialize_with = "with_id")]
    pub point: Point,
    /// Its label, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The metric.
    pub metric: Text,
    /// Its unit.
    pub unit: Unit,
}

impl MetricOfPoint {
    /// The metric of this estimate, of its point.
    pub fn new(row: &PointRow, estimate: &Estimate) -> MetricOfPoint {
        MetricOfPoint {
            point: row.point.clone(),
            label: row.label.clone(),
            metric: estimate.name.clone(),
            unit: estimate.unit,
        }
    }

    /// The label in the latency table, or else the point's id.
    pub fn name(&self) -> String {
        let label = self.label.clone();
        label.unwrap_or_else(|| self.point.id())
    }
}

impl PointRow {
    /// The estimate of the metric `name`.
    pub fn estimate(&self, name: &str) -> Option<&Estimate> {
        self.metrics.iter().find(|estimate| estimate.name == name)
    }

    /// The median of the metric `name`, in its unit; `None` without a usable interval.
    pub fn median(&self, name: &str) -> Option<f64> {
        let estimate = self.estimate(name).filter(|estimate| estimate.is_usable());
        estimate.map(|estimate| estimate.median)
    }

    /// The median of a count or share that the kernel or a protocol reported. What was counted
    /// happened, whatever else the machine did and however few launches there were.
    pub fn counted(&self, name: &str) -> Option<f64> {
        self.estimate(name).map(|estimate| estimate.median)
    }

    /// The estimate that answers the probe's question; absent if below resolution.
    pub fn primary(&self) -> Option<&Estimate> {
        self.estimate(&self.primary)
    }

    /// Whether it has a number for a user, or is below resolution: at least three launches gave it a
    /// value, and they do not disagree too much ([`Estimate::usable_interval`]).
    pub fn is_usable(&self) -> bool {
        self.primary().is_none_or(Estimate::is_usable)
    }

    /// The one rule on noise: whether conclusions may use this row. They may if its launches agree,
    /// and no recorded cause is large enough to decide the number.
    pub fn is_sound(&self) -> bool {
        self.is_usable() && self.grade < Grade::D
    }

    /// Orders measurements of one point by how far they are to be trusted, the most trusted first.
    /// Of equal ones, a reader wants the newest.
    pub fn distrust(&self) -> (bool, Grade) {
        (!self.is_usable(), self.grade)
    }

    /// The worst warning; of equally bad ones, the first.
    pub fn worst_doubt(&self) -> Option<&Warning> {
        let warnings = self.warnings.iter().rev();
        warnings.max_by_key(|warning| warning.grade)
    }

    /// Why conclusions must not use this row, and what to do about it; `None` if they may.
    pub fn why_unsound(&self) -> Option<String> {
        if self.is_sound() {
            return None;
        }
        let unusable = self.primary().filter(|estimate| !estimate.is_usable());
        if let Some(estimate) = unusable {
            return Some(format!("{}: {MEASURE_LONGER}", estimate.display()));
        }
        let Warning { what, advice, .. } = self.worst_doubt()?;
        Some(format!("grade D: {what}: {advice}"))
    }

    /// The prediction, and the measurement of the same metric. `None` if noise decides the row, if
    /// the prediction or the interval is so wide that a hit would say nothing, or if the prediction
    /// only repeats the setting of an emulated link. For shares and counts, the width does not
    /// matter.
    // METHOD 19
    pub fn scored(&self) -> Option<(&Prediction, &Estimate)> {
        let expected = self.prediction.as_ref()?;
        let measured = self.estimate(&expected.metric)?;
        let is_narrow = measured.unit == Unit::One || !expected.is_too_wide();
        let says_something = is_narrow && measured.is_usable() && !self.gives_back_setting();
        (says_something && self.is_sound()).then_some((expected, measured))
    }

    /// By which factor the median misses the prediction, as in [`Prediction::missed_by`]; `None` if
    /// it lies inside, or is not scored.
    pub fn missed_by(&self) -> Option<f64> {
        let (expected, measured) = self.scored()?;
        expected.missed_by(measured.median)
    }

    /// The values of the axes.
    pub fn axes(&self) -> &Axes {
        &self.point.axes
    }
}

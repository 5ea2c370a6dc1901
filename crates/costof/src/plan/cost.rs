//! Estimates the time, the memory and the disk space that a plan takes, before any of it has run.

use crate::error::{Error, wrong};
use crate::progress::whole_seconds;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Precision};
use costof_model::Text;
use costof_model::point::Point;
use costof_model::rows::{Block, Plan};
use costof_model::unit::display_bytes;
use costof_report::names::points_counted;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The time of a launch besides measuring: starting a worker for each role, checking the clock, measuring the
/// core clock, gaps, and closing.
pub(super) const LAUNCH_OVERHEAD: Duration = Duration::from_millis(15);
/// The time for sizing a batch and warming up, as a share of the measuring time.
const WARM_UP_SHARE: f64 = 0.4;
/// The time to set up memory for a point, per byte.
const SET_UP_NS_PER_BYTE: f64 = 2.0;
/// The size of a point of one launch in the run file.
const FILE_BYTES_PER_POINT: u64 = 2500;

/// The cost of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(super) points: usize,
    pub(crate) launches: u32,
    pub(crate) time: Duration,
    /// The time of one launch of each block.
    pub(super) once: Duration,
    pub(super) budget: Duration,
    /// For each link, the number of points and the time of a launch of all of them.
    pub(super) links: BTreeMap<Text, (usize, Duration)>,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
}

/// The precision of a plan.
pub(crate) fn precision(plan: &Plan) -> Result<Precision, Error> {
    let named = &plan.precision;
    Precision::named(named)
        .ok_or_else(|| wrong(format!("this costof knows no precision `{named}`")))
}

/// How many launches a block of the plan gets if there is time.
pub(crate) fn launches(plan: &Plan, precision: Precision) -> u32 {
    plan.launches.unwrap_or(precision.launches())
}

/// The time budget of the plan: that of its precision, plus the time that its probes ask for if the plan has
/// more than their headlines.
pub(crate) fn budget(table: &[&'static Probe], plan: &Plan, precision: Precision) -> Duration {
    let more = |block: &&Block| block.labels.len() < block.points.len();
    let blocks = plan.blocks.iter().filter(more);
    let probes: BTreeSet<&str> = blocks
        .filter_map(|block| Some(&*block.points.first()?.probe))
        .collect();
    let budgets = probes
        .into_iter()
        .filter_map(|id| Some(probe::find(table, id)?.budget?.at(precision)));
    precision.budget() + budgets.sum::<Duration>()
}

/// The approximate time of one launch of a block.
pub(crate) fn launch_time(
    table: &[&'static Probe],
    block: &Block,
    precision: Precision,
) -> Duration {
    let usual_ns = precision.batch_time_per_point().as_nanos() as f64 * (1.0 + WARM_UP_SHARE);
    let first = block.points.first();
    let probe = first.and_then(|point| probe::find(table, &point.probe));
    let roles = probe.map_or(1, |probe| probe.roles.len() as u32);
    let measured = block.points.iter().map(|point| {
        // The probe's minimum time is for all of its rounds.
        let least_ns = probe.map_or(0.0, |probe| {
            (probe.least_ns)(point) * f64::from(block.rounds) / f64::from(probe.rounds)
        });
        usual_ns.max(least_ns)
    });
    // Points of a block that need the same amount of memory usually share it.
    let points = block.points.iter();
    let set_up: BTreeSet<u64> = points.map(|point| memory_bytes(table, point)).collect();
    let set_up_bytes: u64 = set_up.into_iter().sum();
    let ns = measured.sum::<f64>() + set_up_bytes as f64 * SET_UP_NS_PER_BYTE;
    LAUNCH_OVERHEAD * roles + Duration::from_nanos(ns as u64)
}

/// The memory that a point needs.
pub(crate) fn memory_bytes(table: &[&'static Probe], point: &Point) -> u64 {
    probe::find(table, &point.probe).map_or(0, |probe| (probe.memory_bytes)(point))
}

/// Rounded to whole MiB if it is more than one.
fn rounded(bytes: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    if bytes < MIB {
        return bytes;
    }
    bytes.next_multiple_of(MIB)
}

impl Cost {
    pub(crate) fn new(table: &[&'static Probe], plan: &Plan, precision: Precision) -> Cost {
        let points = plan.points().count();
        let launches = launches(plan, precision);
        let mut links: BTreeMap<Text, (usize, Duration)> = BTreeMap::new();
        let mut once = Duration::ZERO;
        for block in &plan.blocks {
            let launch = launch_time(table, block, precision);
            once += launch;
            if let Some(point) = block.points.first() {
                let (points, time) = links.entry(point.link.clone()).or_default();
                *points += block.points.len();
                *time += launch;
            }
        }
        let budget = match plan.launches {
            Some(_) => once * launches,
            None => budget(table, plan, precision),
        };
        let memory = plan.points().map(|point| memory_bytes(table, point));
        Cost {
            points,
            launches,
            time: (once * launches).min(budget.max(once * schedule::LEAST_LAUNCHES)),
            once,
            budget,
            links,
            memory_bytes: memory.max().unwrap_or(0),
            file_bytes: points as u64 * u64::from(launches) * FILE_BYTES_PER_POINT,
        }
    }

    /// The cost if launches take turns with those of another host, for each of the two.
    pub(crate) fn interleaved(mut self) -> Cost {
        let paired = schedule::paired(self.launches, self.launches);
        self.time = if self.once * self.launches <= self.budget {
            self.once * paired
        } else {
            self.budget.max(self.once * schedule::LEAST_PAIRED)
        };
        self.launches = paired;
        self
    }

    /// The size of the plan, and how long it takes.
    pub(crate) fn announced(&self) -> String {
        let points = points_counted(self.points);
        format!("{points}, about {} s", whole_seconds(self.time))
    }

    /// A line for each link if there are several, and a sentence about the whole.
    pub(crate) fn sentence(&self) -> String {
        let mut text = String::new();
        for (link, (points, time)) in self.links.iter().filter(|_| self.links.len() > 1) {
            let link = if link == "none" { "no link" } else { link };
            text.push_str(&format!(
                "over {link}: {}, about {} s for a launch of each\n",
                points_counted(*points),
                whole_seconds(*time)
            ));
        }
        text + &format!(
            "{}, up to {} launches of each, about {} s (the budget is {} s), up to {} of \
             memory beside the worker's own, about {} of disk",
            points_counted(self.points),
            self.launches,
            whole_seconds(self.time),
            self.budget.as_secs(),
            display_bytes(rounded(self.memory_bytes)),
            display_bytes((self.file_bytes >> 10).max(1) << 10),
        )
    }
}

//! Estimates the time, the memory and the disk space that a plan takes, before any of it has run.

use crate::error::{Error, wrong};
use crate::progress::whole_seconds;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::{self, Precision};
use costof_model::Text;
use costof_model::harmless;
use costof_model::plural::counted;
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
/// The time to set up memory for a point, per byte: 0.8 for a working set that is written once, 1.4 for a chain
/// of loads, on a virtual machine with pages of 4 KiB.
const SET_UP_NS_PER_BYTE: f64 = 1.2;
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
    /// Why it takes longer than other runs of its precision; empty if it does not.
    pub(super) why: String,
    /// For each link, the number of points and the time of a launch of all of them.
    pub(super) links: BTreeMap<Text, (usize, Duration)>,
    pub(super) memory_bytes: u64,
    pub(super) file_bytes: u64,
}

/// The precision of a plan.
pub(crate) fn precision(plan: &Plan) -> Result<Precision, Error> {
    named_precision(&plan.precision)
}

/// The precision of this name, which a file says.
pub(crate) fn named_precision(name: &str) -> Result<Precision, Error> {
    Precision::named(name).ok_or_else(|| {
        wrong(format!(
            "this costof knows no precision `{}`",
            harmless::beginning(name, 40)
        ))
    })
}

/// How many launches a block of the plan gets if there is time.
pub(crate) fn launches(plan: &Plan, precision: Precision) -> u32 {
    plan.launches.unwrap_or(precision.launches())
}

/// The time budget of the plan: that of its precision, plus the time that its probes ask for.
pub(crate) fn budget(table: &[&'static Probe], plan: &Plan, precision: Precision) -> Duration {
    let more = more_time(table, plan, precision).into_iter();
    precision.budget() + more.map(|(_, time)| time).sum::<Duration>()
}

/// The probes that ask for more time, because more than their headlines is requested, and for how much.
fn more_time<'p>(
    table: &[&'static Probe],
    plan: &'p Plan,
    precision: Precision,
) -> Vec<(&'p str, Duration)> {
    let blocks = plan.blocks.iter().filter(|block| has_more(block));
    let probes = blocks.filter_map(|block| Some(&*block.points.first()?.probe));
    let times = probes.collect::<BTreeSet<&str>>().into_iter();
    let times = times.filter_map(|id| Some((id, probe::find(table, id)?.budget?.at(precision))));
    times.filter(|(_, time)| !time.is_zero()).collect()
}

/// Whether a point of the block was requested that is no headline.
fn has_more(block: &Block) -> bool {
    let mut positions = 0..block.points.len();
    positions.any(|at| block.label(at).is_none() && !block.needed.contains(&at))
}

/// Leaves out the requested blocks without a headline that take longest for a point, until the least launches
/// of the others fit the budget, or a quarter of it beside what has to stay. Returns the number of points left
/// out.
pub(crate) fn fit(table: &[&'static Probe], plan: &mut Plan, precision: Precision) -> usize {
    let budget = budget(table, plan, precision);
    let points = plan.points().count();
    let is_free =
        |block: &Block| block.labels.is_empty() && block.needed.is_empty() && has_more(block);
    let time = |block: &Block| launch_time(table, block, precision);
    let mut once: Duration = plan.blocks.iter().map(time).sum();
    let stay = plan.blocks.iter().filter(|block| !is_free(block)).map(time);
    let stay = stay.sum::<Duration>() * schedule::LEAST_LAUNCHES;
    while once * schedule::LEAST_LAUNCHES > budget.max(stay + budget / 4) {
        let blocks = plan.blocks.iter().enumerate();
        let free = blocks.filter(|(_, block)| is_free(block));
        let each = |block: &Block| time(block) / block.points.len() as u32;
        let Some((longest, _)) = free.max_by_key(|(_, block)| each(block)) else {
            break;
        };
        once -= time(&plan.blocks.remove(longest));
    }
    points - plan.points().count()
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

/// Bytes as binary units, rounded up to whole KiB, or to whole MiB if it is more than one.
fn shown(bytes: u64) -> String {
    let unit = if bytes < 1 << 20 { 1 << 10 } else { 1 << 20 };
    display_bytes(bytes.next_multiple_of(unit))
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
        let least = once * schedule::LEAST_LAUNCHES;
        let why = match more_time(table, plan, precision).as_slice() {
            _ if plan.launches.is_some() => String::new(),
            _ if least > budget => format!(
                ": {} launches of each take that long",
                schedule::LEAST_LAUNCHES
            ),
            more if least > precision.budget() => {
                let more = more.iter().map(|(id, time)| {
                    format!("{id} may take {} s more than other probes", time.as_secs())
                });
                format!(": {}", more.collect::<Vec<_>>().join(", "))
            }
            _ => String::new(),
        };
        let memory = plan.points().map(|point| memory_bytes(table, point));
        Cost {
            points,
            launches,
            time: (once * launches).min(budget.max(least)),
            once,
            budget,
            why,
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

    /// The cost if a run takes at most this long.
    pub(crate) fn or_less(self, time: Duration) -> Cost {
        let why = " or less".to_owned();
        Cost { time, why, ..self }
    }

    /// The size of the plan, and how long it takes.
    pub(crate) fn announced(&self) -> String {
        self.in_short() + &self.why
    }

    /// The same without a reason.
    pub(crate) fn in_short(&self) -> String {
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
        let memory = match self.memory_bytes {
            0 => String::new(),
            bytes => format!(", up to {} of memory beside the worker's own", shown(bytes)),
        };
        text + &format!(
            "{}, up to {} of each, about {} s (the budget is {} s{}){memory}, about {} of disk",
            points_counted(self.points),
            counted(self.launches, "launch"),
            whole_seconds(self.time),
            self.budget.as_secs(),
            self.why,
            shown(self.file_bytes),
        )
    }
}

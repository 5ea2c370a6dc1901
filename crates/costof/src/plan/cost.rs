//! Estimates the time, the memory and the disk space that a plan takes, before any of it has run.

use crate::error::{Result, wrong};
use crate::progress::whole_seconds;
use crate::record::Table;
use costof_measure::probe;
use costof_measure::schedule::{self, Precision};
use costof_model::{Block, Plan, Point, counted, display_bytes, harmless};
use costof_report::names::points_counted;
use std::collections::BTreeSet;
use std::time::Duration;

/// The time of a launch besides measuring: starting a worker for each role, checking the clock, measuring the
/// core clock, gaps, and closing.
pub(super) const LAUNCH_OVERHEAD: Duration = Duration::from_millis(15);
/// The time for sizing a batch and warming up, as a share of the measuring time.
const WARM_UP_SHARE: f64 = 0.4;
/// The time to set up memory for a point, per byte: 0.8 for a working set that is written once, 1.4 for a chain
/// of loads, on a virtual machine with pages of 4 KiB.
const SET_UP_NS_PER_BYTE: f64 = 1.2;

/// The cost of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(super) points: usize,
    pub(crate) launches: u32,
    pub(crate) time: Duration,
    /// The time of one launch of each block.
    pub(super) once: Duration,
    pub(super) budget: Duration,
    /// Whether the run takes at most this time.
    pub(super) or_less: bool,
    pub(super) memory_bytes: u64,
    /// What the largest point writes to a disk while it is measured.
    pub(super) disk_bytes: u64,
}

/// The precision of a plan.
pub(crate) fn precision(plan: &Plan) -> Result<Precision> {
    named_precision(&plan.precision)
}

/// The precision of this name, which a file says.
pub(crate) fn named_precision(name: &str) -> Result<Precision> {
    Precision::parse(name).ok_or_else(|| {
        wrong(format!("this costof knows no precision `{}`", harmless::beginning(name, 40)))
    })
}

/// How many launches a block of the plan gets if there is time.
pub(crate) fn launches(plan: &Plan, precision: Precision) -> u32 {
    plan.launches.unwrap_or(precision.launches())
}

/// The time budget of the plan: the one that the user has set, or else that of its precision, plus the time
/// that its probes ask for.
pub(crate) fn budget(table: Table, plan: &Plan, precision: Precision) -> Duration {
    if let Some(asked_ns) = plan.budget_ns {
        return Duration::from_nanos(asked_ns);
    }
    // Probes of which more than their headlines is requested may ask for more.
    let blocks = plan.blocks.iter().filter(|block| has_more(block));
    let probes = blocks.filter_map(|block| Some(&*block.points.first()?.probe));
    let probes = probes.collect::<BTreeSet<&str>>().into_iter();
    let more =
        probes.filter_map(|id| Some(probe::find(table, id)?.budget?.for_precision(precision)));
    precision.budget() + more.sum::<Duration>()
}

/// Whether a point of the block was requested that is no headline.
fn has_more(block: &Block) -> bool {
    let mut positions = 0..block.points.len();
    positions.any(|at| block.label(at).is_none() && !block.needed.contains(&at))
}

/// Leaves out the requested blocks without a headline that take longest for a point, until the least launches
/// of the others fit the budget, or a quarter of it beside what has to stay. One point stays. Returns the number
/// of points left out.
pub(crate) fn fit(table: Table, plan: &mut Plan, precision: Precision) -> usize {
    let budget = budget(table, plan, precision);
    let is_free =
        |block: &Block| block.labels.is_empty() && block.needed.is_empty() && has_more(block);
    let times = plan.blocks.iter();
    let times: Vec<Duration> = times.map(|block| launch_time(table, block, precision)).collect();
    let mut once: Duration = times.iter().sum();
    let (mut free, stay): (Vec<usize>, Vec<usize>) =
        (0..times.len()).partition(|at| is_free(&plan.blocks[*at]));
    let stay: Duration = stay.iter().map(|at| times[*at]).sum();
    let most = budget.max(stay * schedule::MIN_LAUNCHES + budget / 4);
    // The one that takes longest last.
    free.sort_by_key(|at| times[*at] / plan.blocks[*at].points.len() as u32);
    let mut left_out = BTreeSet::new();
    while once * schedule::MIN_LAUNCHES > most && left_out.len() + 1 < times.len() {
        let Some(longest) = free.pop() else {
            break;
        };
        once -= times[longest];
        left_out.insert(longest);
    }
    let mut points = left_out.iter().map(|at| plan.blocks[*at].points.len()).sum();
    // A block that stays alone may be too long too: its first points stay.
    if let Some(longest) = (0..times.len())
        .filter(|at| !left_out.contains(at) && is_free(&plan.blocks[*at]))
        .max_by_key(|at| times[*at])
    {
        let all = plan.blocks[longest].points.len();
        let over = (once * schedule::MIN_LAUNCHES).saturating_sub(most).as_secs_f64();
        let each = (times[longest] * schedule::MIN_LAUNCHES).as_secs_f64() / all as f64;
        let less = ((over / each).ceil() as usize).min(all - 1);
        plan.blocks[longest].points.truncate(all - less);
        points += less;
    }
    let mut at = 0..;
    plan.blocks.retain(|_| !left_out.contains(&at.next().expect("endless")));
    points
}

/// The approximate time of one launch of a block.
pub(crate) fn launch_time(table: Table, block: &Block, precision: Precision) -> Duration {
    let usual_ns = precision.batch_time_per_point().as_nanos() as f64 * (1.0 + WARM_UP_SHARE);
    let first = block.points.first();
    let probe = first.and_then(|point| probe::find(table, &point.probe));
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
    let roles = probe.map_or(1, |probe| probe.info.roles.len() as u32);
    LAUNCH_OVERHEAD * roles + Duration::from_nanos(ns as u64)
}

/// The memory that a point needs.
pub(crate) fn memory_bytes(table: Table, point: &Point) -> u64 {
    probe::find(table, &point.probe).map_or(0, |probe| (probe.memory_bytes)(point))
}

/// Bytes as binary units, rounded up to whole KiB, or to whole MiB if it is more than one.
fn shown(bytes: u64) -> String {
    let unit = if bytes < 1 << 20 { 1 << 10 } else { 1 << 20 };
    display_bytes(bytes.next_multiple_of(unit))
}

impl Cost {
    /// The cost on a quiet machine.
    pub(crate) fn new(table: Table, plan: &Plan, precision: Precision) -> Cost {
        let launches = launches(plan, precision);
        let once: Duration =
            plan.blocks.iter().map(|block| launch_time(table, block, precision)).sum();
        let budget = match plan.launches {
            Some(_) => once * launches,
            None => budget(table, plan, precision),
        };
        // Past the budget that the user has set, no launch begins.
        let least = match plan.budget_ns {
            Some(_) => Duration::ZERO,
            None => once * schedule::MIN_LAUNCHES,
        };
        let memory = plan.points().map(|point| memory_bytes(table, point));
        let files = plan.points().map(|point| {
            let probe = probe::find(table, &point.probe);
            probe.map_or(0, |probe| (probe.disk_bytes)(point))
        });
        Cost {
            points: plan.points().count(),
            launches,
            time: (once * launches).min(budget.max(least)),
            once,
            budget,
            or_less: false,
            memory_bytes: memory.max().unwrap_or(0),
            disk_bytes: files.max().unwrap_or(0),
        }
    }

    /// The cost if launches take turns with those of another host, for each of the two.
    pub(crate) fn interleaved(mut self) -> Cost {
        let paired = schedule::paired(self.launches, self.launches);
        self.time = if self.once * self.launches <= self.budget {
            self.once * paired
        } else {
            self.budget.max(self.once * schedule::MIN_PAIRED)
        };
        self.launches = paired;
        self
    }

    /// The cost if a run takes at most this long.
    pub(crate) fn or_less(self, time: Duration) -> Cost {
        Cost { time, or_less: true, ..self }
    }

    /// The size of the plan, and how long it takes.
    pub(crate) fn announced(&self) -> String {
        let points = points_counted(self.points);
        let or_less = if self.or_less { " or less" } else { "" };
        format!("{points}, about {} s{or_less}", whole_seconds(self.time))
    }

    /// A sentence about all that the plan takes.
    pub(crate) fn sentence(&self) -> String {
        let memory = match self.memory_bytes {
            0 => String::new(),
            bytes => format!(", up to {} of memory beside the worker's own", shown(bytes)),
        };
        let files = match self.disk_bytes {
            0 => String::new(),
            bytes => format!(", up to {} of disk while it measures", shown(bytes)),
        };
        format!(
            "{}, up to {} of each, about {} s (the budget is {} s){memory}{files}",
            points_counted(self.points),
            counted(self.launches, "launch"),
            whole_seconds(self.time),
            self.budget.as_secs(),
        )
    }
}

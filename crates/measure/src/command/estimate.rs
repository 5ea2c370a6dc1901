//! What follows from the runs of commands. Pure.

use costof_model::timing::{CoreClock, Estimate, TimeComparison, TimeMetric};
use costof_model::{TimedCommand, TimedRun};
use costof_stats::shared_core::{self, CommandRatio, SharedRun};
use costof_stats::{median, median_interval, quantile};
use std::collections::BTreeMap;

/// A run tells something of the core alone if it had the core alone for a part of its time: the tenth of the runs that
/// shared least must have shared at most this.
const MAX_SHARED: f64 = 0.6;
/// Where the median run shared at most this, a wide interval does not come from sharing.
const HARDLY_SHARED: f64 = 0.2;
/// An interval wider than this, as a ratio of its ends, is no answer.
const MAX_RATIO: f64 = 1.5;
/// Several CPUs are all used if the command keeps this share of them busy.
const ALL_BUSY: f64 = 0.8;
/// A command that waits for a larger share of its time is told so.
const WAITS: f64 = 0.2;
/// One that waits for more than this has its wall time compared;
const MOSTLY_WAITS: f64 = 0.5;
/// so has one that uses less than this of a CPU, of which it is not known whether it waits.
const HARDLY_RUNS: f64 = 0.05;
/// The clock counts if the middle four fifths of the runs span at least this many times what a run's readings are off by,
const CLOCK_MOVES: f64 = 5.0;
/// and at least this share of it.
const MIN_CLOCK_MOVES: f64 = 0.005;
/// A difference between slowdowns that a reader should know of, as a ratio.
const OTHER_SLOWDOWN: f64 = 1.15;
/// With fewer runs there is no estimate.
const MIN_RUNS: usize = 4;

/// The usual clock of the cores that some runs had.
#[derive(Clone, Copy)]
struct UsualClock(Option<f64>);

/// Fills in what follows from a command's runs: estimates, or why there is none, and notes.
pub fn estimate(command: &mut TimedCommand) {
    let runs = &command.runs;
    command.wall_ns = as_run(runs, |run| run.wall_ns as f64);
    command.cpu_ns = as_run(runs, |run| run.cpu_ns() as f64);
    (command.alone_ns, command.slowdown, command.alone_unknown) = match alone(runs) {
        Ok((estimate, slowdown)) => (Some(estimate), slowdown, None),
        Err(why) => (None, None, Some(why)),
    };
    let names = runs.iter().flat_map(|run| run.own.keys());
    let own = names.filter_map(|name| Some((name.clone(), as_run_own(runs, name)?)));
    command.own = own.collect();
    command.notes.extend(notes(runs));
}

fn as_run(runs: &[TimedRun], value: impl Fn(&TimedRun) -> f64) -> Option<Estimate> {
    let values: Vec<f64> = runs.iter().map(value).collect();
    estimate_of(&values)
}

fn as_run_own(runs: &[TimedRun], name: &str) -> Option<Estimate> {
    let values: Option<Vec<f64>> = runs.iter().map(|run| Some(run.own.get(name)?.value)).collect();
    estimate_of(&values?)
}

/// The median with its interval; `None` with too few values.
pub fn estimate_of(values: &[f64]) -> Option<Estimate> {
    let interval = median_interval(values)?;
    Some(Estimate { value: median(values)?, low: interval.low, high: interval.high })
}

/// The CPU time with the core alone and the slowdown on a shared one, or why it cannot be known.
fn alone(runs: &[TimedRun]) -> Result<(Estimate, Option<f64>), String> {
    let clock = UsualClock::new(runs);
    let shared_runs: Vec<SharedRun> = shared_runs(runs, clock)?.into_iter().flatten().collect();
    let shares: Vec<f64> = shared_runs.iter().map(|run| run.shared).collect();
    let quantile = |q| quantile(&shares, q).unwrap_or(0.0);
    if quantile(0.1) > MAX_SHARED {
        return Err(format!(
            "the core was shared {:.0} % of the time, so the time alone cannot be told: try again later, or another CPU \
             (--cpu)",
            100.0 * quantile(0.5)
        ));
    }
    let found = shared_core::alone_time(&shared_runs).ok_or_else(|| {
        format!("it needs at least {MIN_RUNS} runs (with --warmup 0, besides the first, which is not placed)")
    })?;
    let (low, high) = found.interval;
    if high > low * MAX_RATIO {
        let why = match quantile(0.5) > HARDLY_SHARED {
            true => "too few runs had the core alone",
            false => "its runs differ too much",
        };
        return Err(format!(
            "{why}: the 95 % interval {} is too wide (run longer: --budget 30s)",
            costof_model::unit::Unit::Nanoseconds.display_range((low, high))
        ));
    }
    let estimate = Estimate { value: found.time, low, high };
    // Where runs hardly shared, or all alike, the slowdown is a guess.
    let varies = quantile(0.9) >= 0.5 && quantile(0.9) - quantile(0.1) > 0.2;
    Ok((estimate, varies.then_some(found.slowdown)))
}

/// CPU times and the shares of them in which the core was shared, or why the gauge does not tell. A run is `None` if something
/// interrupted each of its few readings.
fn shared_runs(runs: &[TimedRun], clock: UsualClock) -> Result<Vec<Option<SharedRun>>, String> {
    let cpus = runs.last().map_or(0, |run| run.cpus.len());
    let parallelism = parallelism(runs);
    if cpus > 1 && runs.len() >= MIN_RUNS && parallelism < ALL_BUSY * cpus as f64 {
        return Err(format!(
            "it used {parallelism:.1} of {cpus} CPUs, and the gauge cannot tell which: --cpu N keeps it on one"
        ));
    }
    let shared = |run: &TimedRun| {
        // A first run that counts was not yet placed on one CPU.
        let core = run.core.filter(|_| run.cpu_ns() > 0 && run.cpus.len() == cpus)?;
        let time = run.cpu_ns() as f64;
        Some(SharedRun { time, shared: core.shared_time(), clock: clock.logarithm(run) })
    };
    let all: Vec<Option<SharedRun>> = runs.iter().map(shared).collect();
    let read = all.iter().flatten().count();
    if 2 * read < runs.len() || read == 0 {
        return Err(format!(
            "the gauge of the core could be read in {read} of {} runs",
            runs.len()
        ));
    }
    Ok(all)
}

impl UsualClock {
    /// The median clock of these runs, if their readings show that it moves from run to run; no time decides that.
    fn new<'r>(runs: impl IntoIterator<Item = &'r TimedRun>) -> UsualClock {
        let clocks: Vec<CoreClock> = runs.into_iter().filter_map(|run| run.core?.clock).collect();
        let means: Vec<f64> = clocks.iter().map(|clock| clock.cycles_per_tick).collect();
        let errors: Vec<f64> = clocks.iter().map(|clock| clock.error).collect();
        UsualClock(median(&means).filter(|usual| {
            let [low, high] = [0.1, 0.9].map(|q| quantile(&means, q).unwrap_or(*usual));
            let error = median(&errors).unwrap_or(f64::INFINITY);
            high - low >= (MIN_CLOCK_MOVES * usual).max(CLOCK_MOVES * error)
        }))
    }

    /// The logarithm of a run's clock over the usual one; 0 if that does not move.
    fn logarithm(self, run: &TimedRun) -> f64 {
        let clock = run.core.and_then(|core| core.clock);
        let over = clock.zip(self.0).map(|(clock, usual)| (clock.cycles_per_tick / usual).ln());
        over.unwrap_or(0.0)
    }
}

/// The median share of the time that a command waits, if it is known of all runs.
fn waiting(runs: &[TimedRun]) -> Option<f64> {
    let waiting: Option<Vec<f64>> = runs.iter().map(TimedRun::waiting).collect();
    median(&waiting?)
}

/// How many CPUs a command uses on average, by the median run.
fn parallelism(runs: &[TimedRun]) -> f64 {
    let parallelism: Vec<f64> = runs.iter().map(TimedRun::parallelism).collect();
    median(&parallelism).unwrap_or(0.0)
}

fn notes(runs: &[TimedRun]) -> Vec<String> {
    let mut notes = Vec::new();
    match waiting(runs) {
        Some(waits) if waits > WAITS => notes.push(format!(
            "waiting (I/O, locks, sleep) {:.0} % of the time, which the gauge cannot explain",
            100.0 * waits
        )),
        None if parallelism(runs) < 1.0 - WAITS => notes.push(format!(
            "used {:.2} CPUs on average; costof cannot tell waiting from CPU contention here",
            parallelism(runs)
        )),
        _ => {}
    }
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    for run in runs {
        match (run.exit_code, run.signal) {
            (Some(0), _) => {}
            (Some(code), _) => *failures.entry(format!("exit code {code}")).or_default() += 1,
            (None, signal) => {
                *failures.entry(format!("signal {}", signal.unwrap_or(0))).or_default() += 1;
            }
        }
    }
    for (how, count) in failures {
        notes.push(format!("{count} of {} runs failed ({how})", runs.len()));
    }
    if let Some(left) = runs.iter().map(|run| run.left).max().filter(|left| *left > 0) {
        let (processes, them) = match left {
            1 => ("process", "it (its CPU time is not counted)"),
            _ => ("processes", "them (their CPU time is not counted)"),
        };
        notes.push(format!("left {left} {processes} running; costof killed {them}"));
    }
    notes
}

/// Compares each command but the first with the first: by this metric, or else by what suits the commands. Both took
/// turns, so their runs are compared turn by turn. Also notes how much a neighbour slows each.
pub fn compare(
    commands: &mut [TimedCommand],
    metric: Option<TimeMetric>,
) -> (TimeMetric, Vec<Option<TimeComparison>>) {
    let metric = metric.unwrap_or_else(|| suitable(commands));
    let Some((first, others)) = commands.split_first_mut() else {
        return (metric, Vec::new());
    };
    let mut is_first_told = false;
    let comparisons = others.iter_mut().map(|other| {
        let differs = other_slowdown(first, other).filter(|_| metric == TimeMetric::Alone);
        is_first_told |= differs.is_some();
        other.notes.extend(differs.or_else(|| slowdown(other)));
        let ratio = ratio(&first.runs, &other.runs, &metric);
        other.not_compared = ratio.as_ref().err().cloned();
        ratio.ok()
    });
    let comparisons = comparisons.collect();
    if !is_first_told {
        first.notes.extend(slowdown(first));
    }
    (metric, comparisons)
}

fn slowdown(command: &TimedCommand) -> Option<String> {
    let slowdown = command.slowdown?;
    Some(format!("on a shared core it takes {slowdown:.2} times as long"))
}

/// Wall time if a command mostly waits; otherwise CPU time, by the state of the core if the gauge shows it.
fn suitable(commands: &[TimedCommand]) -> TimeMetric {
    let waits = |command: &TimedCommand| match waiting(&command.runs) {
        Some(waits) => waits > MOSTLY_WAITS,
        None => parallelism(&command.runs) < HARDLY_RUNS,
    };
    if commands.iter().any(waits) {
        TimeMetric::Wall
    } else if commands
        .iter()
        .skip(1)
        .all(|other| ratio(&commands[0].runs, &other.runs, &TimeMetric::Alone).is_ok())
    {
        TimeMetric::Alone
    } else {
        TimeMetric::Cpu
    }
}

/// The second command's ratio to the first, or why there is none.
fn ratio(
    first: &[TimedRun],
    other: &[TimedRun],
    metric: &TimeMetric,
) -> Result<TimeComparison, String> {
    let found = match metric {
        TimeMetric::Alone => {
            let clock = UsualClock::new(first.iter().chain(other));
            let turns = shared_runs(first, clock)?.into_iter().zip(shared_runs(other, clock)?);
            let (first, other): (Vec<SharedRun>, Vec<SharedRun>) =
                turns.filter_map(|(first, other)| first.zip(other)).unzip();
            shared_core::ratio(&first, &other)
        }
        metric => shared_core::plain_ratio(&values(first, metric)?, &values(other, metric)?),
    };
    let found = found.ok_or_else(|| {
        let read = match metric {
            TimeMetric::Alone => " in which the gauge of the core was read",
            _ => "",
        };
        format!("a comparison needs at least {MIN_RUNS} runs of each{read}")
    });
    let CommandRatio { ratio: value, interval: (low, high), visible } = found?;
    let ratio = Estimate { value, low, high };
    Ok(TimeComparison { ratio, visible, judgement: None })
}

/// The values of a metric as they are, which must be above zero.
fn values(runs: &[TimedRun], metric: &TimeMetric) -> Result<Vec<f64>, String> {
    let value = |run: &TimedRun| match metric {
        TimeMetric::Wall => Ok(run.wall_ns as f64),
        TimeMetric::Cpu | TimeMetric::Alone => Ok(run.cpu_ns() as f64),
        TimeMetric::Own(name) => match run.own.get(name) {
            Some(own) => Ok(own.value),
            None => Err(format!("not all runs print {name}")),
        },
    };
    let above_zero = |value| match value > 0.0 {
        true => Ok(value),
        false => Err("a value of 0 or less has no ratio".to_owned()),
    };
    runs.iter().map(|run| value(run).and_then(above_zero)).collect()
}

/// Says that a neighbour slows one command more than the other: their ratio depends on the state of the core.
fn other_slowdown(first: &TimedCommand, other: &TimedCommand) -> Option<String> {
    let (a, b) = (first.slowdown?, other.slowdown?);
    (a.max(b) > OTHER_SLOWDOWN * a.min(b)).then(|| {
        format!(
            "on a shared core it takes {b:.1} times as long as alone, and {} {a:.1} times: their ratio depends on the \
             neighbour",
            first.name
        )
    })
}

#[cfg(test)]
mod tests;

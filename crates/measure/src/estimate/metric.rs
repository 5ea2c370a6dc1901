//! One metric of a point over its launches: which samples its estimate uses, and the estimate.

use crate::schedule::MIN_LAUNCHES;
use costof_model::metric::{CoreShare, Mode, Percentile, is_too_wide};
use costof_model::{
    ClockInfo, CoreState, Data, Estimate, LaunchPoint, Measured, MetricInfo, Selection,
};
use costof_stats::{
    Distribution, Interval, launch_modes, median, median_interval, pooled_interval,
};

/// Percentiles are shown only for operations that last this many clock reads.
const CLOCK_READS_PER_LATENCY: f64 = 100.0;
/// Of launches alone that are too few for an interval, this share of the samples has to be alone.
const FEW_ALONE_SHARE: f64 = 1.0 / 3.0;
/// At most this many values of a launch are searched for modes.
const VALUES_PER_LAUNCH_MAX: u64 = 1000;
/// The percentiles of a latency.
const PERCENTS: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

pub(super) fn measured<'a>(
    points: &'a [&'a LaunchPoint],
    name: &'a str,
) -> impl Iterator<Item = &'a Measured> {
    points
        .iter()
        .flat_map(|point| point.metrics.iter())
        .filter(move |measured| measured.name == name)
}

/// Which samples a metric's estimate uses: those that had the core to themselves, if enough
/// launches have enough of them; otherwise those that shared it, on the same condition; otherwise
/// all. Times do not influence the choice.
pub(crate) fn selection(launches: &[&Measured]) -> Selection {
    let wanted = launches.len().min(MIN_LAUNCHES as usize);
    let suffices = |selection: Selection| {
        let sufficient = launches.iter().filter(|launch| launch.suffices(selection));
        sufficient.count() >= wanted
    };
    match wanted {
        0 => Selection::All,
        _ => [Selection::Alone, Selection::Shared]
            .into_iter()
            .find(|selection| suffices(*selection))
            .unwrap_or_default(),
    }
}

/// What an estimate of a metric shows: these launches, and which of their samples.
pub(super) struct Shown<'a> {
    pub(super) launches: Vec<&'a Measured>,
    pub(super) selection: Selection,
    /// The interval, if the launches that had the core to themselves are too few for one of their own: from how far all
    /// launches scatter.
    pub(super) of_few: Option<Interval>,
}

impl Shown<'_> {
    /// Whether the estimate counts core cycles, and so is one at a single clock.
    pub(super) fn is_at_one_clock(&self) -> bool {
        clocks(&self.launches, self.selection).is_some_and(|clocks| !clocks.is_empty())
    }
}

/// What an estimate of these launches shows: as [`selection`] says, but those alone even if they are few, where the
/// others show how far launches scatter.
// METHOD 8
pub(super) fn shown<'a>(launches: &[&'a Measured]) -> Shown<'a> {
    let selection = selection(launches);
    let all = || Shown { launches: launches.to_vec(), selection, of_few: None };
    if selection == Selection::Alone {
        return all();
    }
    let (alone, others): (Vec<&Measured>, Vec<&Measured>) =
        launches.iter().partition(|launch| was_alone(launch));
    let own = medians(&alone, Selection::Alone);
    match pooled_interval(&own, &medians(&others, Selection::Shared)) {
        Some(interval) if !is_too_wide((interval.low, interval.high)) => {
            Shown { launches: alone, selection: Selection::Alone, of_few: Some(interval) }
        }
        _ => all(),
    }
}

/// What an estimate of a metric of a point shows.
pub(super) fn shown_of<'a>(points: &'a [&'a LaunchPoint], metric: &'a str) -> Shown<'a> {
    shown(&measured(points, metric).collect::<Vec<_>>())
}

/// Whether a launch had the core to itself for a good part of its samples: if it hardly ever did, they may hide visits
/// that no other launch alone shows.
fn was_alone(launch: &Measured) -> bool {
    let count = |state| launch.count(state) as f64;
    launch.suffices(Selection::Alone)
        && count(Some(CoreState::Alone)) >= FEW_ALONE_SHARE * count(None)
}

/// Which samples of a metric the medians of a point's launches use.
pub(crate) fn selection_of(points: &[&LaunchPoint], metric: &str) -> Selection {
    selection(&measured(points, metric).collect::<Vec<_>>())
}

/// How many samples of a metric of a point were in each state of the core; `None` if no gauge was
/// read.
pub(crate) fn core_of(points: &[&LaunchPoint], metric: &str) -> Option<CoreShare> {
    let launches: Vec<&Measured> = measured(points, metric).collect();
    core_share(&launches, selection(&launches))
}

/// For each launch with enough selected samples of a metric of a point, their median: at one clock of the core, where
/// each launch knows its own.
pub(crate) fn launch_medians(
    points: &[&LaunchPoint],
    metric: &str,
    selection: Selection,
) -> Vec<f64> {
    medians(&measured(points, metric).collect::<Vec<_>>(), selection)
}

/// The medians of these launches at one clock.
pub(super) fn medians(launches: &[&Measured], selection: Selection) -> Vec<f64> {
    at_one_clock(launches, selection).iter().filter_map(Distribution::median).collect()
}

/// For each launch with enough selected samples of a metric of a point, their median in core cycles, and the median of
/// the launches' clocks in hertz; `None` if a launch does not know its clock.
pub(crate) fn launch_cycles(
    points: &[&LaunchPoint],
    metric: &str,
    selection: Selection,
) -> Option<(Vec<f64>, f64)> {
    cycles(&measured(points, metric).collect::<Vec<_>>(), selection)
}

/// Those of these launches.
pub(super) fn cycles(launches: &[&Measured], selection: Selection) -> Option<(Vec<f64>, f64)> {
    let clocks = clocks(launches, selection)?;
    let enough = launches.iter().filter(|launch| is_enough(launch, selection)).zip(&clocks);
    let cycles =
        enough.map(|(launch, hz)| Some(distribution(launch, selection)?.median()? * hz / 1e9));
    Some((cycles.collect::<Option<_>>()?, median(&clocks)?))
}

/// The clock of the core in each launch with enough selected samples, in hertz; `None` if one does not know it.
fn clocks(launches: &[&Measured], selection: Selection) -> Option<Vec<f64>> {
    let enough = launches.iter().filter(|launch| is_enough(launch, selection));
    enough.map(|launch| launch.clock_hz(selection)).collect()
}

/// The selected samples of each launch that has enough of them. Where each knows the clock of its core, the times are
/// those at the median of these clocks: work of one core takes a number of cycles, whatever the clock is.
fn at_one_clock(launches: &[&Measured], selection: Selection) -> Vec<Distribution> {
    let clocks = clocks(launches, selection);
    let common_hz = clocks.as_deref().and_then(median);
    let enough = launches.iter().filter(|launch| is_enough(launch, selection));
    let times = |launch: &Measured| match launch.clock_hz(selection).zip(common_hz) {
        Some((hz, common_hz)) => hz / common_hz,
        None => 1.0,
    };
    enough
        .map(|launch| {
            let times = times(launch);
            let samples = launch.selected(selection).into_iter();
            Distribution::new(samples.map(|(value, count)| (value * times, count)))
        })
        .collect()
}

/// How many samples of a metric were in each state of the core; `None` if no gauge was read.
pub(super) fn core_share(launches: &[&Measured], selection: Selection) -> Option<CoreShare> {
    let gauged: Vec<&&Measured> =
        launches.iter().filter(|launch| launch.gauged.is_some()).collect();
    let count = |state: Option<CoreState>| -> f64 {
        gauged.iter().map(|launch| launch.count(state) as f64).sum()
    };
    let share = |state: CoreState| count(Some(state)) / count(None).max(1.0);
    let shared = gauged.iter().filter(|launch| launch.suffices(Selection::Shared));
    let shared = shared.filter_map(|launch| distribution(launch, Selection::Shared)?.median());
    (!gauged.is_empty()).then(|| CoreShare {
        selection,
        alone: share(CoreState::Alone),
        shared: share(CoreState::Shared),
        shared_median: median(&shared.collect::<Vec<f64>>()),
        alone_by_ratio: None,
    })
}

/// Estimates one metric over all launches; `None` if no launch has it.
pub(super) fn estimate(
    metric: &MetricInfo,
    points: &[&LaunchPoint],
    clock: &ClockInfo,
) -> Option<Estimate> {
    let launches: Vec<&Measured> = measured(points, &metric.name).collect();
    let is_latency = launches.iter().any(|launch| matches!(launch.data, Data::Histogram(_)));
    let Shown { launches: shown, selection, of_few } = shown(&launches);
    let by_launch = at_one_clock(&shown, selection);
    let mut summary = summary(metric, &by_launch)?;
    if let Some(Interval { low, high, rule }) = of_few {
        (summary.ci95, summary.interval) = (Some((low, high)), Some(rule));
    }
    let half = launches.iter().copied().map(half_bucket).fold(0.0, f64::max);
    let within = |(low, high): (f64, f64)| (low * (1.0 - half), high * (1.0 + half));
    Some(Estimate {
        percentiles: if is_latency {
            percentiles(&Distribution::pooled(&by_launch), clock)
        } else {
            Vec::new()
        },
        ci95: summary.ci95.map(within),
        undisturbed: match selection {
            Selection::All => undisturbed(&launches),
            _ => None,
        },
        core: core_share(&launches, selection),
        ..summary
    })
}

/// By how much what a launch measured may differ from what is counted, as a share of it: by half a bucket
/// of a histogram. One of three digits has 1,024 to 2,048 buckets per doubling.
pub(crate) fn half_bucket(launch: &Measured) -> f64 {
    match launch.data {
        Data::Histogram(_) if !launch.exact => 1.0 / 2048.0,
        _ => 0.0,
    }
}

/// Summarizes launches, each given as the distribution of its samples.
pub(super) fn summary(metric: &MetricInfo, by_launch: &[Distribution]) -> Option<Estimate> {
    let medians: Vec<f64> = by_launch.iter().filter_map(Distribution::median).collect();
    let interval = median_interval(&medians);
    // Of a share, no more than 1, or than what a clock's error makes of it.
    let most = medians.iter().copied().fold(metric.most(), f64::max);
    let all = Distribution::pooled(by_launch);
    Some(Estimate {
        name: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        median: median(&medians)?,
        ci95: interval.map(|interval| (interval.low, interval.high.min(most))),
        range: None,
        interval: interval.map(|interval| interval.rule),
        mean: all.mean()?,
        sd: all.standard_deviation(),
        min: all.minimum()?,
        percentiles: Vec::new(),
        n: all.count(),
        undisturbed: None,
        core: None,
        modes: modes(by_launch),
    })
}

/// The selected samples; a histogram counts the middle of each bucket as often as the bucket's
/// count. `None` if there are too few.
pub(super) fn distribution(launch: &Measured, selection: Selection) -> Option<Distribution> {
    is_enough(launch, selection).then(|| Distribution::new(launch.selected(selection)))
}

/// Whether a launch's selected samples represent it. If all samples are selected, they do, however
/// few they are.
pub(super) fn is_enough(launch: &Measured, selection: Selection) -> bool {
    selection == Selection::All || launch.suffices(selection)
}

/// The modes, if there is more than one.
fn modes(by_launch: &[Distribution]) -> Vec<Mode> {
    let values = by_launch.iter().map(|launch| launch.representatives(VALUES_PER_LAUNCH_MAX));
    let mut modes = launch_modes(&values.collect::<Vec<Vec<f64>>>());
    if modes.len() < 2 {
        modes.clear();
    }
    let mode = |costof_stats::Mode { median, share, .. }| Mode { median, share };
    modes.into_iter().map(mode).collect()
}

/// The percentiles for which there are enough samples, n ≥ 10 ÷ (1 − p); none for operations so
/// short that reading the clock is part of them.
fn percentiles(all: &Distribution, clock: &ClockInfo) -> Vec<Percentile> {
    let long_enough =
        all.median().is_some_and(|median| median >= CLOCK_READS_PER_LATENCY * clock.read_ns);
    if !long_enough {
        return Vec::new();
    }
    PERCENTS
        .iter()
        // In floating point, 100 - 99.99 is a little less than 0.01.
        .filter(|percent| all.count() as f64 * (100.0 - **percent) >= 1000.0 - 1e-6)
        .filter_map(|percent| {
            Some(Percentile { percent: *percent, value: all.quantile(percent / 100.0)? })
        })
        .collect()
}

/// The median over launches without the disturbed batches, if any were disturbed.
fn undisturbed(launches: &[&Measured]) -> Option<f64> {
    if launches.iter().all(|launch| launch.disturbed.is_empty()) {
        return None;
    }
    let medians: Vec<f64> = launches
        .iter()
        .filter_map(|launch| {
            let costs = (0..).zip(launch.data.costs());
            let left = costs.filter(|(position, _)| !launch.disturbed.contains(position));
            median(&left.map(|(_, cost)| cost).collect::<Vec<f64>>())
        })
        .collect();
    median(&medians)
}

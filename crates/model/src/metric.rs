//! Metrics: what a launch measured, and the estimate from all launches.

use crate::{Better, Text, Unit};
use costof_stats::IntervalRule;
use serde::{Deserialize, Serialize};

/// A metric that a probe measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// Its name, shared by all probes that measure the same thing.
    pub name: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// Its meaning, in one sentence.
    pub about: Text,
}

/// The metrics that are a share of a whole. They have no unit in a run, and are shown in percent.
const SHARES: &str = "\
    copied crossed device_share fallbacks goodput_share handovers huge_share least_share lost \
    lost_in_queue mapped missed missing off_line preempted receiver_running retransmissions \
    running sender_running shared starved taken unanswered";

/// Of these, those that may be more than the whole: more is read ahead than asked for, a rate is relative to the
/// link's, a distance to a rise.
const MAY_EXCEED: [&str; 3] = ["device_share", "goodput_share", "off_line"];

/// Whether a metric of this name and unit is a share of a whole.
pub fn is_share(name: &str, unit: Unit) -> bool {
    unit == Unit::One && SHARES.split(' ').any(|share| share == name)
}

impl MetricInfo {
    /// The highest value that it can have.
    pub fn most(&self) -> f64 {
        match is_share(&self.name, self.unit) && !MAY_EXCEED.contains(&&*self.name) {
            true => 1.0,
            false => f64::INFINITY,
        }
    }
}

/// One metric of one point, as one launch measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Measured {
    /// The metric's name.
    pub name: Text,
    /// What was measured.
    #[serde(flatten)]
    pub data: Data,
    /// Whether a histogram has the operations themselves: they were few and slow, and a bucket would be
    /// wider than their interval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// Which of the samples had a recorded disturbance, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<u32>,
    /// Whether one thread did all the work and hardly ever gave up its CPU, so that no program could take
    /// CPU time from a sample that is not among the `disturbed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_one_thread: bool,
    /// What the gauge of the core showed during the samples; absent if no gauge was read.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub gauged: Option<Gauged>,
    /// The clock of the core that did the work; absent if several did it, or if it was not read around each batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_clock: Option<BatchClock>,
}

/// The clock of the core during batches, in hertz: the median of their core cycles over the median of their time. So a
/// median time times this is a median in core cycles, although the clock moved from batch to batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchClock {
    /// During all of them.
    pub all_hz: f64,
    /// During those that had the core to themselves, without a disturbance; absent if there were none.
    pub alone_hz: Option<f64>,
}

impl BatchClock {
    /// The highest clock that a file may claim, in hertz.
    const MAX_HZ: f64 = 1e12;

    fn is_possible(self) -> bool {
        let is_clock = |hz: f64| (1.0..=Self::MAX_HZ).contains(&hz);
        is_clock(self.all_hz) && self.alone_hz.is_none_or(is_clock)
    }
}

/// Whether something else used a core's execution units, according to a gauge that is read before
/// and after. Times do not influence it. A run file has one letter for each state, since it may
/// have thousands of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoreState {
    /// Nothing did, before or after.
    #[serde(rename = "a")]
    Alone,
    /// Something did, before and after.
    #[serde(rename = "s")]
    Shared,
    /// Something started, stopped, or used little of it.
    #[serde(rename = "m")]
    Mixed,
}

/// The samples by the state of the core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Gauged {
    /// The state during each sample, in their order.
    #[serde(rename = "core")]
    Samples(Vec<CoreState>),
    /// The parts of a histogram in each state; the rest was mixed.
    #[serde(rename = "by_core")]
    Histogram(Box<ByCore>),
}

/// The parts of a histogram in which the core was in one state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByCore {
    /// While the core was alone.
    pub alone: Vec<(f32, u32)>,
    /// While it was shared.
    pub shared: Vec<(f32, u32)>,
}

/// Which samples an estimate uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// Those during which the core was alone and no recorded cause disturbed them.
    Alone,
    /// Those during which the core was shared.
    Shared,
    /// All of them: no gauge was read, or the core was neither alone nor shared often enough.
    #[default]
    All,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// Batches: operations, and the nanoseconds that they took together.
    Samples(Vec<(u64, f64)>),
    /// Single operations: the middle of a bucket in nanoseconds, and the number of operations in
    /// it. A bucket's width is at most a thousandth of its value, so seven digits are enough. Most
    /// of a large run file are these. Where they are `exact`, each is an operation.
    Histogram(Vec<(f32, u32)>),
    /// One number in the metric's unit.
    Value(f64),
}

/// A measured metric as it is read from a file: serde would first read a flattened enum into a tree
/// of all its numbers, and most of a run file are these.
#[derive(Deserialize)]
struct Unchecked {
    name: Text,
    samples: Option<Vec<(u64, f64)>>,
    histogram: Option<Vec<(f32, u32)>>,
    value: Option<f64>,
    #[serde(default)]
    exact: bool,
    #[serde(default)]
    disturbed: Vec<u32>,
    #[serde(default)]
    by_one_thread: bool,
    core: Option<Vec<CoreState>>,
    by_core: Option<Box<ByCore>>,
    core_clock: Option<BatchClock>,
}

impl Unchecked {
    /// Whether no bucket is beyond what its type holds: it could not be written again.
    fn is_finite(&self) -> bool {
        let parts = self.by_core.iter().flat_map(|by| [&by.alone, &by.shared]);
        let mut buckets = self.histogram.iter().chain(parts).flatten();
        buckets.all(|(ns, _)| ns.is_finite())
    }
}

impl TryFrom<Unchecked> for Measured {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Measured, &'static str> {
        if !read.is_finite() {
            return Err("a bucket of a histogram lies beyond all times");
        }
        if !read.core_clock.is_none_or(BatchClock::is_possible) {
            return Err("no core has such a clock");
        }
        let data = match (read.samples, read.histogram, read.value) {
            (Some(mut samples), None, None) => {
                samples.shrink_to_fit();
                Data::Samples(samples)
            }
            (None, Some(mut buckets), None) => {
                buckets.shrink_to_fit();
                Data::Histogram(buckets)
            }
            (None, None, Some(value)) => Data::Value(value),
            _ => return Err("a metric has one of `samples`, `histogram` and `value`"),
        };
        let gauged = match (read.core, read.by_core) {
            (Some(mut states), None) if states.len() == data.costs().len() => {
                states.shrink_to_fit();
                Some(Gauged::Samples(states))
            }
            (None, Some(parts)) if matches!(data, Data::Histogram(_)) => {
                Some(Gauged::Histogram(parts))
            }
            (None, None) => None,
            _ => return Err("the states of the core do not match the samples"),
        };
        Ok(Measured {
            name: read.name,
            data,
            exact: read.exact,
            disturbed: read.disturbed,
            by_one_thread: read.by_one_thread,
            gauged,
            core_clock: read.core_clock,
        })
    }
}

impl Measured {
    /// A metric for which no gauge was read.
    pub fn new(name: Text, data: Data) -> Measured {
        Measured {
            name,
            data,
            exact: false,
            disturbed: Vec::new(),
            by_one_thread: false,
            gauged: None,
            core_clock: None,
        }
    }

    /// The clock of the core during the selected samples, in hertz; `None` if it is not known.
    pub fn clock_hz(&self, selection: Selection) -> Option<f64> {
        let clock = self.core_clock?;
        match selection {
            Selection::All => Some(clock.all_hz),
            Selection::Alone => clock.alone_hz,
            Selection::Shared => None,
        }
    }

    /// A value that is impossible for a launch of this length, if there is one. `is_timed`: no batch took zero time,
    /// which only those below the clock's resolution may.
    pub fn impossible(&self, launch_ns: f64, is_timed: bool) -> Option<String> {
        let is_time = |ns: f64| (0.0..=launch_ns).contains(&ns) && (ns > 0.0 || !is_timed);
        let found = match &self.data {
            Data::Samples(samples) => samples
                .iter()
                .find(|(count, ns)| *count == 0 || !is_time(*ns))
                .map(|(count, ns)| format!("{count} operations in {ns} ns")),
            Data::Histogram(buckets) => buckets
                .iter()
                .find(|(ns, count)| *count == 0 || !(0.0..=launch_ns).contains(&f64::from(*ns)))
                .map(|(ns, count)| format!("{count} times {ns} ns")),
            Data::Value(_) => None,
        };
        found.map(|found| format!("{}: {found}", self.name))
    }

    /// Each selected sample as a cost or a value, with its count; of a histogram the middle of each
    /// bucket.
    pub fn selected(&self, selection: Selection) -> Vec<(f64, u64)> {
        match (&self.gauged, selection) {
            (_, Selection::All) => self.data.counted(),
            (Some(Gauged::Histogram(parts)), Selection::Alone) => counted(&parts.alone),
            (Some(Gauged::Histogram(parts)), Selection::Shared) => counted(&parts.shared),
            _ => {
                let costs = self.data.costs();
                self.positions(selection).map(|at| (costs[at], 1)).collect()
            }
        }
    }

    /// How many samples there are in one state of the core, or in all states.
    pub fn count(&self, state: Option<CoreState>) -> u64 {
        let sum = |buckets: &[(f32, u32)]| buckets.iter().map(|(_, count)| u64::from(*count)).sum();
        match (&self.gauged, state) {
            (_, None) => self.data.counted().iter().map(|(_, count)| count).sum(),
            (Some(Gauged::Histogram(parts)), Some(CoreState::Alone)) => sum(&parts.alone),
            (Some(Gauged::Histogram(parts)), Some(CoreState::Shared)) => sum(&parts.shared),
            (Some(Gauged::Samples(states)), Some(state)) => {
                states.iter().filter(|own| **own == state).count() as u64
            }
            _ => 0,
        }
    }

    /// The positions of the selected samples; empty for a histogram.
    pub fn positions(&self, selection: Selection) -> impl Iterator<Item = usize> {
        let wanted = match selection {
            Selection::All => None,
            Selection::Alone => Some(CoreState::Alone),
            Selection::Shared => Some(CoreState::Shared),
        };
        let states = match &self.gauged {
            Some(Gauged::Samples(states)) => states.as_slice(),
            _ => &[],
        };
        let count = match wanted {
            None => self.data.costs().len(),
            Some(_) => states.len(),
        };
        (0..count).filter(move |at| {
            let is_disturbed = || self.disturbed.contains(&(*at as u32));
            wanted.is_none_or(|wanted| states[*at] == wanted && !is_disturbed())
        })
    }

    /// Whether enough samples are selected to represent the launch: a median of fewer depends on
    /// the luck of one sample. A value always represents itself.
    pub fn suffices(&self, selection: Selection) -> bool {
        let least = match self.data {
            Data::Value(_) => 1,
            _ => MIN_SELECTED,
        };
        let selected = self.selected(selection);
        selected.iter().map(|(_, count)| count).sum::<u64>() >= least
    }
}

/// A launch needs at least this many samples in one state of the core for a median.
pub const MIN_SELECTED: u64 = 6;

/// One metric of one point, estimated from all launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The metric's name.
    pub name: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// The median over launches of each launch's median.
    pub median: f64,
    /// The 95 % interval of the median; absent with fewer than three launches. Whether it says
    /// anything is decided by [`Estimate::usable_interval`].
    pub ci95: Option<(f64, f64)>,
    /// The least and the greatest launch median; only where there is no usable interval.
    pub range: Option<(f64, f64)>,
    /// How the interval was made.
    pub interval: Option<IntervalRule>,
    /// The mean of all samples.
    pub mean: f64,
    /// The standard deviation of all samples; absent if there is only one.
    pub sd: Option<f64>,
    /// The least sample.
    pub min: f64,
    /// Percentiles; only of latencies, and only those with enough samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<Percentile>,
    /// How many samples there are in all launches.
    pub n: u64,
    /// The median without the batches that had a recorded disturbance; absent if there were none,
    /// or if the median already leaves them out.
    pub undisturbed: Option<f64>,
    /// How the samples divide into states of the core; absent if no gauge was read.
    pub core: Option<CoreShare>,
    /// The modes, if there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
}

/// An interval whose ends are further apart than this factor says nothing.
pub(crate) const WIDEST: f64 = 10.0;

/// Whether an interval is too wide for its middle to count as a number.
pub fn is_too_wide((low, high): (f64, f64)) -> bool {
    low > 0.0 && high > WIDEST * low
}

impl Estimate {
    /// The one rule on what is a number: the 95 % interval of at least three launches that agree
    /// within a factor of ten. For a share or a count near zero, an interval from a thousandth to a
    /// tenth is still precise. Without it, an estimate is shown by [`Estimate::display`] and used
    /// for nothing.
    pub fn usable_interval(&self) -> Option<(f64, f64)> {
        let says_something = |ends: &(f64, f64)| self.unit == Unit::One || !is_too_wide(*ends);
        self.ci95.filter(says_something)
    }

    /// Whether it has a usable interval.
    pub fn is_usable(&self) -> bool {
        self.usable_interval().is_some()
    }

    /// Why it has no usable interval; `None` if it has one.
    pub fn why_unusable(&self) -> Option<&'static str> {
        match self.ci95 {
            Some(_) if self.is_usable() => None,
            Some(_) => Some("too noisy"),
            None => Some("too few launches"),
        }
    }

    /// The median, or what is known without a usable interval: `113 ns`, `too noisy: 16.0–127 ns`.
    pub fn display(&self) -> String {
        let unusable = self.unusable(|(low, high)| match low < high {
            true => self.unit.display_range((low, high)),
            false => self.unit.display(high),
        });
        unusable.unwrap_or_else(|| self.unit.display(self.median))
    }

    /// What is shown in place of a number: between which values the launches lie, as far as it is
    /// known, as written by `shown`. `None` if there is a number.
    pub fn unusable(&self, shown: impl Fn((f64, f64)) -> String) -> Option<String> {
        let what = self.why_unusable()?;
        let range = self.range.or(self.ci95);
        Some(range.map_or_else(|| what.to_owned(), |ends| format!("{what}: {}", shown(ends))))
    }

    /// The value of a percentile; `None` if there were too few samples for it.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let mut percentiles = self.percentiles.iter();
        let found = percentiles.find(|known| (known.percent - percent).abs() < 1e-9);
        found.map(|percentile| percentile.value)
    }
}

/// How a metric's samples divide into states of the core, over all launches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreShare {
    /// Which samples the estimate uses.
    pub selection: Selection,
    /// The share of the samples during which the core was alone, from 0 to 1.
    pub alone: f64,
    /// The share of the samples during which the core was shared, from 0 to 1.
    pub shared: f64,
    /// The median while the core was shared, in the metric's unit; absent if there were too few
    /// samples.
    pub shared_median: Option<f64>,
    /// What the metric would be alone, if it was measured on a shared core and earlier runs know the ratio. It is shown,
    /// and used for nothing.
    pub alone_by_ratio: Option<AloneByRatio>,
}

/// What a metric would be on a core that is alone, by the ratio of shared to alone in earlier runs of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneByRatio {
    /// The value, in the metric's unit.
    pub median: f64,
    /// Where it lies, with 95 % probability: the row's own interval and what the ratio differs by from run to run.
    pub ci95: (f64, f64),
    /// How many earlier runs know the ratio.
    pub runs: u32,
}

/// A percentile of a distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, from 0 to 100.
    pub percent: f64,
    /// Its value, in the metric's unit.
    pub value: f64,
}

/// One mode of a distribution that has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// The median of the samples in this mode.
    pub median: f64,
    /// Its share of the samples, from 0 to 1.
    pub share: f64,
}

/// The number of seven digits that was stored, without the digits that the conversion to `f64`
/// adds.
fn widened(ns: f32) -> f64 {
    let wide = f64::from(ns);
    if wide == 0.0 || wide.abs() >= 1e6 {
        return wide;
    }
    let scale = 10_f64.powi(6 - wide.abs().log10().floor() as i32);
    (wide * scale).round() / scale
}

fn counted(buckets: &[(f32, u32)]) -> Vec<(f64, u64)> {
    let bucket = |(ns, count): &(f32, u32)| (widened(*ns), u64::from(*count));
    buckets.iter().map(bucket).collect()
}

impl Data {
    /// Each sample as a cost or a value, with its count; of a histogram the middle of each bucket.
    pub fn counted(&self) -> Vec<(f64, u64)> {
        match self {
            Data::Histogram(buckets) => counted(buckets),
            other => other.costs().into_iter().map(|cost| (cost, 1)).collect(),
        }
    }

    /// Each sample as a cost or a value; empty for a histogram.
    pub fn costs(&self) -> Vec<f64> {
        match self {
            Data::Samples(samples) => samples.iter().map(|(n, ns)| ns / *n as f64).collect(),
            Data::Histogram(_) => Vec::new(),
            Data::Value(value) => vec![*value],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_shown_by_the_digits_that_it_has() {
        let seven = [99_999.95, 999_999.9, 4_194_303.5, 3e20];
        for ns in [0.0, 0.125, 1.003, 16.383, 512.3].into_iter().chain(seven) {
            let data = Data::Histogram(vec![(ns as f32, 2)]);
            let [(shown, 2)] = data.counted()[..] else {
                panic!("it is one bucket");
            };
            assert_eq!(shown as f32, ns as f32);
            assert!(shown.to_string().len() <= ns.to_string().len(), "{shown} of {ns}");
        }
    }

    #[test]
    fn a_share_near_nothing_is_a_number_and_a_wide_cost_is_none() {
        let estimate = |unit| Estimate {
            unit,
            ci95: Some((0.001, 0.076)),
            ..crate::testing::estimate("shared", 0.02)
        };
        assert_eq!(estimate(Unit::Nanoseconds).usable_interval(), None);
        assert_eq!(estimate(Unit::One).usable_interval(), Some((0.001, 0.076)));
    }

    fn read(text: &str) -> Result<Measured, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn samples_are_selected_by_the_state_of_the_core_and_what_disturbed_them() {
        let text = r#"{"name":"cost","samples":[[1,10.0],[2,22.0],[1,30.0],[1,12.0]],"disturbed":[3],"core":["a","a","s","a"]}"#;
        let measured = read(text).expect("it is valid");
        let selected = |selection| measured.selected(selection);
        assert_eq!(selected(Selection::Alone), [(10.0, 1), (11.0, 1)]);
        assert_eq!(selected(Selection::Shared), [(30.0, 1)]);
        assert_eq!(selected(Selection::All).len(), 4);
        assert_eq!(measured.count(Some(CoreState::Alone)), 3);
        assert!(!measured.suffices(Selection::Alone), "two are too few");
        let written = serde_json::to_string(&measured).expect("it is written");
        assert_eq!(written, text);
    }

    #[test]
    fn the_clock_of_a_core_is_possible_and_kept() {
        let of =
            |clock: &str| format!(r#"{{"name":"cost","samples":[[1,10.0]],"core_clock":{clock}}}"#);
        let text = of(r#"{"all_hz":3e9,"alone_hz":3100000000.0}"#);
        let measured = read(&text).expect("it is valid");
        let clocks = [Selection::All, Selection::Alone, Selection::Shared];
        assert_eq!(clocks.map(|which| measured.clock_hz(which)), [Some(3e9), Some(3.1e9), None]);
        assert_eq!(read(&serde_json::to_string(&measured).unwrap()).unwrap(), measured);
        for clock in [r#"{"all_hz":0}"#, r#"{"all_hz":-3e9}"#, r#"{"all_hz":3e9,"alone_hz":1e300}"#]
        {
            let error = read(&of(clock)).unwrap_err().to_string();
            assert!(error.contains("such a clock"), "{error}");
        }
    }

    #[test]
    fn a_histogram_has_a_part_for_each_state() {
        for (exact, word) in [(false, ""), (true, r#""exact":true,"#)] {
            let text = format!(
                r#"{{"name":"latency","histogram":[[10.0,7],[20.0,3]],{word}"by_core":{{"alone":[[10.0,6]],"shared":[[20.0,2]]}}}}"#
            );
            let measured = read(&text).expect("it is valid");
            assert_eq!(measured.exact, exact);
            assert_eq!(measured.selected(Selection::Alone), [(10.0, 6)]);
            assert_eq!(measured.selected(Selection::Shared), [(20.0, 2)]);
            assert_eq!(measured.count(None), 10);
            assert!(measured.suffices(Selection::Alone) && !measured.suffices(Selection::Shared));
            let written = serde_json::to_string(&measured).expect("it is written");
            assert_eq!(written, text);
        }
    }

    #[test]
    fn what_nobody_can_have_measured_is_found() {
        const LAUNCH_NS: f64 = 1e9;
        for (data, expected) in [
            (Data::Samples(vec![(1, 1e9), (2, 0.5)]), ""),
            (Data::Samples(vec![(1, 1.0), (0, 1.0)]), "0 operations"),
            (Data::Samples(vec![(1, -1.0)]), "in -1 ns"),
            (Data::Samples(vec![(1, 0.0)]), "in 0 ns"),
            (Data::Samples(vec![(1, 1.1e9)]), "in 1100000000 ns"),
            (Data::Samples(vec![(1, f64::NAN)]), "in NaN ns"),
            (Data::Histogram(vec![(0.0, 1), (1e9, 1)]), ""),
            (Data::Histogram(vec![(-1.0, 1)]), "1 times -1 ns"),
            (Data::Histogram(vec![(1.0, 0)]), "0 times 1 ns"),
            (Data::Histogram(vec![(1e20, 1)]), "1 times"),
            // A difference may be anything.
            (Data::Value(-1.0), ""),
        ] {
            let measured = Measured::new("cost".into(), data);
            let found = measured.impossible(LAUNCH_NS, true).unwrap_or_default();
            let is_right = found.contains(expected) && found.is_empty() == expected.is_empty();
            assert!(is_right, "{measured:?}: `{found}`");
        }
        let below = Measured::new("cost".into(), Data::Samples(vec![(1, 0.0)]));
        assert_eq!(below.impossible(LAUNCH_NS, false), None);
    }

    #[test]
    fn what_was_written_before_there_was_a_gauge_has_no_state() {
        let measured = read(r#"{"name":"cost","samples":[[1,10.0]]}"#).expect("it is valid");
        assert_eq!(measured.gauged, None);
        assert!(measured.selected(Selection::Alone).is_empty());
    }

    #[test]
    fn a_bucket_that_is_not_finite_is_refused() {
        for (whole, alone) in [("1e39", "1.0"), ("1.0", "1e39")] {
            let text = format!(
                r#"{{"name":"cost","histogram":[[{whole},1]],"by_core":{{"alone":[[{alone},1]],"shared":[]}}}}"#
            );
            let error = read(&text).expect_err(&text).to_string();
            assert!(error.contains("beyond all times"), "{error}");
        }
    }

    #[test]
    fn states_that_do_not_match_the_samples_are_refused() {
        for text in [
            r#"{"name":"cost","samples":[[1,10.0]],"core":["a","a"]}"#,
            r#"{"name":"cost","samples":[[1,10.0]],"by_core":{"alone":[],"shared":[]}}"#,
            r#"{"name":"cost","value":1.0,"core":["a"],"by_core":{"alone":[],"shared":[]}}"#,
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains("states of the core"), "{error}");
        }
    }

    #[test]
    fn without_a_usable_interval_the_known_range_is_shown_and_nothing_else() {
        let estimate =
            |ci95, range| Estimate { ci95, range, ..crate::testing::estimate("cost", 45.0) };
        let shown = |ci95, range| estimate(ci95, range).display();
        assert_eq!(shown(Some((40.0, 50.0)), None), "45.0 ns");
        let wide = Some((4.0, 500.0));
        assert_eq!(shown(wide, Some((16.0, 127.0))), "too noisy: 16.0–127 ns");
        assert_eq!(shown(wide, None), "too noisy: 4.00–500 ns");
        let few = Some((10.0, 780.0));
        assert_eq!(shown(None, few), "too few launches: 10.0–780 ns");
        assert_eq!(shown(None, Some((9.0, 9.0))), "too few launches: 9.00 ns");
        assert_eq!(shown(None, None), "too few launches");
        let row = crate::testing::RowExt::of_few_launches(
            crate::testing::sized_row("p", 1, 395.0),
            2,
            (10.0, 780.0),
        );
        assert!(!row.is_usable() && !row.is_sound());
        assert_eq!((row.median("cost"), row.interval("cost")), (None, None));
    }
}

//! How many modes a distribution clearly has: one, two or three.
//!
//! # The criterion
//!
//! Split the sorted values in two. The *core* of a side is its middle 80 %, or all of it if that
//! gives more evidence: few values have no outliers to leave out. The *valley* is everything
//! between the two cores. A density with one mode does not rise again on the far side of a valley.
//! So for at least one of the two cores, the expected share of the values in the valley and the
//! core that fall into the core is at most the core's share of the width. It is therefore evidence
//! for two modes if it is improbable that *each* core holds as many values as it does: the binomial
//! tail of the side that shows less, by Chernoff's bound, in nats. This is the excess mass of
//! Müller and Sawitzki ("Excess Mass Estimates and Tests for Multimodality", 1991), which
//! Hartigan's dip measures too, at one split. Skew and long tails are no evidence, since they keep
//! one mode; uniform values are the hardest case.
//!
//! The split with the most evidence counts when
//! 1. the evidence is at least 7 nats: about 1 in 1,000, and about as often does one mode look like
//!    two after all splits were searched (costof-measure's examples/simulate);
//! 2. each side has 5 % of all values, and each core three different ones;
//! 3. the valley is low: at most 30 % of the density of the thinner core;
//! 4. the modes are well separated: the valley is at least half as wide as the wider core, and the
//!    medians differ by at least 5 %.
//!
//! A clock that ticks leaves gaps that are not a valley. So the widest gap inside the two cores is
//! subtracted from the valley's width first.
//!
//! A third mode is searched for in the same way inside the two, or, if no single split gives enough
//! evidence, with two splits at once.

use crate::quantile::{median, quantile_of_sorted};

/// One mode of a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// The median of its values, in their unit.
    pub median: f64,
    /// Its share of all values, 0 to 1; the shares of one sample add up to 1.
    pub share: f64,
    /// Lower end of the middle 80 % of its values, in their unit.
    pub low: f64,
    /// Upper end of the middle 80 % of its values, in their unit.
    pub high: f64,
}

/// The evidence against a single mode, in nats, that a split needs.
const MIN_EVIDENCE: f64 = 7.0;
/// The share of all values that each mode must hold.
const MIN_SHARE: f64 = 0.05;
/// How many different values the core of each mode must hold, so that it has a scatter of its own.
const MIN_DISTINCT: usize = 3;
/// The largest density of the valley, relative to that of the thinner core.
const VALLEY_DENSITY: f64 = 0.3;
/// The smallest width of the valley, relative to that of the wider core.
const VALLEY_WIDTH: f64 = 0.5;
/// The smallest difference between neighbouring medians, relative to the lower one.
const MIN_SEPARATION: f64 = 0.05;
/// The most modes that are distinguished.
const MAX_MODES: usize = 3;
/// A core leaves out one value in this many at each end of its side.
const TRIMMED: usize = 10;

/// The modes of a sample in ascending order: one normally, two or three where the values clearly
/// have them (see the criterion at the head of this file), none without values.
///
/// `values` in any order and unit. Deterministic; sorts a copy, then n log n.
pub fn modes(values: &[f64]) -> Vec<Mode> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let sample = Sample::new(&sorted);
    let parts = sample.parts().into_iter();
    parts.filter_map(|part| sample.mode(part)).collect()
}

/// The modes of the measurements of several launches, with each launch's values in its own list.
///
/// If launches differ by more than their own scatter, their pooled values look like several modes
/// (one in two samples of 6 launches that differ by 5 %, examples/simulate). So modes of the pooled
/// values count only if at least half of the launches have values in two of them. Otherwise the
/// result is the modes of the launches' medians, mostly one, with shares of launches.
pub fn launch_modes(launches: &[Vec<f64>]) -> Vec<Mode> {
    let pooled = modes(&launches.concat());
    if pooled.len() <= 1 || are_inside_launches(&pooled, launches) {
        return pooled;
    }
    let medians: Vec<f64> = launches.iter().filter_map(|launch| median(launch)).collect();
    modes(&medians)
}

/// Whether at least half of the launches have values in two modes.
fn are_inside_launches(modes: &[Mode], launches: &[Vec<f64>]) -> bool {
    let borders: Vec<f64> =
        modes.windows(2).map(|pair| f64::midpoint(pair[0].high, pair[1].low)).collect();
    let mixed = launches.iter().filter(|launch| {
        borders.iter().any(|border| {
            launch.iter().any(|value| value < border) && launch.iter().any(|value| value > border)
        })
    });
    2 * mixed.count() >= launches.len()
}

/// Sorted values, with the sums needed to judge any split of them in constant time.
struct Sample<'a> {
    sorted: &'a [f64],
    gaps: RangeMaximum,
    distinct_before: Vec<usize>,
}

/// The middle 80 % of a side: positions of its first and last value.
#[derive(Clone, Copy)]
struct Core {
    first: usize,
    last: usize,
}

impl Core {
    fn whole(start: usize, end: usize) -> Self {
        Self { first: start, last: end - 1 }
    }

    fn trimmed(start: usize, end: usize) -> Self {
        let trimmed = (end - start) / TRIMMED;
        Self { first: start + trimmed, last: end - 1 - trimmed }
    }

    fn count(self) -> f64 {
        (self.last - self.first + 1) as f64
    }
}

impl<'a> Sample<'a> {
    fn new(sorted: &'a [f64]) -> Self {
        let gaps: Vec<f64> = sorted.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut distinct_before = vec![0];
        distinct_before.extend(gaps.iter().scan(0, |distinct, &gap| {
            *distinct += usize::from(gap > 0.0);
            Some(*distinct)
        }));
        Self { sorted, gaps: RangeMaximum::new(gaps), distinct_before }
    }

    /// The values of each mode, as positions from the first to after the last.
    fn parts(&self) -> Vec<(usize, usize)> {
        let mut parts = vec![(0, self.sorted.len())];
        while parts.len() < MAX_MODES {
            let Some((part, split)) = self.best_split_of(&parts) else {
                break;
            };
            let (start, end) = parts[part];
            parts.splice(part..=part, [(start, split), (split, end)]);
        }
        if parts.len() == 1
            && let Some((lower, upper)) = self.best_pair_of_splits()
        {
            parts = vec![(0, lower), (lower, upper), (upper, self.sorted.len())];
        }
        parts
    }

    fn mode(&self, (start, end): (usize, usize)) -> Option<Mode> {
        let values = self.sorted.get(start..end)?;
        let median = quantile_of_sorted(values, 0.5)?;
        let core = Core::trimmed(start, end);
        Some(Mode {
            median,
            share: values.len() as f64 / self.sorted.len() as f64,
            low: self.sorted[core.first],
            high: self.sorted[core.last],
        })
    }

    /// The part, and the position inside it, at which a split has the most evidence; `None` if no
    /// split has enough.
    fn best_split_of(&self, parts: &[(usize, usize)]) -> Option<(usize, usize)> {
        let mut best = None;
        let mut most = MIN_EVIDENCE;
        for (part, &(start, end)) in parts.iter().enumerate() {
            for split in start + 1..end {
                let evidence = self.evidence(start, split, end).unwrap_or(0.0);
                if evidence >= most {
                    most = evidence;
                    best = Some((part, self.at_widest_gap(start, split, end)));
                }
            }
        }
        best
    }

    /// Two splits that together show three modes. With three modes at equal distances, no single
    /// split shows any, since the side with two of them looks like one wide mode.
    fn best_pair_of_splits(&self) -> Option<(usize, usize)> {
        let places = self.places_for_a_pair();
        let end = self.sorted.len();
        let mut best = None;
        let mut most = MIN_EVIDENCE;
        for (i, &lower) in places.iter().enumerate() {
            for &upper in &places[i + 1..] {
                let below = self.evidence(0, lower, upper).unwrap_or(0.0);
                let above = self.evidence(lower, upper, end).unwrap_or(0.0);
                if below.min(above) >= most {
                    most = below.min(above);
                    best = Some((lower, upper));
                }
            }
        }
        let (lower, upper) = best?;
        Some((self.at_widest_gap(0, lower, upper), self.at_widest_gap(lower, upper, end)))
    }

    /// The widest gap in each 64th of the values: all pairs of all gaps would take too long.
    fn places_for_a_pair(&self) -> Vec<usize> {
        const PLACES: usize = 64;
        let positions: Vec<usize> = (1..self.sorted.len()).collect();
        positions
            .chunks(self.sorted.len().div_ceil(PLACES).max(1))
            .filter_map(|chunk| chunk.iter().copied().max_by(|&a, &b| self.by_gap(a, b)))
            .collect()
    }

    /// Orders two positions by the gap below each.
    fn by_gap(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let gap = |position: usize| self.sorted[position] - self.sorted[position - 1];
        gap(a).total_cmp(&gap(b))
    }

    /// The position of the widest gap in the valley around `split`: cores leave out the ends of
    /// their sides, so a split slightly next to the valley has the same evidence as one inside it.
    fn at_widest_gap(&self, start: usize, split: usize, end: usize) -> usize {
        (Core::trimmed(start, split).last + 1..=Core::trimmed(split, end).first)
            .max_by(|&a, &b| self.by_gap(a, b))
            .unwrap_or(split)
    }

    /// Evidence in nats that the values of `start..end` have a mode on each side of `split`, with
    /// the cores that give more of it; `None` if the sides are too small or not clearly apart.
    fn evidence(&self, start: usize, split: usize, end: usize) -> Option<f64> {
        let least = MIN_SHARE * self.sorted.len() as f64;
        if ((split - start).min(end - split) as f64) < least {
            return None;
        }
        let whole = self.evidence_of_cores(Core::whole(start, split), Core::whole(split, end));
        let trimmed =
            self.evidence_of_cores(Core::trimmed(start, split), Core::trimmed(split, end));
        let separated = self.is_separated(start, split, end);
        whole.into_iter().chain(trimmed).reduce(f64::max).filter(|_| separated)
    }

    fn evidence_of_cores(&self, left: Core, right: Core) -> Option<f64> {
        if self.distinct(left).min(self.distinct(right)) < MIN_DISTINCT {
            return None;
        }
        let tick = self.widest_gap(left).max(self.widest_gap(right));
        let gap = self.sorted[right.first] - self.sorted[left.last];
        let valley = Valley { width: gap - tick, count: (right.first - left.last - 1) as f64 };
        let (left_width, right_width) = (self.width(left), self.width(right));
        let thinner = (left.count() / left_width).min(right.count() / right_width);
        let clear = valley.width >= VALLEY_WIDTH * left_width.max(right_width)
            && valley.count <= VALLEY_DENSITY * thinner * valley.width;
        clear.then(|| {
            valley
                .evidence(left.count(), left_width)
                .min(valley.evidence(right.count(), right_width))
        })
    }

    fn distinct(&self, core: Core) -> usize {
        self.distinct_before[core.last] - self.distinct_before[core.first] + 1
    }

    fn is_separated(&self, start: usize, split: usize, end: usize) -> bool {
        let middle = |start: usize, end: usize| self.sorted[usize::midpoint(start, end - 1)];
        let (low, high) = (middle(start, split), middle(split, end));
        high - low >= MIN_SEPARATION * low.abs()
    }

    fn width(&self, core: Core) -> f64 {
        self.sorted[core.last] - self.sorted[core.first]
    }

    fn widest_gap(&self, core: Core) -> f64 {
        self.gaps.maximum(core.first, core.last)
    }
}

struct Valley {
    width: f64,
    count: f64,
}

impl Valley {
    /// Chernoff's bound on the binomial tail: how improbable, in nats, a core of `count` values and
    /// `width` is next to this valley if the density does not rise from the valley to the core.
    fn evidence(&self, count: f64, width: f64) -> f64 {
        let total = count + self.count;
        let (seen, expected) = (count / total, width / (width + self.width));
        if seen <= expected {
            return 0.0;
        }
        let in_valley = if self.count > 0.0 {
            (1.0 - seen) * ((1.0 - seen) / (1.0 - expected)).ln()
        } else {
            0.0
        };
        total * (seen * (seen / expected).ln() + in_valley)
    }
}

/// The maximum over any range of a list in constant time: a sparse table.
struct RangeMaximum {
    /// `levels[k][i]` is the maximum of the 2^k values from `i` on.
    levels: Vec<Vec<f64>>,
}

impl RangeMaximum {
    fn new(values: Vec<f64>) -> Self {
        let mut levels = vec![values];
        let mut span = 1;
        while let Some(below) = levels.last().filter(|below| below.len() > span) {
            let level = below.iter().zip(&below[span..]).map(|(a, b)| a.max(*b));
            levels.push(level.collect());
            span *= 2;
        }
        Self { levels }
    }

    /// The maximum of the values from `start` to before `end`; 0 where there are none.
    fn maximum(&self, start: usize, end: usize) -> f64 {
        if start >= end {
            return 0.0;
        }
        let level = (end - start).ilog2() as usize;
        let second = end - (1 << level);
        self.levels[level][start].max(self.levels[level][second])
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::Distribution;

    const SIZES: [usize; 6] = [12, 30, 60, 100, 1000, 10_000];

    fn normal(random: &mut Rng) -> f64 {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.f64()).cos()
    }

    /// Round trips in µs, `slow_in_ten` of ten with a core that had to be woken.
    fn round_trips(random: &mut Rng, count: usize, slow_in_ten: usize) -> Vec<f64> {
        (0..count)
            .map(|trip| {
                if trip % 10 < slow_in_ten {
                    55.0 + 8.0 * random.f64()
                } else {
                    13.0 + 3.0 * random.f64()
                }
            })
            .collect()
    }

    /// How many of 100 samples (20 of the largest) have not exactly one mode.
    fn false_alarms(count: usize, draw: impl Fn(&mut Rng, f64) -> f64) -> usize {
        let samples = if count > 1000 { 20 } else { 100 };
        let mut random = Rng::with_seed(11);
        (0..samples)
            .filter(|_| {
                let values: Vec<f64> =
                    (0..count).map(|i| draw(&mut random, i as f64 / count as f64)).collect();
                modes(&values).len() != 1
            })
            .count()
    }

    #[test]
    fn sleeping_and_awake_cores_are_two_modes() {
        let mut random = Rng::with_seed(3);
        for count in [30, 60, 100, 1000, 10_000] {
            for slow_in_ten in [2, 5, 8] {
                let found = modes(&round_trips(&mut random, count, slow_in_ten));
                let [fast, slow] = found[..] else {
                    panic!("{count} values, {slow_in_ten} of 10 slow: {found:?}");
                };
                assert!((fast.share - (1.0 - slow_in_ten as f64 / 10.0)).abs() < 1e-9);
                assert!((fast.share + slow.share - 1.0).abs() < 1e-9);
                assert!(fast.low >= 13.0 && fast.median < 16.0 && fast.high <= 16.0);
                assert!(slow.low >= 55.0 && slow.median < 63.0 && slow.high <= 63.0);
            }
        }
    }

    #[test]
    fn six_slow_values_of_thirty_are_enough() {
        let found = (0..50)
            .filter(|&seed| modes(&round_trips(&mut Rng::with_seed(seed), 30, 2)).len() == 2);
        assert!(found.count() >= 48);
    }

    /// Launches of 20 values with a scatter of 0.2 %, each around a median of its own.
    fn launches_around(random: &mut Rng, medians: &[f64]) -> Vec<Vec<f64>> {
        let launch =
            |median: &f64| (0..20).map(|_| median * (1.0 + 0.002 * normal(random))).collect();
        medians.iter().map(launch).collect()
    }

    #[test]
    fn launches_that_differ_are_no_modes() {
        let mut random = Rng::with_seed(3);
        let (mut found, mut pooled) = (0, 0);
        for _ in 0..100 {
            let medians: Vec<f64> = (0..9).map(|_| (0.05 * normal(&mut random)).exp()).collect();
            let launches = launches_around(&mut random, &medians);
            found += usize::from(launch_modes(&launches).len() > 1);
            pooled += usize::from(modes(&launches.concat()).len() > 1);
        }
        assert!(found <= 1, "{found}");
        assert!(pooled >= 10, "the test shows nothing: {pooled}");
    }

    #[test]
    fn modes_inside_launches_are_found() {
        let mut random = Rng::with_seed(3);
        let launches: Vec<Vec<f64>> = (0..6).map(|_| round_trips(&mut random, 20, 3)).collect();
        let found = launch_modes(&launches);
        assert_eq!(found, modes(&launches.concat()));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn launches_in_two_modes_are_found_where_there_are_enough() {
        let mut random = Rng::with_seed(3);
        let medians = [14.0, 14.2, 58.0, 14.1, 13.9, 59.0, 57.5, 14.3, 14.0, 58.4, 13.8, 14.1];
        let found = launch_modes(&launches_around(&mut random, &medians));
        assert_eq!(found.len(), 2);
        assert!((found[1].share - 4.0 / 12.0).abs() < 1e-9, "{found:?}");
        let few = launch_modes(&launches_around(&mut random, &medians[..6]));
        assert!(few.len() == 1 && few[0].share == 1.0, "{few:?}");
    }

    #[test]
    fn no_launches_have_no_modes() {
        assert_eq!(launch_modes(&[]), []);
        assert_eq!(launch_modes(&[vec![], vec![]]), []);
    }

    #[test]
    fn three_modes_are_three() {
        let mut random = Rng::with_seed(3);
        for count in [60, 300, 10_000] {
            for places in [[10.0, 20.0, 30.0], [10.0, 20.0, 80.0]] {
                let values: Vec<f64> =
                    (0..count).map(|i| places[i % 3] + 0.8 * normal(&mut random)).collect();
                let found = modes(&values);
                let medians: Vec<f64> = found.iter().map(|mode| mode.median.round()).collect();
                assert_eq!(medians, places, "{count} values");
            }
        }
    }

    #[test]
    fn a_mode_stays_one_when_a_few_values_are_late() {
        let mut random = Rng::with_seed(3);
        let mut values = round_trips(&mut random, 1000, 3);
        for (i, value) in values.iter_mut().enumerate().filter(|(i, _)| i % 50 == 0) {
            *value += 5.0 * (i / 50) as f64;
        }
        let found = modes(&values);
        let shares: Vec<f64> = found.iter().map(|mode| mode.share).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((shares[0] - 0.7).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn values_that_differ_little_or_rarely_are_one_mode() {
        type Value = fn(usize, f64) -> f64;
        let samples: [(&str, usize, Value); 4] = [
            ("modes that overlap", 10_000, |i, noise| 30.0 + 4.0 * (i % 2) as f64 + noise),
            ("three percent are slow", 1000, |i, noise| {
                let place = if i % 33 == 0 { 58.0 } else { 14.0 };
                place + 0.5 * noise
            }),
            ("a tick that is never hit", 10_000, |i, _| {
                let tick = i % 22;
                let first = if tick < 11 { 20 } else { 21 };
                (first + tick) as f64
            }),
            ("a difference of two percent", 200, |i, noise| {
                100.0 + 2.0 * (i % 2) as f64 + 0.05 * noise
            }),
        ];
        for (name, count, value) in samples {
            let mut random = Rng::with_seed(3);
            let values: Vec<f64> = (0..count).map(|i| value(i, normal(&mut random))).collect();
            assert_eq!(modes(&values).len(), 1, "{name}");
        }
    }

    #[test]
    #[ignore = "long; ./check --all runs it"]
    fn skew_tails_drift_and_clock_ticks_are_one_mode() {
        fn ticks(random: &mut Rng, tick: f64) -> f64 {
            ((20.0 + normal(random)) / tick).round() * tick
        }
        type Draw = fn(&mut Rng, f64) -> f64;
        // With how many false alarms there may be.
        let draws: [(&str, usize, Draw); 11] = [
            ("normal", 1, |random, _| 20.0 + normal(random)),
            ("uniform", 1, |random, _| random.f64()),
            ("lognormal 0.2", 1, |random, _| (0.2 * normal(random)).exp()),
            ("lognormal 0.5", 1, |random, _| (0.5 * normal(random)).exp()),
            ("Pareto 1.5", 1, |random, _| (1.0 - random.f64()).powf(-1.0 / 1.5)),
            ("around zero", 1, |random, _| normal(random)),
            ("drift", 1, |random, part| (0.01 * normal(random)).exp() * (1.0 + 0.035 * part)),
            ("ticks of 0.3", 0, |random, _| ticks(random, 0.3)),
            ("ticks of 1", 0, |random, _| ticks(random, 1.0)),
            ("ticks of 2", 0, |random, _| ticks(random, 2.0)),
            ("ticks cut to whole nanoseconds", 0, |random, _| {
                ((4.0 * (0.3 * normal(random)).exp()).round() * 41.67).floor()
                    + random.f64().round()
            }),
        ];
        for (name, most, draw) in draws {
            for count in SIZES {
                let alarms = false_alarms(count, draw);
                assert!(alarms <= most, "{name}, {count} values: {alarms} false alarms");
            }
        }
    }

    #[test]
    fn the_order_of_the_values_does_not_matter() {
        let mut random = Rng::with_seed(3);
        let mut values = round_trips(&mut random, 90, 4);
        let found = modes(&values);
        random.shuffle(&mut values);
        assert_eq!(modes(&values), found);
    }

    #[test]
    fn few_or_equal_values_are_one_mode_and_no_values_none() {
        assert_eq!(modes(&[]), []);
        assert_eq!(modes(&[3.0]).len(), 1);
        assert_eq!(modes(&[3.0, 70.0]).len(), 1);
        let equal = modes(&[3.0; 50]);
        assert_eq!(equal, [Mode { median: 3.0, share: 1.0, low: 3.0, high: 3.0 }]);
    }

    #[test]
    fn a_histogram_has_the_modes_of_its_values() {
        let mut random = Rng::with_seed(3);
        let trips = round_trips(&mut random, 20_000, 3);
        let buckets = trips.iter().map(|us| (us * 1000.0 / 16.0).ceil() * 16.0);
        let found = modes_of(buckets.collect());
        let [fast, slow] = found[..] else {
            panic!("{found:?}");
        };
        assert!((fast.share - 0.7).abs() < 0.001 && (slow.share - 0.3).abs() < 0.001);
        assert!((14_300.0..14_700.0).contains(&fast.median), "{fast:?}");
        assert!((58_800.0..59_200.0).contains(&slow.median), "{slow:?}");
    }

    #[test]
    fn coarse_logarithmic_buckets_are_no_modes() {
        let mut random = Rng::with_seed(3);
        // Buckets 6 % wide, as of a histogram with few significant digits.
        let buckets = (0..50_000).map(|_| {
            let latency = 20_000.0 * (0.5 * normal(&mut random)).exp();
            1.06_f64.powf(latency.log(1.06).ceil()).trunc()
        });
        assert_eq!(modes_of(buckets.collect()).len(), 1);
    }

    /// The modes of a histogram, given the bucket of each of its values.
    fn modes_of(mut buckets: Vec<f64>) -> Vec<Mode> {
        buckets.sort_unstable_by(f64::total_cmp);
        let values = buckets.chunk_by(|a, b| a == b);
        let counted = values.map(|bucket| (bucket[0], bucket.len() as u64));
        modes(&Distribution::new(counted).representatives(8192))
    }
}

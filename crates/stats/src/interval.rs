//! The 95 % interval of a median over launches or of a ratio, and whether twice the work took twice
//! the time.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::difference::t_quantile;
use crate::quantile::{mean, median, standard_deviation};

/// The confidence that every interval asks for.
pub const CONFIDENCE: f64 = 0.95;

/// An interval needs at least this many values.
const MIN_VALUES: usize = 3;

/// From this many values on, the interval is a pair of order statistics; with five, it would cover
/// only 93.75 %.
pub const ORDER_FROM: usize = 6;

/// How an interval was made, as files say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalRule {
    /// A pair of order statistics of the values; no assumption about their shape.
    Order,
    /// Student's t on the logarithms of the values, which assumes that these are normally distributed; on the values
    /// themselves if one of them is not positive.
    T,
}

/// A range that holds the true median with [`CONFIDENCE`] or more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// How it was made.
    pub rule: IntervalRule,
}

impl Interval {
    /// Whether `value` is inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The upper end minus the lower end, in the unit of the values.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The interval of the median around which `launch_medians` scatter, one value per launch.
///
/// From [`ORDER_FROM`] values on: the narrowest symmetric pair of order statistics that covers the
/// median with 95 % or more by the binomial distribution (David and Nagaraja, "Order Statistics",
/// 2003, section 7.1). For 3 to 5 values: Student's t on their logarithms. `None` for fewer than three.
pub fn median_interval(launch_medians: &[f64]) -> Option<Interval> {
    match launch_medians.len() {
        0..MIN_VALUES => None,
        MIN_VALUES..ORDER_FROM => student_t_interval(launch_medians),
        _ => order_interval(launch_medians),
    }
}

/// As [`median_interval`], for values of either sign, such as differences and logarithms: t is
/// computed from the values themselves.
pub fn difference_interval(differences: &[f64]) -> Option<Interval> {
    match differences.len() {
        0..MIN_VALUES => None,
        MIN_VALUES..ORDER_FROM => t_interval(differences, |value| value, 0.0),
        _ => order_interval(differences),
    }
}

fn order_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = narrowest_rank(sorted.len())?;
    Some(Interval {
        low: sorted[rank],
        high: sorted[sorted.len() - 1 - rank],
        rule: IntervalRule::Order,
    })
}

/// The largest rank (from 0) whose symmetric pair still covers.
fn narrowest_rank(count: usize) -> Option<usize> {
    let values_below_median = Binomial::new(0.5, count as u64).ok()?;
    let covers = |rank: &usize| coverage(&values_below_median, *rank) >= CONFIDENCE;
    (0..count / 2).take_while(covers).last()
}

fn coverage(values_below_median: &Binomial, rank: usize) -> f64 {
    1.0 - 2.0 * values_below_median.cdf(rank as u64)
}

/// Costs are positive and skewed, so t is computed from their logarithms: it covers as well there,
/// and cannot go below zero. If a value is not positive, it is computed from the values themselves; a count
/// or a share, which may be zero but not less, has an interval from zero on.
fn student_t_interval(values: &[f64]) -> Option<Interval> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    if least <= 0.0 {
        let interval = t_interval(values, |value| value, 0.0)?;
        let floor = if least < 0.0 { f64::NEG_INFINITY } else { 0.0 };
        return Some(Interval { low: interval.low.max(floor), ..interval });
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    t_interval(&logarithms, f64::exp, 0.0)
}

/// The interval of their mean, or with `next` 1 that of the next value; its ends are converted by `back`.
fn t_interval(values: &[f64], back: fn(f64) -> f64, next: f64) -> Option<Interval> {
    let centre = mean(values)?;
    let t = t_quantile(f64::midpoint(1.0, CONFIDENCE), values.len() as u32 - 1)?;
    let half = t * standard_deviation(values)? * (next + 1.0 / values.len() as f64).sqrt();
    Some(Interval { low: back(centre - half), high: back(centre + half), rule: IntervalRule::T })
}

/// The interval of the median of the positive `values`, of which there are too few to show how far they scatter: as far
/// as they and `others`, which have another median, scatter around their own. Student's t on logarithms with the pooled
/// variance; as wide as it should be if both scatter alike, wider if the others scatter more.
///
/// `None` if both together have fewer than three values, if `values` is empty, or if one is not positive and finite.
///
/// Source: Snedecor and Cochran, "Statistical Methods" (1989), section 6.8.
pub fn pooled_interval(values: &[f64], others: &[f64]) -> Option<Interval> {
    let is_good = |value: &&f64| value.is_finite() && **value > 0.0;
    let good = values.iter().chain(others).filter(is_good).count();
    if values.is_empty() || good < values.len() + others.len() {
        return None;
    }
    let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let [own, others] = [values, others].map(logarithms);
    let freedom = |values: &[f64]| values.len().saturating_sub(1);
    let squares = |values: &[f64]| {
        let deviation = standard_deviation(values).unwrap_or(0.0);
        freedom(values) as f64 * deviation * deviation
    };
    let freedoms = freedom(&own) + freedom(&others);
    let t = t_quantile(f64::midpoint(1.0, CONFIDENCE), freedoms as u32).filter(|_| freedoms > 0)?;
    let variance = (squares(&own) + squares(&others)) / freedoms as f64;
    let (centre, half) = (mean(&own)?, t * (variance / own.len() as f64).sqrt());
    let (low, high) = ((centre - half).exp(), (centre + half).exp());
    Some(Interval { low, high, rule: IntervalRule::T })
}

/// Where the next of such positive values lies with [`CONFIDENCE`], by Student's t on their logarithms: wider than the
/// interval of their median, however many there are.
///
/// `None` with fewer than three, or if one is not positive and finite.
///
/// Source: Hahn and Meeker, "Statistical Intervals" (1991), section 4.8.
pub fn next_value_interval(values: &[f64]) -> Option<Interval> {
    let is_good = |value: &f64| value.is_finite() && *value > 0.0;
    if values.len() < MIN_VALUES || !values.iter().all(is_good) {
        return None;
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    t_interval(&logarithms, f64::exp, 1.0)
}

/// The interval of the median ratio. `numerators[i]` and `denominators[i]` come from the same
/// launch, so that what they share (address layout, core clock) cancels.
///
/// `None` with fewer than three launches, different lengths, or a ratio that is not finite.
pub fn ratio_interval(numerators: &[f64], denominators: &[f64]) -> Option<Interval> {
    if numerators.len() != denominators.len() {
        return None;
    }
    let pairs = numerators.iter().zip(denominators);
    let ratios: Vec<f64> = pairs.map(|(above, below)| above / below).collect();
    if !ratios.iter().all(|ratio| ratio.is_finite()) {
        return None;
    }
    median_interval(&ratios)
}

/// The lowest and the highest ratio at which twice the work counts as twice the time.
const DOUBLE: (f64, f64) = (1.9, 2.1);

/// The median of these ratios of the time for twice the work to the time for the work, one ratio per launch, and its
/// interval, if that is wholly outside 2 ± 5 %: twice the work did not take twice the time. `None` also without an
/// interval.
pub fn refuted_doubling(ratios: &[f64]) -> Option<(f64, Interval)> {
    let interval = median_interval(ratios)?;
    let is_refuted = interval.high < DOUBLE.0 || interval.low > DOUBLE.1;
    Some((median(ratios)?, interval)).filter(|_| is_refuted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 5] = [61.2, 14.1, 15.3, 58.7, 13.9];

    #[test]
    fn three_to_five_values_have_scipys_t_interval() {
        // x = log(VALUES[:n]); exp(scipy.stats.t.interval(.95, n - 1, loc=mean(x), scale=scipy.stats.sem(x)))
        let expected = [
            (3, 3.0446700931568986, 183.4711299906519),
            (4, 8.140415999250406, 108.14425029328376),
            (5, 9.66365950329601, 67.264253626044),
        ];
        for (count, low, high) in expected {
            let found = median_interval(&VALUES[..count]).expect("there are three values");
            assert_eq!(found.rule, IntervalRule::T);
            assert!((found.low / low - 1.0).abs() < 1e-8 && (found.high / high - 1.0).abs() < 1e-8);
        }
    }

    #[test]
    fn few_values_scatter_as_they_and_others_do() {
        // Both around their own mean: scipy.stats.t.ppf(.975, 1 + 2) * sqrt((s1**2 + 2 * s2**2) / 3 / 2) of logarithms.
        let found = pooled_interval(&VALUES[1..3], &[20.0, 22.0, 21.0]).unwrap();
        assert!((found.low * found.high / (14.1 * 15.3) - 1.0).abs() < 1e-9);
        assert!(((found.high / found.low).ln() / 2.0 - 0.115_321).abs() < 1e-6, "{found:?}");
        // One value scatters as the others do alone, and two with no others by themselves.
        let one = pooled_interval(&[15.0], &[20.0, 22.0, 21.0]).unwrap();
        assert!(one.low < 15.0 && one.high > 15.0 && one.contains(15.0));
        assert!(pooled_interval(&[14.1, 15.3], &[]).is_some());
        for (values, others) in
            [(&[][..], &VALUES[..]), (&[15.0], &[20.0]), (&[0.0], &[20.0, 21.0])]
        {
            assert_eq!(pooled_interval(values, others), None);
        }
    }

    #[test]
    fn intervals_of_few_values_cover() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut value = |median: f64| -> f64 {
            let uniform: f64 = (0..12).map(|_| random.f64()).sum();
            median * (0.05 * (uniform - 6.0)).exp()
        };
        for (own, others) in [(1, 3), (2, 1), (2, 6)] {
            let covered = (0..4000).filter(|_| {
                let values: Vec<f64> = (0..own).map(|_| value(10.0)).collect();
                let others: Vec<f64> = (0..others).map(|_| value(17.0)).collect();
                pooled_interval(&values, &others).unwrap().contains(10.0)
            });
            let share = covered.count() as f64 / 4000.0;
            assert!((0.94..=0.96).contains(&share), "{own}, {others}: {share}");
        }
    }

    #[test]
    fn the_next_value_lies_in_an_interval_that_does_not_shrink_to_nothing() {
        // x = log(VALUES[:3]); exp(mean(x) ± scipy.stats.t.ppf(.975, 2) * std(x, ddof=1) * sqrt(1 + 1/3)):
        // twice as wide as the interval of their mean.
        let mean = median_interval(&VALUES[..3]).expect("there are three values");
        let next = next_value_interval(&VALUES[..3]).expect("there are three values");
        let width = |interval: Interval| (interval.high / interval.low).ln();
        assert!((width(next) / width(mean) - 2.0).abs() < 1e-9);
        assert!((next.low * next.high / (mean.low * mean.high) - 1.0).abs() < 1e-9);
        let many: Vec<f64> = (0..200).map(|at| 1.2 + 0.1 * f64::from(at % 2)).collect();
        let next = next_value_interval(&many).unwrap();
        assert!(next.low < 1.2 && next.high > 1.3, "{next:?}");
        assert_eq!(next_value_interval(&[1.0, 2.0]), None);
        assert_eq!(next_value_interval(&[1.0, 2.0, 0.0]), None);
    }

    #[test]
    fn values_that_are_not_all_positive_have_their_own_t_interval() {
        // scipy.stats.t.interval(.95, 2, loc=mean(x), scale=scipy.stats.sem(x))
        let found = median_interval(&[-1.5, 2.0, 0.25]).expect("there are three values");
        assert!(
            (found.low - -4.0972409955630775).abs() < 1e-8
                && (found.high - 4.5972409955630775).abs() < 1e-8
        );
    }

    #[test]
    fn a_count_that_may_be_zero_has_no_interval_below_zero() {
        let found = median_interval(&[0.0, 0.0, 3.0]).expect("there are three values");
        assert_eq!(found.low, 0.0);
        assert!(found.high > 3.0, "{found:?}");
        assert_eq!(median_interval(&[0.0; 3]).unwrap().width(), 0.0);
    }

    #[test]
    fn from_six_values_on_the_ranks_are_scipys() {
        // scipy.stats.quantile_test(range(n), q=0, p=.5).confidence_interval(.95)
        let expected = [
            (6, 0.0, 5.0),
            (7, 0.0, 6.0),
            (8, 0.0, 7.0),
            (9, 1.0, 7.0),
            (15, 3.0, 11.0),
            (20, 5.0, 14.0),
            (101, 40.0, 60.0),
            (1000, 468.0, 531.0),
        ];
        for (count, low, high) in expected {
            let values: Vec<f64> = (0..count).rev().map(f64::from).collect();
            let found = median_interval(&values).expect("there are six values");
            assert_eq!((found.low, found.high), (low, high), "{count} values");
            assert_eq!(found.rule, IntervalRule::Order);
        }
    }

    #[test]
    fn the_launch_counts_from_six_on_waste_little_coverage() {
        for count in [6, 9, 12, 15, 20] {
            let rank = narrowest_rank(count).unwrap();
            let attained = coverage(&Binomial::new(0.5, count as u64).unwrap(), rank);
            assert!((CONFIDENCE..0.97).contains(&attained), "{count}: {attained}");
        }
    }

    #[test]
    fn six_values_cover_with_more_than_the_confidence_and_five_with_less() {
        assert_eq!((narrowest_rank(5), narrowest_rank(6)), (None, Some(0)));
        assert_eq!(median_interval(&[1.0; 6]).unwrap().width(), 0.0);
    }

    #[test]
    fn fewer_than_three_values_have_no_interval() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[1.0, 2.0]), None);
    }

    /// Share of experiments whose interval holds 1, the median of what `launch` draws.
    fn share_covered(count: usize, launch: impl Fn(&mut fastrand::Rng) -> f64) -> f64 {
        const EXPERIMENTS: usize = 4000;
        let mut random = fastrand::Rng::with_seed(7);
        let covered = (0..EXPERIMENTS).filter(|_| {
            let launches: Vec<f64> = (0..count).map(|_| launch(&mut random)).collect();
            median_interval(&launches).is_some_and(|interval| interval.contains(1.0))
        });
        covered.count() as f64 / EXPERIMENTS as f64
    }

    #[test]
    fn intervals_of_lognormal_launches_cover() {
        for count in [3, 4, 5, 6, 9, 12, 15, 20] {
            let covered = share_covered(count, |random| {
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                (0.05 * radius * (std::f64::consts::TAU * random.f64()).cos()).exp()
            });
            assert!(covered >= 0.94, "{count} launches cover {covered}");
        }
    }

    #[test]
    fn order_intervals_of_launches_with_two_modes_cover_where_t_may_not() {
        let two_modes = |random: &mut fastrand::Rng| {
            let place = random.f64();
            if place < 0.6 { 0.5 + 0.6 * place / 0.6 } else { 4.0 }
        };
        // The median, at place 0.5, is this draw's 1.0.
        for count in [6, 9, 12, 15] {
            let covered = share_covered(count, two_modes);
            assert!(covered >= 0.945, "{count} launches cover {covered}");
        }
        assert!(share_covered(5, two_modes) < 0.92);
    }

    #[test]
    fn what_launches_share_cancels_in_their_ratio() {
        let core_clocks = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2];
        let once = core_clocks.map(|clock| 10.0 * clock);
        let twice = core_clocks.map(|clock| 20.0 * clock);
        let ratio = ratio_interval(&twice, &once).expect("six launches");
        assert!((ratio.low - 2.0).abs() < 1e-12 && (ratio.high - 2.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_that_cannot_be_made_have_no_interval() {
        assert_eq!(ratio_interval(&[], &[]), None);
        assert_eq!(ratio_interval(&[1.0; 6], &[1.0; 5]), None);
        assert_eq!(ratio_interval(&[1.0; 3], &[1.0, 0.0, 1.0]), None);
    }

    #[test]
    fn work_that_was_optimised_away_is_refuted() {
        let (ratio, interval) = refuted_doubling(&[1.0, 1.01, 0.99, 1.0, 1.02, 1.0]).unwrap();
        assert_eq!((ratio, interval.low, interval.high), (1.0, 0.99, 1.02));
    }

    #[test]
    fn a_ratio_near_two_or_an_interval_that_reaches_into_the_band_refutes_nothing() {
        for ratios in [
            &[1.98, 2.0, 2.01, 1.99, 2.02, 2.0][..],
            &[1.5, 1.6, 1.7, 1.8, 1.85, 1.9],
            &[2.0, 2.0, 2.0, 2.0, 2.0, 2.2],
            &[2.05, 2.15, 2.15, 2.15, 2.2, 2.2],
            &[2.09; 6],
            &[5.0, 5.0],
            &[],
        ] {
            assert_eq!(refuted_doubling(ratios), None, "{ratios:?}");
        }
    }

    #[test]
    fn a_ratio_just_outside_the_band_is_refuted() {
        for ratio in [2.11, 1.89] {
            assert!(refuted_doubling(&[ratio; 6]).is_some(), "{ratio}");
        }
    }
}
